package mtc

import (
	"iter"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/lines"
	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/replica"
	"github.com/filch-hpc/filch/mtc/report"
)

// rivals are what a run has to do with copies: its own, or that it is a copy.
type rivals struct {
	kind   replica.Kind
	states time.Duration // how long the task takes as its file states
	copy   *replica.Task // of a task of another node; nil: the task is this node's
	beaten bool          // the end of a copy is recorded
	held   *End          // a bad end that waits for the copies
	heldAt time.Duration // when it came
}

// end is when a run ended of which the end is taken in now.
func (r *rivals) end(now time.Duration) time.Duration {
	if r.held != nil {
		return r.heldAt
	}
	return now
}

// ran is how long a task ran, at its end.
func (r *run) ran(now time.Duration) time.Duration { return r.end(now) - r.began }

// copies counts the copies of tasks of other nodes.
type copies struct {
	here int   // of which the owner wants to hear
	run  int32 // that run
}

// kindOf is the kind of a task by its line, and how long the task takes as the line states.
func (j *job) kindOf(line []byte) (k replica.Kind, states time.Duration) {
	if !j.Graph() {
		return replica.KindOf(j.id, ""), 0
	}
	n, _ := record.DecodeGraphNode(line)
	return replica.KindOf(j.id, n.Kind), n.Length
}

// The methods below are the Core as its copies see the Core: see [replica.Node].

func (n node) Stop(run uint64, job filch.JobID) { n.out.Stops = append(n.out.Stops, Stop{run, job}) }

func (n node) Outdone(id filch.JobID, index int32) {
	if j := n.jobs[id]; j != nil && j.spec != nil && j.Graph() {
		n.out.Losers = append(n.out.Losers, report.Loser{Job: id, Name: j.spec.Name(index)})
	}
}

func (n node) Tell() { n.victim.Fresh = true }

func (n node) Waits(id filch.JobID, by int) {
	j := n.job(id)
	j.copies.here += by
	n.know(j)
	n.forget(j)
}

func (n node) Runs() iter.Seq2[uint64, *replica.Run] {
	return func(yield func(uint64, *replica.Run) bool) {
		for id, r := range n.exec.list.All() {
			j := r.job
			if !j.spec.Copied() || !r.started || r.copy != nil || r.held != nil || r.beaten || r.stage != planned || r.gang().Ranks > 0 ||
				j.void != 0 || j.held() || j.cancelled(r.item.Index) {
				continue
			}
			x := &replica.Run{Job: j.id, Class: j.ticket.Class, Item: &r.item, Kind: r.kind, Began: r.began, States: r.states, Most: j.spec.Replicas, Need: j.spec.Need(int(r.item.Need) - 1)}
			if !yield(id, x) {
				return
			}
		}
	}
}

func (n node) Begin(x *replica.Task) replica.Begun {
	j, e := n.job(x.Job), &n.exec
	switch {
	case j.over || j.void != 0 || j.cancelled(x.Item.Index) || n.drain.on:
		return replica.Never
	case j.spec == nil || j.rec == nil || j.held():
		return replica.Later
	}
	switch n.lines.Line(j, x.Item.Index) {
	case lines.Away:
		return replica.Later
	case lines.Gone:
		return replica.Never
	}
	if !e.room.HoldsBeside(&e.used, j.spec.Room(int(x.Item.Need)-1)) {
		return replica.Later
	}
	x.Began = n.now
	e.begin(j, x, x.Item, planned, nil)
	return replica.Began
}

func (n node) Settled(run uint64) {
	r := n.exec.list.Find(run)
	if r != nil && mutants.CopyCounts {
		r.item.Crashes++
	}
	if r != nil && r.held != nil && !n.copies.Lives(run) {
		n.Ended(n.now, *r.held, n.out)
	}
}

func (n node) Beaten(id filch.JobID, index int32) {
	j := n.jobs[id]
	if j == nil || mutants.LoserRuns {
		return
	}
	for run, r := range n.exec.list.All() {
		switch {
		case r.job != j || r.item.Index != index || r.copy != nil || !r.started:
		case r.held != nil:
			j.queue.Forget(index)
			n.exec.release(run)
		case !r.beaten:
			r.beaten = true
			n.Stop(run, id)
		}
	}
	for range j.queue.Remove(func(i int32) bool { return i == index }) {
		j.queue.Forget(index)
	}
	n.idle(j)
	n.forget(j)
}

// rivalled takes in the end of a copy here, or of a task with copies. True: there is no more to
// do about the end. A bad end of a task waits for its copies; of a copy, it counts for nothing.
func (c *Core) rivalled(r *run, e *End) bool {
	if e.State == filch.OK && (r.beaten || r.copy != nil && r.copy.Gone) {
		node{c}.Outdone(r.job.id, r.item.Index)
	}
	switch {
	case r.copy != nil && (r.copy.Gone || e.State != filch.OK && !mutants.BadCopyWins):
		c.copies.Failed(r.copy)
		c.exec.release(e.Run)
	case r.copy != nil:
		c.recordCopy(r, e)
	case r.beaten:
		r.job.queue.Forget(r.item.Index)
		c.exec.release(e.Run)
	case r.held == nil && e.State != filch.OK && !e.Recalled && c.copies.Lives(e.Run):
		held := *e
		r.held, r.heldAt = &held, c.now
	default:
		return false
	}
	return true
}

// recordCopy records the good end of a copy here, unless another end of the task is recorded.
func (c *Core) recordCopy(r *run, e *End) {
	x, j := r.copy, r.job
	c.learn(r, e)
	c.copies.Records(x)
	t := c.endOf(r, e)
	t.Copy, t.Rivals = true, []record.Rival{{Owner: x.From}}
	c.exec.release(e.Run)
	c.recorder.EndCopy(j, x.Item, t, func(rec *record.Task) { c.copies.Recorded(x, rec) })
}
