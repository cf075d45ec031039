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
	"github.com/filch-hpc/filch/mtc/search"
)

// thief takes in the offers to a node that looks for work.
type thief struct {
	*turn
	search.Thief
	core   *Core
	moving map[xferKey]*moving
	past   []xferKey // finished transfers, so that each counts once
}

// xferKey names a transfer, with the victim's number for the transfer.
type xferKey struct {
	victim record.Owner
	xfer   uint64
}

// moving is an offer whose moves are being committed.
type moving struct {
	left int            // answers to come
	took int32          // tasks whose move succeeded
	of   filch.JobID    // of the first of these tasks
	all  bool           // all moves so far succeeded
	some bool           // at least one move succeeded
	job  filch.JobID    // of the first stolen task; 0: pushed
	last filch.NodeName // of the nodes that share the tasks; "": none
}

func (t *thief) init(c *Core) {
	t.core, t.turn, t.Node = c, &c.turn, node{c}
	t.moving = make(map[xferKey]*moving)
}

// onArrival takes in a new node. The new node has no tasks yet and is no reason to look
// for work. A node with work to steal sends news to the new node, which does not look at once.
func (t *thief) onArrival(name filch.NodeName) {
	t.Arrived()
	t.core.victim.Came(name, t.now, t.core.cfg.Members, t.core.cfg.Self, t.core.Load() > 0, &t.core.rng)
}

// hungry reports whether there is free room, or room of held slots, and no task for the room.
func (t *thief) hungry() bool {
	if t.core.drain.on || len(t.moving) > 0 || t.core.copies.Comes() || t.core.mover.victims() == policy.NoStealing {
		return false
	}
	if t.core.exec.full() {
		return t.core.exec.starving()
	}
	for _, j := range t.core.order {
		if !j.queue.starved(j) && !t.Urge.StandsBack(j.ticket.Class) {
			return false
		}
	}
	return true
}

// before looks for tasks of a better class before the node's own tasks take free slots.
func (t *thief) before() {
	if class, ok := t.class(); ok && t.Urge.StandsBack(class) {
		t.Seek()
	}
}

// class is the class of the first job with a task that could start here soon.
func (t *thief) class() (class int32, ok bool) {
	for _, j := range t.core.order {
		if !j.queue.starved(j) {
			return j.ticket.Class, true
		}
	}
	return 0, false
}

// starved reports whether a job has no task that could start here soon: a cooling task,
// or a task without a token, does not count.
func (q *readyQueue) starved(j *job) bool {
	if !q.Startable() || j.held() || j.unfit {
		return true
	}
	if j.least == 0 {
		return len(q.Lacking) >= policy.LackMax // tasks behind the first may take no tokens
	}
	return j.spec.Capped() && j.tokens.Lacks(j.takes)
}

// The methods below are the Core as the thief sees the Core: see [search.Node].

func (n node) Members() *policy.Members { return n.cfg.Members }
func (n node) Dice() *filch.Rand        { return &n.rng }
func (n node) Hungry() bool             { return n.thief.hungry() }
func (n node) Works() bool              { return len(n.order) > 0 }
func (n node) Means() message.Means     { return n.means() }
func (n node) Victims() policy.Victims  { return n.mover.victims() }
func (n node) Robber() filch.NodeName   { return n.victim.robber }
func (n node) PollMax() time.Duration   { return n.cfg.Bounds.StealWait }
func (n node) Quiet() time.Duration     { return n.pace.late }
func (n node) Vain()                    { n.mover.share.Failed() }

func (n node) Leader() (name filch.NodeName, keeps bool) {
	for _, j := range n.order {
		if j.rec != nil {
			return j.rec.Leader.Node, j.rec.Leveled()
		}
	}
	return "", false
}

