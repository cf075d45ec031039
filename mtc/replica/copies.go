package replica

import (
	"iter"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// Node is the node of [Copies].
type Node interface {
	Now() time.Duration
	Self() record.Owner
	Serial() uint64 // never used before
	Send(to filch.NodeName, m message.Message)
	Stop(run uint64, job filch.JobID) // ends a run here
	// Runs are the tasks that run here and may have copies, by the number of the run.
	Runs() iter.Seq2[uint64, *Run]
	Waits(job filch.JobID, by int) // counts the copies that keep the job known here
	// Begin begins a copy here; Later: there is no room yet, or the job is not known.
	Begin(x *Task) Begun
	Settled(run uint64) // a copy of the run is over, or lost
	// Beaten ends the tasks here with an index: another node recorded the end of the task.
	Beaten(job filch.JobID, index int32)
	Tell() // tells thieves of work here
}

// Begun is the outcome of the start of a copy.
type Begun uint8

// The outcomes.
const (
	Later Begun = iota
	Began
	Never
)

// Run is a task that runs here and may have copies.
type Run struct {
	Job    filch.JobID
	Class  int32
	Item   *queue.Item
	Kind   Kind
	Began  time.Duration
	States time.Duration // how long the task takes as its file states; 0: not stated
	Most   uint8         // copies from first to last
	Need   record.Need
}

// Copies lets idle nodes run copies of tasks that take far longer than other tasks of their
// kind. The task stays with its owner. The first good end is recorded, and ends the others.
type Copies struct {
	node    Node
	lengths Lengths
	given   Given
	taken   Taken
	slow    int64         // tasks for thieves, at the last look
	at      time.Duration // of the next look
}

// again is how often a node looks for tasks that have become slow.
const again = 250 * time.Millisecond

// New makes the Copies of a node, without any.
func New(n Node) Copies { return Copies{node: n, at: filch.Never} }

// At is when [Copies.Tick] is due.
func (k *Copies) At() time.Duration { return k.at }

func (k *Copies) soon(wait time.Duration) { k.at = min(k.at, k.node.Now()+wait) }

// Look makes the node look for slow tasks soon.
func (k *Copies) Look() { k.soon(again) }

// Learn takes in how long a task with copies took here.
func (k *Copies) Learn(kind Kind, took time.Duration) {
	k.lengths.Add(kind, took)
	k.Look()
}

// Heard takes in how long tasks took on a thief.
func (k *Copies) Heard(list []message.Length) {
	if k.lengths.Heard(list) {
		k.soon(0)
	}
}

// Words are the lengths of tasks here, for the nodes that this node asks for work.
func (k *Copies) Words() []message.Length { return k.lengths.Words() }

// Comes reports whether a copy waits to begin here.
func (k *Copies) Comes() bool { return k.taken.Comes() }

// Running is a running copy of a task of this node; false without one.
func (k *Copies) Running(job filch.JobID, index int32) (Copy, bool) {
	return k.given.Running(job, index)
}

// Lives reports whether a copy of a run may run, or may begin.
func (k *Copies) Lives(run uint64) bool { return k.given.Lives(run) }

// Rivals are the copies of a run that began, or may have.
func (k *Copies) Rivals(run uint64) []record.Rival { return k.given.ever[run] }

// late is when a run counts as slow; false: not known.
func (k *Copies) late(r *Run) (at time.Duration, known bool) {
	d := k.lengths.Late(r.Kind)
	return r.Began + max(d, lateFactor*r.States), d > 0
}

// fits reports whether a node may run a copy of a slow run. Without a node, any may.
func (k *Copies) fits(id uint64, r *Run, p *filch.Member) bool {
	if at, known := k.late(r); !known || at > k.node.Now() || !k.given.may(id, r.Most) {
		return false
	}
	return p == nil || policy.SuitsNeed(r.Need, p) && !k.given.On(id, p.Name)
}

// suits reports whether a thief may run a copy of a slow run now. Without a thief, any may.
func (k *Copies) suits(id uint64, r *Run, m *message.Means, thief *filch.Member) bool {
	ran := k.node.Now() - r.Began
	return k.fits(id, r, thief) && (thief == nil || m.Free.Fits(filch.Room{}, r.Need.Room()) > 0 &&
		faster(m.Lengths, r.Kind, ran) && (m.Left == 0 || ran < m.Left))
}

// HasFor reports whether a slow task runs here of which a node may run a copy.
func (k *Copies) HasFor(p *filch.Member) bool {
	for id, r := range k.node.Runs() {
		if k.fits(id, r, p) {
			return true
		}
	}
	return false
}

// Load counts the slow tasks for a thief, and is the class of the first.
func (k *Copies) Load(m *message.Means, thief *filch.Member) (n int64, class int32) {
	if m.Better || !k.lengths.Any() {
		return 0, 0
	}
	for id, r := range k.node.Runs() {
		if !k.suits(id, r, m, thief) {
			continue
		}
		if n++; n == 1 {
			class = r.Class
		}
	}
	return n, class
}

// Offer offers a thief copies of slow tasks. The thief asks before a copy begins.
func (k *Copies) Offer(o *message.Offer, m *message.Means, thief *filch.Member) {
	means := *m
	for id, r := range k.node.Runs() {
		if !k.suits(id, r, &means, thief) || len(o.Copies) == message.OfferCopiesMax {
			continue
		}
		room := r.Need.Room()
		means.Free.Sub(&room)
		it, number := r.Item, k.node.Serial()
		k.given.Add(Copy{
			Number: number, Run: id, Job: r.Job, Index: it.Index, Since: k.node.Now(),
			Holder: record.Owner{Node: thief.Name, Incarnation: thief.Incarnation},
		})
		k.soon(sureWait)
		o.Copies = append(o.Copies, message.CopyItem{Number: number, TaskItem: message.TaskItem{
			Job: r.Job, Index: it.Index, Attempt: it.Attempt, Hop: it.Hop, Crashes: it.Crashes, Recalls: it.Recalls, Maybe: it.Maybe,
			Need: it.Need, Level: it.Level, Bytes: it.Bytes, Inputs: it.Inputs,
		}})
	}
}

// Offered takes copies of tasks of another node.
func (k *Copies) Offered(from record.Owner, list []message.CopyItem) {
	for i := range list {
		if x := k.taken.Add(from, &list[i], queue.Stamp(k.node.Now())); x != nil {
			k.node.Waits(x.Job, 1)
			k.tell(x)
		}
	}
}

// tell has the owner of the task hear of a copy here.
func (k *Copies) tell(x *Task) {
	x.soon()
	k.soon(0)
}

// drop ends a needless copy.
func (k *Copies) drop(x *Task) {
	if x.State == message.CopyRecords {
		return // the record decides
	}
	k.taken.Drop(x)
	switch x.State {
	case message.CopyOffered, message.CopyWaits:
		k.node.Waits(x.Job, -1)
	case message.CopyRuns:
		if !mutantLoserRuns {
			k.node.Stop(x.Run, x.Job)
		}
	}
}

// Start begins the copies with room beside the tasks of this node.
func (k *Copies) Start() {
	for _, x := range k.taken.Waiting() {
		began := k.node.Begin(x)
		if began == Later {
			continue
		}
		x.State = message.CopyRuns
		if began == Never {
			x.State = message.CopyOver
		}
		k.node.Waits(x.Job, -1)
		k.tell(x)
	}
}

// Failed takes in the bad end of a copy here: the end counts for nothing.
func (k *Copies) Failed(x *Task) {
	if !x.Gone {
		x.State = message.CopyOver
		k.tell(x)
	}
}

// Records takes in the good end of a copy here, on its way to the record.
func (k *Copies) Records(x *Task) {
	x.State = message.CopyRecords
	k.node.Waits(x.Job, 1)
}

// Recorded takes in the record of the task after the end of a copy here; nil: nothing is left
// of its job.
func (k *Copies) Recorded(x *Task, rec *record.Task) {
	x.State, x.Ended = message.CopyOver, true
	if rec != nil && rec.Owner != x.From && rec.Owner.Node != "" {
		x.From = rec.Owner // the heir of the owner runs the task again
	}
	if x.From.Node == k.node.Self().Node {
		k.node.Beaten(x.Job, x.Item.Index)
		k.taken.Drop(x)
	}
	k.node.Waits(x.Job, -1)
	k.tell(x)
}

// Said takes in the word of a node about a copy of a task of this node.
func (k *Copies) Said(from filch.NodeName, m *message.CopySay) {
	if m.Ended {
		k.node.Beaten(m.Job, m.Index)
	}
	run, known := uint64(0), false
	if m.Life == k.node.Self().Incarnation {
		run, known = k.given.Said(k.node.Now(), from, m)
	}
	answer := &message.CopyAnswer{Life: m.Life, Number: m.Number}
	switch {
	case known && m.State == message.CopyOver:
		k.node.Settled(run)
	case known && m.State == message.CopyOffered, !known && m.State == message.CopyOffered && mutantCopyAfter:
		answer.Go = true
	case known:
		return
	}
	k.node.Send(from, answer)
}

// Answered takes in the answer of an owner about a copy here.
func (k *Copies) Answered(from filch.NodeName, m *message.CopyAnswer) {
	x := k.taken.Find(record.Owner{Node: from, Incarnation: m.Life}, m.Number)
	switch {
	case x == nil:
	case !m.Go:
		k.drop(x)
	case x.State == message.CopyOffered:
		x.State = message.CopyWaits
	}
}

// Released ends the copies of a run that is over.
func (k *Copies) Released(run uint64) {
	for _, c := range k.given.End(run) {
		k.node.Send(c.Holder.Node, &message.CopyAnswer{Life: k.node.Self().Incarnation, Number: c.Number})
	}
}

// Died takes in the death of a node with copies, or with tasks copied here.
func (k *Copies) Died(o record.Owner) {
	for _, x := range k.taken.Of(o) {
		k.drop(x)
	}
	for _, run := range k.given.Lost(o) {
		k.node.Settled(run)
	}
}

// Tick speaks of copies here to the owners of the tasks, and looks for slow tasks.
func (k *Copies) Tick() {
	now := k.node.Now()
	if k.at > now {
		return
	}
	due, next := k.taken.Said(now)
	for _, x := range due {
		k.node.Send(x.From.Node, x.Word(now))
	}
	some, again := k.given.Expire(now)
	k.at = min(next, again)
	n, _ := k.Load(&message.Means{}, nil)
	if n > k.slow || some {
		k.node.Tell()
	}
	k.slow = n
	for id, r := range k.node.Runs() {
		if at, known := k.late(r); known && at > now && k.given.may(id, r.Most) {
			k.at = min(k.at, at)
		}
	}
}
