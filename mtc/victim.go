package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/report"
)

// victim is the part of a node that other nodes steal from.
type victim struct {
	*turn
	policy.Patience
	policy.Bulletin
	core   *Core
	last   uint64 // number of the last offer
	open   map[uint64]*xfer
	order  []uint64 // of open, oldest first
	asks   map[filch.NodeName]lastAsk
	at     time.Duration            // when the victim asks about the oldest transfer
	gifts  map[filch.NodeName]*xfer // pushed in this turn
	robber filch.NodeName           // the node that last stole here
}

func (v *victim) init(c *Core) {
	v.core, v.turn = c, &c.turn
	v.open, v.gifts = make(map[uint64]*xfer), make(map[filch.NodeName]*xfer)
	v.asks = make(map[filch.NodeName]lastAsk)
	v.at = filch.Never
}

// took takes in the duration of the last transfer, or a lower bound, and sets the wait.
func (v *victim) took(d time.Duration) {
	v.Took(d)
	v.at = filch.Never
	for _, x := range v.open { // any order: the least
		if !x.asking {
			v.at = min(v.at, x.since+v.Wait())
		}
	}
}

// lastAsk is the last answer to a thief, in case the thief repeats the question.
type lastAsk struct {
	ask  uint64
	xfer uint64
}

// xfer is an offer under way: its tasks are frozen until the thief has them or the victim
// thaws them.
type xfer struct {
	id     uint64
	thief  filch.NodeName
	offer  *message.Offer
	items  []frozen
	since  time.Duration // when the offer was sent, or the homes were asked
	asking bool
	gift   bool // of a node that drains
	space  int  // left for the tasks of a push
}

// frozen is a part of an offer as the victim had the part.
type frozen struct {
	job       *job
	span      policy.Range // of a range
	item      queue.Item   // else
	dedicated bool
}

func (f *frozen) count() int64 {
	if f.span.Hi > 0 {
		return f.span.Left()
	}
	return 1
}

// Load is how many tasks here could be stolen.
func (c *Core) Load() int64 {
	n, _ := c.victim.loadFor(&message.Means{}, nil)
	return n
}

// loadFor is how many tasks the thief could steal, and the class of the first; without a
// thief, any thief. If there are none, the slow tasks count of which the thief may run copies.
func (v *victim) loadFor(m *message.Means, thief *filch.Member) (load int64, class int32) {
	if m.Fill.Held() {
		return v.heldLoad(m, thief)
	}
	for _, j := range v.core.order {
		if v.stealable(j, m, thief) {
			suits := j.suits(thief)
			n := v.bound(j, thief) + v.spare(j, suits, m, thief) + j.queue.LateFor(suits, v.inTime(m)) + j.queue.LackingFor(v.served(j, m, suits))
			if load == 0 && n > 0 {
				class = j.ticket.Class
			}
			load += n
		}
	}
	if load == 0 {
		return v.core.copies.Load(m, thief)
	}
	return load, class
}

// offerNews sends news of work here.
func (v *victim) offerNews() {
	load, class := v.loadFor(&message.Means{}, nil)
	if load == 0 {
		v.Idle()
		v.core.waits.at = min(v.core.waits.at, v.Kept(v.now))
		return
	}
	if n := len(v.core.order); n > 0 {
		v.Calls.Heard(v.core.order[n-1].ticket.Class)
	}
	ready := int64(0)
	if slices.ContainsFunc(v.core.order, func(j *job) bool { return j.leader != nil && j.rec != nil && j.rec.Leveled() }) {
		ready = load
	}
	names := v.Round(v.now, class, v.core.cfg.Members, policy.News{Self: v.core.cfg.Self, Ready: ready, Victims: v.core.mover.victims(), Fits: v.hasFor}, &v.core.rng)
	v.core.waits.at = min(v.core.waits.at, v.Next(v.now))
	for _, name := range names {
		v.send(name, &message.News{Load: load, Class: class, Source: v.core.thief.Source()})
	}
}

