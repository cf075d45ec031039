package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// How long a victim waits for word of a transfer before it asks the homes, by taking
// back what is still its own: twice as long as the last one took, as far as it knows.
// Where the homes are slow, to ask of each after the least wait would make them slower:
// it refuses moves that are on their way, and others make them again.
const (
	takenWait    = 2 * time.Second
	takenWaitMax = 30 * time.Second
)

// victim is a node that others steal from.
type victim struct {
	last   uint64 // number of the last offer
	open   map[uint64]*xfer
	order  []uint64 // of open, oldest first
	asks   map[filch.NodeName]lastAsk
	wait   time.Duration // for word of a transfer
	at     time.Duration // when the oldest is asked about
	askers []filch.NodeName
	fresh  bool // work came since thieves were told
	heard  bool // thieves were told once
	newsAt time.Duration
}

func (v *victim) init() {
	v.open = make(map[uint64]*xfer)
	v.asks = make(map[filch.NodeName]lastAsk)
	v.at, v.wait = filch.Never, takenWait
}

// took takes in how long it took to hear what became of a transfer, or takes at least.
func (v *victim) took(d time.Duration) {
	v.wait = min(max(takenWait, 2*d), takenWaitMax)
	v.at = filch.Never
	for _, x := range v.open { // any order: the least
		if !x.asking {
			v.at = min(v.at, x.since+v.wait)
		}
	}
}

// lastAsk is what a thief was last answered, should it ask the same again.
type lastAsk struct {
	ask  uint64
	xfer uint64
}

// xfer is what was offered: frozen, until the thief has it or it is thawed.
type xfer struct {
	id     uint64
	thief  filch.NodeName
	offer  *Offer
	items  []frozen
	since  time.Duration // when it was offered, or the homes were asked
	asking bool
	gift   bool // of a node that drains
}

// frozen is a part of an offer as the victim had it.
type frozen struct {
	job       *job
	span      span // of a range
	item      item // else
	dedicated bool
}

func (f *frozen) count() int64 {
	if f.span.hi > 0 {
		return f.span.left()
	}
	return 1
}

// Load is how many tasks here could be stolen.
func (c *Core) Load() int64 { return c.loadFor(&Means{}) }

func (c *Core) loadFor(m *Means) int64 {
	n := int64(0)
	for _, j := range c.order {
		if c.stealable(j, m.Caps) {
			n += c.spare(j) + c.lateFor(j, m)
		}
	}
	return n
}

// spare is how many tasks of a job are more than can be started here as soon as
// what they wait for (a front, a payload, a committed start) is answered. Were
// those stolen too, a task could go round among idle nodes for ever.
func (c *Core) spare(j *job) int64 {
	keep := c.slotsFor(j)
	if j.pace.late || c.shed.on {
		keep = 0
	}
	if j.spec.Cap > 0 {
		keep = min(keep, j.tokens.held-j.running)
	}
	cool := int64(len(j.queue.cooling))
	return max(j.queue.shareable()-cool-int64(len(j.queue.late))-int64(max(keep, 0)), 0) + cool
}

// stealable reports whether tasks of a job are worth moving to a thief: those
// of a capped job are where it has tokens, or there may be some for it. Nothing
// stays where a node drains.
func (c *Core) stealable(j *job, caps []CapWord) bool {
	if j.void != 0 || j.lead != nil && !j.lead.open {
		return false
	}
	if j.spec.Cap == 0 || c.shed.on {
		return true
	}
	for _, k := range caps {
		if k.Job == j.id {
			return k.Idle > 0
		}
	}
	return j.tokens.seq == 0 || j.tokens.spare > 0
}

// remember keeps who found nothing here, to be told when there is something.
func (v *victim) remember(_ time.Duration, thief filch.NodeName) {
	if !slices.Contains(v.askers, thief) {
		v.askers = append(v.askers, thief)
	}
	if len(v.askers) > askersMax {
		v.askers = slices.Delete(v.askers, 0, 1)
	}
}

// askersMax bounds whom a node tells of new work.
const askersMax = 64

// newsAgain is how often thieves are told of work at most.
const newsAgain = time.Millisecond

// offerNews tells thieves that found nothing here that there is work now, and,
// where few asked, as many others as a thief asks; more the first time, as nobody
// looks for work in an instance that has had none.
func (c *Core) offerNews(now time.Duration, out *Out) {
	v := &c.victim
	load := c.Load()
	if load == 0 {
		v.fresh = true
		return
	}
	if !v.fresh || now < v.newsAt {
		return
	}
	v.fresh, v.newsAt = false, now+newsAgain
	names := v.askers
	v.askers = nil
	n := c.members.others(c.cfg.Self)
	least := root(n + 1)
	if !v.heard {
		least = max(least, tellAll)
	}
	v.heard = true
	if len(names) < least && n > 0 {
		names = append(names, c.members.draw(c.cfg.Self, min(least, n), &c.rng, func(m *Member) bool { return m.Up && !slices.Contains(names, m.Name) })...)
	}
	for _, name := range names {
		c.send(name, &News{load}, out)
	}
}

