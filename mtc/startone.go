package mtc

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/lines"
	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// This file takes the next task off the queues of a job, if the task may start here and has
// room and tokens.

// startOne starts a task of j, if there is room and a task may begin.
func (e *execution) startOne(j *job, g *gate) got {
	q := &j.queue
	if !q.Startable() && len(q.Lacking) == 0 {
		if q.Empty() {
			return gotNone
		}
		return gotBlocked
	}
	if j.barred() {
		return gotBlocked
	}
	if !j.mayStart() {
		e.core.tooLate(j)
		return gotBlocked
	}
	if e.core.thief.Gated(j.ticket.Class) {
		return gotBlocked
	}
	if len(q.Lacking) > 0 {
		if is := e.startLacking(j, g); is != gotNext {
			return is
		}
		if !q.Startable() {
			return gotBlocked
		}
	}
	need := 0
	if len(j.spec.Needs) > 0 {
		var is got
		if need, is = e.suitFirst(j); is != gotNext {
			return is
		}
		if j.takes > 0 && len(q.Lacking) > 0 {
			return e.lack(j, need)
		}
	}
	at, is := e.place(j)
	if is != gotNext {
		return is
	}
	if j.spec.Capped() && !e.core.caps.More(j, j.takes) {
		return e.lack(j, need)
	}
	it, line := e.next(j)
	if len(j.spec.Needs) > 0 {
		it.Need = int32(need) + 1
	}
	switch line {
	case lines.Away:
		return gotBlocked
	case lines.Gone:
		e.core.pass(j, it)
	case lines.Here:
		e.start(j, it, at, g)
	}
	return gotOne
}

// place decides in which stage the next task of j starts, if the task has room.
func (e *execution) place(j *job) (stage, got) {
	switch {
	case e.succeeded != 0:
		return succeeds, gotNext
	case e.filling:
		if fits, _ := e.fitsGap(j); !fits {
			return 0, gotBlocked
		}
		return borrows, gotNext
	case j.gang.Ranks > 0:
		return e.placeGang(j)
	case !e.room.HoldsBeside(&e.used, j.next):
		return planned, gotFull
	case j.leader != nil && j.leader.plan != nil && e.isKept(j):
		return planned, gotWaits
	}
	return planned, gotNext
}

// isKept reports whether the free slots are for tasks of a workflow that come next, and more
// urgent than the first task of its queue.
func (e *execution) isKept(j *job) bool {
	it, ok := j.queue.FirstSingle()
	if !ok {
		return false
	}
	n, until := j.leader.plan.Coming.Ahead(e.now, it.Level, j.leader.plan.Length(it.Index))
	if n == 0 || e.slotsFor(j) > n {
		return false
	}
	e.core.waits.at = min(e.core.waits.at, until)
	return true
}

// start begins a task that was taken off the queue, unless a person cancelled the task, or
// the task cannot finish here.
func (e *execution) start(j *job, it queue.Item, at stage, g *gate) {
	switch {
	case j.cancelled(it.Index) && !mutants.CancelLate:
		e.core.record(j, it, record.Task{State: filch.Cancelled})
	case !e.core.setAside(j, it):
		e.begin(j, nil, it, at, g)
	}
}

// next takes the first task of j off its queue, unless the task waits for its line.
func (e *execution) next(j *job) (it queue.Item, line lines.Is) {
	h := j.queue.Single()
	if len(*h) == 0 {
		return e.fromRange(j)
	}
	if line = e.core.lines.Line(j, (*h)[0].Index); line != lines.Away {
		it = h.Pop()
	}
	return it, line
}

// fromRange takes the next index of the first range, if the range's front was committed,
// and proposes a higher front ahead of need.
func (e *execution) fromRange(j *job) (it queue.Item, line lines.Is) {
	s := &j.queue.Ranges[0]
	e.wantFront(j, s)
	if s.Next >= s.Front && !mutants.NoFront {
		return it, lines.Away
	}
	if line = e.core.lines.Line(j, s.Next); line == lines.Away {
		return it, line
	}
	// The task has a hop of its own: the hop of the range is another count, and the
	// task's block, which does not know the task yet, would refuse a move with the
	// range's hop.
	return queue.Item{Index: j.queue.Ranges.Pop(), Attempt: record.FirstAttempt, Tracked: j.spec.CommitsStarts()}, line
}