// hasFor reports whether there is work here for a node: tasks, or copies of slow tasks.
func (v *victim) hasFor(p *filch.Member) bool {
	return p != nil && (slices.ContainsFunc(v.core.order, func(j *job) bool { return v.stealable(j, &message.Means{}, p) }) || v.core.copies.HasFor(p))
}

// onSteal answers a thief with half of the stealable tasks, frozen until the owner is
// known.
func (v *victim) onSteal(from filch.NodeName, m *message.Steal) {
	last := v.asks[from]
	switch {
	case m.Ask < last.ask:
		return
	case m.Ask == last.ask:
		if x := v.open[last.xfer]; x != nil {
			v.send(from, x.offer)
		}
		return
	}
	p := v.core.cfg.Members.Get(from)
	if p == nil || p.Standing >= filch.Dead {
		return
	}
	x := &xfer{thief: from, offer: &message.Offer{Life: v.core.self.Incarnation, Ask: m.Ask}}
	if m.Fill.Held() {
		v.freezeHeld(x, &m.Means, p)
	} else {
		load, _ := v.loadFor(&m.Means, p)
		v.freeze(x, &m.Means, p, policy.Half(load))
	}
	if len(x.items) == 0 {
		v.asks[from] = lastAsk{m.Ask, 0}
		v.Askers.Add(from)
		if !m.Fill.Held() {
			v.core.copies.Offer(x.offer, &m.Means, p)
		}
		v.send(from, x.offer)
		return
	}
	v.asks[from] = lastAsk{m.Ask, v.openXfer(x)}
	v.robber = from
	v.send(from, x.offer)
}

func (v *victim) openXfer(x *xfer) uint64 {
	v.last++
	x.id, x.since = v.last, v.now
	x.offer.Xfer = x.id
	for i := range x.items {
		x.items[i].job.queue.frozen += x.items[i].count()
	}
	if mutants.StealPops {
		v.closeXfer(x, false)
		return x.id
	}
	v.open[x.id] = x
	v.order = append(v.order, x.id)
	v.at = min(v.at, v.now+v.Wait())
	return x.id
}

// ahead is how many tasks of a job a thief may have: if the tasks have levels, as many as the
// thief starts soon.
func (v *victim) ahead(j *job, m *message.Means, thief *filch.Member) int64 {
	if j.rec == nil || !j.rec.Leveled() {
		return filch.Unbounded
	}
	return policy.Ahead(m.Free.Slots, thief.Total.Slots, v.core.mover.length())
}

// freeze takes want of the stealable tasks out of the queues, oldest job first.
func (v *victim) freeze(x *xfer, m *message.Means, thief *filch.Member, want int64) {
	space := message.OfferSpace
	for _, j := range v.core.order {
		if want <= 0 {
			return
		}
		if !v.stealable(j, m, thief) {
			continue
		}
		suits := j.suits(thief)
		for _, it := range j.queue.CutLate(suits, v.inTime(m), min(want, int64(v.core.cfg.Bounds.Offer-len(x.offer.Tasks))), &space) {
			want--
			x.addTask(j, it, false)
		}
		for _, it := range j.queue.CutLacking(v.served(j, m, suits), min(want, int64(v.core.cfg.Bounds.Offer-len(x.offer.Tasks))), &space) {
			want--
			x.addTask(j, it, false)
		}
		for _, it := range j.queue.CutBound(thief.Name, min(want, v.bound(j, thief)), &space) {
			want--
			x.addTask(j, it, true)
		}
		here := min(want, v.spare(j, suits, m, thief), v.ahead(j, m, thief))
		room := message.OfferRangesMax - len(x.offer.Ranges)
		for _, s := range j.queue.Ranges.Halve(here, room) {
			want -= s.Left()
			here -= s.Left()
			x.addRange(j, s)
		}
		here = min(here, int64(v.core.cfg.Bounds.Offer-len(x.offer.Tasks)))
		near := j.queue.CutNear(suits, thief.Name, here, &space)
		for _, it := range slices.Concat(near, j.queue.Cut(suits, here-int64(len(near)), &space)) {
			want--
			x.addTask(j, it, false)
		}
	}
}