// stolen answers a thief: half of what is shared, frozen until it is known
// whose it is.
func (c *Core) stolen(now time.Duration, from filch.NodeName, m *Steal, out *Out) {
	v := &c.victim
	last := v.asks[from]
	switch {
	case m.Ask < last.ask:
		return
	case m.Ask == last.ask:
		if x := v.open[last.xfer]; x != nil {
			c.send(from, x.offer, out)
		}
		return
	}
	if p := c.members.find(from); p == nil || p.Dead {
		return
	}
	x := &xfer{thief: from, offer: &Offer{Life: c.self.Incarnation, Ask: m.Ask}}
	c.freeze(x, &m.Means)
	if len(x.items) == 0 {
		v.asks[from] = lastAsk{m.Ask, 0}
		v.remember(now, from)
		c.send(from, x.offer, out)
		return
	}
	v.asks[from] = lastAsk{m.Ask, c.openXfer(now, x)}
	c.send(from, x.offer, out)
}

func (c *Core) openXfer(now time.Duration, x *xfer) uint64 {
	v := &c.victim
	v.last++
	x.id, x.since = v.last, now
	x.offer.Xfer = x.id
	for i := range x.items {
		x.items[i].job.queue.frozen += x.items[i].count()
	}
	if mutantStealPops {
		c.closeXfer(x, false)
		return x.id
	}
	v.open[x.id] = x
	v.order = append(v.order, x.id)
	v.at = min(v.at, now+v.wait)
	return x.id
}

// freeze takes half of the stealable tasks out of the queues, oldest job first.
func (c *Core) freeze(x *xfer, m *Means) {
	want := half(c.loadFor(m))
	space := offerSpace
	for _, j := range c.order {
		if want <= 0 {
			return
		}
		if !c.stealable(j, m.Caps) {
			continue
		}
		for _, it := range c.cutLate(j, m, min(want, int64(offerTasks-len(x.offer.Tasks))), &space) {
			want--
			x.addTask(j, it, false)
		}
		here := min(want, c.spare(j))
		room := offerRange - len(x.offer.Ranges)
		for _, s := range j.queue.cutRanges(here, room) {
			want -= s.left()
			here -= s.left()
			x.addRange(j, s)
		}
		here = min(here, int64(offerTasks-len(x.offer.Tasks)))
		for _, it := range j.queue.cutTasks(here, &space) {
			want--
			x.addTask(j, it, false)
		}
	}
}

func (x *xfer) addRange(j *job, s span) {
	x.items = append(x.items, frozen{job: j, span: s})
	x.offer.Ranges = append(x.offer.Ranges, RangeItem{Job: j.id, Lo: s.next, Hi: s.hi, Hop: s.hop})
}

func (x *xfer) addTask(j *job, it item, dedicated bool) {
	x.items = append(x.items, frozen{job: j, item: it, dedicated: dedicated})
	x.offer.Tasks = append(x.offer.Tasks, TaskItem{
		Job: j.id, Index: it.index, Attempt: it.attempt, Hop: it.hop, Crashes: it.crashes, Maybe: it.maybe, Dedicated: dedicated,
		Bytes: it.bytes, Inputs: it.inputs,
	})
}

// give pushes a task to the node that has most of its input (Algorithm 1, line
// 17): an offer that nobody asked for.
func (c *Core) give(now time.Duration, j *job, it item, to filch.NodeName, out *Out) {
	x := &xfer{thief: to, offer: &Offer{Life: c.self.Incarnation}}
	x.addTask(j, it, true)
	c.openXfer(now, x)
	c.send(to, x.offer, out)
}

// taken ends a transfer: the thief committed what it could.
func (c *Core) taken(now time.Duration, from filch.NodeName, m *Done, out *Out) {
	x := c.victim.open[m.Xfer]
	if x == nil || x.thief != from || x.asking || m.Life != c.self.Incarnation {
		return
	}
	if !m.All {
		c.reclaim(now, x, out)
		return
	}
	c.victim.took(now - x.since)
	for i := range x.items {
		f := &x.items[i]
		if f.span.hi == 0 {
			delete(f.job.queue.held, f.item.index)
			if f.job.lead != nil && f.job.lead.tracker != nil {
				f.job.lead.away[f.item.index] = from
			}
		}
	}
	c.closeXfer(x, true)
	for i := range x.items {
		if j := x.items[i].job; j.running == 0 && j.queue.empty() && c.jobs[j.id] == j {
			c.lingerTokens(now, j)
			c.forget(j, out)
		}
	}
}