func (v *victim) onLoadAsk(from filch.NodeName, m *message.LoadAsk) {
	if m.Better {
		v.Calls.Heard(m.Class)
	}
	v.core.copies.Heard(m.Lengths)
	load, class := v.loadFor(&m.Means, v.core.cfg.Members.Get(from))
	if load == 0 {
		v.Askers.Add(from)
	}
	v.send(from, &message.LoadSay{Round: m.Round, Load: load, Class: class})
}

func (t *thief) onLoad(from filch.NodeName, m *message.LoadSay) {
	t.Said(from, m)
}

// onOffer commits the moves of a victim's offer. The thief queues the tasks whose move
// the records accept; then the victim may forget the offer.
func (t *thief) onOffer(from filch.NodeName, m *message.Offer) {
	key := xferKey{record.Owner{Node: from, Incarnation: m.Life}, m.Xfer}
	if t.Awaits(m.Ask) {
		switch {
		case len(m.Ranges)+len(m.Tasks) > 0:
			t.Took(from)
		case len(m.Copies) > 0 && !t.core.drain.on:
			t.Succeeded()
			t.core.copies.Offered(key.victim, m.Copies)
		default:
			t.Failed()
		}
	}
	if len(m.Ranges)+len(m.Tasks) == 0 || t.moving[key] != nil {
		return
	}
	if t.core.drain.on || slices.Contains(t.past, key) {
		// This node takes no work any more, or the offer was answered before, and the
		// answer was lost: then the victim checks whether all moves were committed.
		t.send(from, &message.Done{Life: m.Life, Xfer: m.Xfer, All: false})
		return
	}
	mv := &moving{left: 1, all: true, job: m.Stolen(), last: m.Last}
	t.moving[key] = mv
	if m.Usual > 0 {
		t.core.job(mv.job).pace.told = m.Usual
	}
	for _, r := range m.Ranges {
		t.moveRange(key, mv, r)
	}
	t.moveTasks(key, mv, m.Tasks)
	t.moved(key, mv)
}

// moved counts an answer; after the last answer the thief notifies the victim.
func (t *thief) moved(key xferKey, mv *moving) {
	if mv.left--; mv.left > 0 {
		return
	}
	delete(t.moving, key)
	t.past = append(t.past, key)
	t.past = t.past[max(len(t.past)-pastMax, 0):]
	t.send(key.victim.Node, &message.Done{Life: key.victim.Incarnation, Xfer: key.xfer, All: mv.all})
	t.core.victim.Fresh = true
	if j := t.core.jobs[mv.of]; mv.last != "" && mv.some && j != nil {
		t.core.victim.goOn(j, mv.last, int64(mv.took))
	}
	if mv.some {
		t.happened(report.Event{Kind: report.Won, Job: mv.of, Count: mv.took, Peer: key.victim.Node})
		t.Poll.Win(t.now, mv.job)
		t.Poll.Steals.Took(key.victim.Node)
	}
	switch {
	case !t.Resting():
	case mv.some || mutants.NoMove:
		t.Succeeded()
		t.Rest(t.now)
	default:
		t.Failed() // the victim would offer the same tasks again at once
	}
}

// pastMax bounds the remembered transfers: more than a victim repeats.
const pastMax = 8192

// moveRange commits the move of a range, zone by zone.
func (t *thief) moveRange(key xferKey, mv *moving, r message.RangeItem) {
	j := t.core.job(r.Job)
	t.core.know(j)
	for num, part := range record.Zones(r.Lo, r.Hi) {
		lo, hi := part[0], part[1]
		op := record.ZoneOp{Kind: record.ZoneMove, Lo: lo, Hi: hi, Front: lo, Hop: r.Hop, Owner: t.core.self, From: key.victim}
		if lo == r.Lo {
			op.Front = min(hi, lo+t.core.exec.window())
		}
		mv.left++
		j.queue.pending++
		t.core.commits.merge(record.KeyZone(r.Job, num), record.RecordZone, record.EncodeZoneOps([]record.ZoneOp{op}, false), func(a record.Answer) {
			j.queue.pending--
			p, err := record.DecodeZoneReply(a.Value)
			ok := a.Status == record.AnswerDone && err == nil && len(p.Verdicts) == 1 && p.Verdicts[0] == record.VerdictDone
			mv.all, mv.some = mv.all && ok, mv.some || ok
			if (ok || mutants.NoMove) && !j.over {
				t.arrived(mv, j, op.Lo, op.Hi, key.victim.Node)
				j.queue.Ranges.Add(policy.Range{Next: op.Lo, Hi: op.Hi, Front: op.Front, Hop: op.Hop + 1})
				t.core.gotWork(j)
			}
			t.moved(key, mv)
		})
	}
}