func (x *xfer) addRange(j *job, s policy.Range) {
	x.items = append(x.items, frozen{job: j, span: s})
	x.offer.Ranges = append(x.offer.Ranges, message.RangeItem{Job: j.id, Lo: s.Next, Hi: s.Hi, Hop: s.Hop})
}

func (x *xfer) addTask(j *job, it queue.Item, dedicated bool) {
	x.items = append(x.items, frozen{job: j, item: it, dedicated: dedicated})
	x.offer.Tasks = append(x.offer.Tasks, message.TaskItem{
		Job: j.id, Index: it.Index, Attempt: it.Attempt, Hop: it.Hop, Crashes: it.Crashes, Recalls: it.Recalls, Maybe: it.Maybe, Need: it.Need, Dedicated: dedicated,
		Level: it.Level, Bytes: it.Bytes, Inputs: it.Inputs,
	})
}

// give pushes a task to the node that is best for the task (MATRIX v2, Algorithm 1, line 17;
// ADAGE): an offer without a question, with the other tasks of this turn for the node.
func (v *victim) give(j *job, it queue.Item, to filch.NodeName, dedicated bool) {
	x := v.gifts[to]
	if x == nil || len(x.items) == v.core.cfg.Bounds.Offer || !it.Fits(&x.space) {
		x = &xfer{thief: to, offer: &message.Offer{Life: v.core.self.Incarnation}, space: message.OfferSpace}
		it.Fits(&x.space)
		v.gifts[to] = x
		v.openXfer(x)
		v.out.Sends = append(v.out.Sends, Send{To: to, Message: x.offer}) // filled until the end of the turn
	}
	x.addTask(j, it, dedicated)
	j.queue.frozen++
}

// onDone ends a transfer: the thief committed the moves that it could.
func (v *victim) onDone(from filch.NodeName, m *message.Done) {
	x := v.open[m.Xfer]
	if x == nil || x.thief != from || x.asking || m.Life != v.core.self.Incarnation {
		return
	}
	if !m.All {
		v.reclaim(x)
		return
	}
	v.took(v.now - x.since)
	given := report.Event{Kind: report.Given, Peer: from}
	for i := range x.items {
		f := &x.items[i]
		if i == 0 {
			given.Job = f.job.id
		}
		given.Count += int32(f.count())
		if f.span.Hi == 0 {
			f.job.queue.Forget(f.item.Index)
			if f.job.leader != nil && f.job.leader.tracker != nil {
				f.job.leader.away[f.item.Index] = from
			}
		}
	}
	v.happened(given)
	v.closeXfer(x, true)
	for i := range x.items {
		if j := x.items[i].job; j.running == 0 && j.queue.Empty() && v.core.jobs[j.id] == j {
			v.core.caps.Linger(j)
			v.core.forget(j)
		}
	}
}

func (v *victim) closeXfer(x *xfer, listed bool) {
	for i := range x.items {
		x.items[i].job.queue.frozen -= x.items[i].count()
	}
	if listed {
		delete(v.open, x.id)
		v.order = slices.DeleteFunc(v.order, func(id uint64) bool { return id == x.id })
	}
}

// onDeath asks at once about offers to a node that is gone.
func (v *victim) onDeath(o record.Owner) {
	for _, id := range slices.Clone(v.order) {
		if x := v.open[id]; x.thief == o.Node && !x.asking {
			v.reclaim(x)
		}
	}
	delete(v.asks, o.Node)
	if t := &v.core.thief; t.StealsFrom(o.Node) {
		t.Failed()
	}
}