func (c *Core) closeXfer(x *xfer, listed bool) {
	for i := range x.items {
		x.items[i].job.queue.frozen -= x.items[i].count()
	}
	if listed {
		delete(c.victim.open, x.id)
		c.victim.order = slices.DeleteFunc(c.victim.order, func(id uint64) bool { return id == x.id })
	}
}

// victimDied asks at once about what was offered to a node that is gone.
func (c *Core) victimDied(now time.Duration, o Owner, out *Out) {
	for _, id := range slices.Clone(c.victim.order) {
		if x := c.victim.open[id]; x.thief == o.Node && !x.asking {
			c.reclaim(now, x, out)
		}
	}
	delete(c.victim.asks, o.Node)
	t := &c.thief
	if t.phase == stealing && t.best == o.Node {
		c.failed(now)
	}
}

// tickXfers asks about transfers that nothing was heard of.
func (c *Core) tickXfers(now time.Duration, out *Out) {
	v := &c.victim
	if v.at > now {
		return
	}
	v.at = filch.Never
	for _, id := range slices.Clone(v.order) {
		x := v.open[id]
		switch {
		case x == nil || x.asking:
		case x.since+v.wait <= now:
			wait := now - x.since
			c.reclaim(now, x, out)
			v.took(wait)
		default:
			v.at = min(v.at, x.since+v.wait)
		}
	}
}

// reclaim takes back what was offered, if it is still ours. It moves it to
// ourselves under another hop: only asking whose it is would leave the thief's
// own move, late on its way, to succeed after the thaw.
func (c *Core) reclaim(now time.Duration, x *xfer, out *Out) {
	x.asking, x.since = true, now
	if x.gift {
		c.shed.wait = now + shedAgain
	}
	if mutantBlindThaw {
		for i := range x.items {
			c.thaw(&x.items[i], 0)
		}
		c.closeXfer(x, true)
		return
	}
	left := 1
	done := func(now time.Duration, out *Out) {
		if left--; left == 0 {
			c.victim.took(now - x.since)
			c.closeXfer(x, true)
			for i := range x.items {
				c.gotWork(now, x.items[i].job, out)
			}
		}
	}
	for i := range x.items {
		f := &x.items[i]
		left++
		if f.span.hi > 0 {
			c.reclaimRange(f, out, done)
			continue
		}
		op := blockOp{kind: bMove, off: uint8(f.item.index % BlockSize), from: c.self}
		op.Attempt, op.Hop, op.Owner = f.item.attempt, f.item.hop, c.self
		num := f.item.index / BlockSize
		c.merge(KeyBlock(f.job.id, num), RecordBlock, encodeBlockOps([]blockOp{op}, false), out, func(now time.Duration, a Answer, out *Out) {
			p, err := decodeBlockReply(a.Value)
			c.endedBefore(now, f.job, num, &p)
			if err == nil && len(p.verdicts) == 1 && p.verdicts[0] == vDone {
				c.thaw(f, 1)
			} else {
				delete(f.job.queue.held, f.item.index)
				if f.job.lead != nil {
					f.job.lead.away[f.item.index] = x.thief
				}
			}
			done(now, out)
		})
	}
	done(now, out)
}

func (c *Core) reclaimRange(f *frozen, out *Out, done func(time.Duration, *Out)) {
	left := 0
	for lo := f.span.next; lo < f.span.hi; {
		num := lo / ZoneSize
		hi := min(f.span.hi, (num+1)*ZoneSize)
		op := zoneOp{kind: zMove, lo: lo, hi: hi, front: lo, hop: f.span.hop, who: c.self, from: c.self}
		left++
		c.merge(KeyZone(f.job.id, num), RecordZone, encodeZoneOps([]zoneOp{op}, false), out, func(now time.Duration, a Answer, out *Out) {
			hop, ours := op.hop+1, false
			if p, err := decodeZoneReply(a.Value); err == nil && len(p.verdicts) == 1 && p.verdicts[0] == vDone {
				ours = true
			} else if a.Status == AnswerInvalid || err == nil && len(p.verdicts) == 1 && p.verdicts[0] == vInvalid {
				hop, ours = op.hop, true // there was no room to move it: no more for the thief's move
			}
			if ours && !f.job.over {
				f.job.queue.addRange(span{next: op.lo, hi: op.hi, front: op.lo, hop: hop})
			}
			if left--; left == 0 {
				done(now, out)
			}
		})
		lo = hi
	}
}

// thaw queues what is ours again.
func (c *Core) thaw(f *frozen, hop uint32) {
	if f.job.over {
		return
	}
	if f.span.hi > 0 {
		s := f.span
		s.hop += hop
		f.job.queue.addRange(s)
		return
	}
	it := f.item
	it.hop += hop
	it.tracked = true
	f.job.queue.held[it.index] = stamp{it.index, it.attempt, it.hop}
	if f.dedicated {
		f.job.queue.dedicated.push(it)
	} else {
		f.job.queue.shared.push(it)
	}
}