// arrived notes that tasks of the victim are here now.
func (t *thief) arrived(mv *moving, j *job, lo, hi int32, victim filch.NodeName) {
	t.core.arrivals.Add(j.id, lo, hi, victim, t.now)
	if mv.took == 0 {
		mv.of = j.id
	}
	mv.took += hi - lo
	first := lo
	if j.spec != nil {
		first = j.spec.Name(lo)
	}
	t.happened(report.Event{Kind: report.Moved, Job: j.id, Task: first, Count: hi - lo, Peer: victim})
}

// gotWork makes received tasks ready, or void.
func (c *Core) gotWork(j *job) {
	c.active(j)
	c.orders.obey(j)
}

// moveTasks commits the moves of single tasks, block by block.
func (t *thief) moveTasks(key xferKey, mv *moving, tasks []message.TaskItem) {
	for k, group := range message.ByBlock(tasks) {
		j := t.core.job(k.Job)
		t.core.know(j)
		ops := make([]record.BlockOp, len(group))
		for i, task := range group {
			ops[i] = record.BlockOp{Kind: record.BlockMove, Off: uint8(task.Index % record.BlockSize), From: key.victim}
			ops[i].Attempt, ops[i].Hop, ops[i].Owner = task.Attempt, task.Hop, t.core.self
		}
		mv.left++
		j.queue.pending++
		t.core.commits.merge(record.KeyBlock(k.Job, k.Number), record.RecordBlock, record.EncodeBlockOps(ops, false), func(a record.Answer) {
			j.queue.pending--
			p, err := record.DecodeBlockReply(a.Value)
			ok := a.Status == record.AnswerDone && err == nil && len(p.Verdicts) == len(group)
			t.core.recorder.EndedBefore(j, k.Number, &p)
			for i := range group {
				mine := ok && p.Verdicts[i] == record.VerdictDone
				mv.all, mv.some = mv.all && mine, mv.some || mine
				if (mine || mutants.NoMove) && !j.over {
					t.arrived(mv, j, group[i].Index, group[i].Index+1, key.victim.Node)
					t.tookTask(j, &group[i])
				}
			}
			t.core.gotWork(j)
			t.moved(key, mv)
		})
	}
}

// tookTask queues a single task that is ours now.
func (t *thief) tookTask(j *job, task *message.TaskItem) {
	it := queue.Item{
		Index: task.Index, Attempt: task.Attempt, Hop: task.Hop + 1, Crashes: task.Crashes, Recalls: task.Recalls, Tracked: true, Maybe: task.Maybe, Need: task.Need,
		Level: task.Level, Bytes: task.Bytes, Inputs: task.Inputs, Since: queue.Stamp(t.now),
	}
	if j.queue.Holds(&it) {
		return
	}
	j.queue.Hold(&it)
	if j.leader != nil {
		delete(j.leader.away, it.Index)
	}
	if task.Dedicated {
		t.core.mover.dedicate(j, it)
		return
	}
	j.queue.Shared.Push(it)
}

// Send sends a message of the search.
func (n node) Send(to filch.NodeName, m message.Message) {
	if _, steal := m.(*message.Steal); steal {
		n.happened(report.Event{Kind: report.Tried, Peer: to})
	}
	n.send(to, m)
}