// tick asks about transfers without an answer.
func (v *victim) tick() {
	if v.at > v.now {
		return
	}
	v.at = filch.Never
	for _, id := range slices.Clone(v.order) {
		x := v.open[id]
		switch {
		case x == nil || x.asking:
		case x.since+v.Wait() <= v.now:
			wait := v.now - x.since
			v.reclaim(x)
			v.took(wait)
		default:
			v.at = min(v.at, x.since+v.Wait())
		}
	}
}

// reclaim takes back the tasks of an offer that are still ours. Reclaim moves each task
// to this node under another hop: if the victim only looked up the owner, the thief's own
// late move could succeed after the thaw.
func (v *victim) reclaim(x *xfer) {
	x.asking, x.since = true, v.now
	if x.gift {
		v.core.drain.wait = v.now + shedAgain
	}
	if mutants.BlindThaw {
		for i := range x.items {
			v.thaw(&x.items[i], 0)
		}
		v.closeXfer(x, true)
		return
	}
	left := 1
	done := func() {
		if left--; left == 0 {
			v.took(v.now - x.since)
			v.closeXfer(x, true)
			for i := range x.items {
				v.core.gotWork(x.items[i].job)
			}
		}
	}
	for i := range x.items {
		f := &x.items[i]
		left++
		if f.span.Hi > 0 {
			v.reclaimRange(f, done)
			continue
		}
		op := record.BlockOp{Kind: record.BlockMove, Off: uint8(f.item.Index % record.BlockSize), From: v.core.self}
		op.Attempt, op.Hop, op.Owner = f.item.Attempt, f.item.Hop, v.core.self
		num := f.item.Index / record.BlockSize
		v.core.commits.merge(record.KeyBlock(f.job.id, num), record.RecordBlock, record.EncodeBlockOps([]record.BlockOp{op}, false), func(a record.Answer) {
			p, err := record.DecodeBlockReply(a.Value)
			v.core.recorder.EndedBefore(f.job, num, &p)
			if err == nil && len(p.Verdicts) == 1 && p.Verdicts[0] == record.VerdictDone {
				v.thaw(f, 1)
			} else {
				f.job.queue.Forget(f.item.Index)
				if f.job.leader != nil {
					f.job.leader.away[f.item.Index] = x.thief
				}
			}
			done()
		})
	}
	done()
}

func (v *victim) reclaimRange(f *frozen, done func()) {
	left := 0
	for num, part := range record.Zones(f.span.Next, f.span.Hi) {
		lo, hi := part[0], part[1]
		op := record.ZoneOp{Kind: record.ZoneMove, Lo: lo, Hi: hi, Front: lo, Hop: f.span.Hop, Owner: v.core.self, From: v.core.self}
		left++
		v.core.commits.merge(record.KeyZone(f.job.id, num), record.RecordZone, record.EncodeZoneOps([]record.ZoneOp{op}, false), func(a record.Answer) {
			hop, ours := op.Hop+1, false
			if p, err := record.DecodeZoneReply(a.Value); err == nil && len(p.Verdicts) == 1 && p.Verdicts[0] == record.VerdictDone {
				ours = true
			} else if a.Status == record.AnswerInvalid || err == nil && len(p.Verdicts) == 1 && p.Verdicts[0] == record.VerdictInvalid {
				// The zone had no space for the move: nor has it for the thief's move.
				hop, ours = op.Hop, true
			}
			if ours && !f.job.over {
				f.job.queue.Ranges.Add(policy.Range{Next: op.Lo, Hi: op.Hi, Front: op.Lo, Hop: hop})
			}
			if left--; left == 0 {
				done()
			}
		})
	}
}

// thaw queues a part of an offer that is ours again.
func (v *victim) thaw(f *frozen, hop uint32) {
	if f.job.over {
		return
	}
	if f.span.Hi > 0 {
		s := f.span
		s.Hop += hop
		f.job.queue.Ranges.Add(s)
		return
	}
	it := f.item
	it.Hop += hop
	it.Tracked = true
	f.job.queue.Hold(&it)
	if f.dedicated {
		f.job.queue.Dedicated.Push(it)
	} else {
		f.job.queue.Shared.Push(it)
	}
}
