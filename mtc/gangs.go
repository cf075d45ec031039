package mtc

import (
	"cmp"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// This file decides when a task that is a gang starts: see [record.Gang]. The caller
// finds the slots of a gang, on this node or on several nodes, and reports them by
// [Gangs.Launched].

// stage is how far a run is on its way to slots.
type stage uint8

const (
	planned   stage = iota // has room of this node's tasks: a task, or a gang that fits here
	borrows                // a task in the room of slots held for a gang: see [Fills]
	gathering              // a gang that gathers slots of several nodes
	launched               // a gang that has its slots
	succeeds               // a task that waits for the end of another: see [execution.fillNext]
)

// Gangs is the part of a Core that follows gangs on their way to slots.
type Gangs struct{ core *Core }

// waitFor is the end of the wait for the ranks of a dead owner. The first call begins the wait.
func (f *failover) waitFor(o record.Owner) time.Duration {
	rest := policy.GangRest
	if mutants.NoRest {
		rest = 0
	}
	until, first := f.remains.WaitFor(o, f.now, rest)
	if first {
		f.out.Remains = append(f.out.Remains, o)
	}
	if until > f.now {
		f.By(until)
	}
	return until
}

// rest queues a gang of a dead owner whose ranks may run; nobody starts the gang before they
// are gone.
func (f *failover) rest(j *job, it queue.Item, from record.Owner) {
	j.queue.Hold(&it)
	until := f.waitFor(from)
	if until <= f.now {
		j.queue.Shared.Push(it)
		return
	}
	j.queue.Resting = append(j.queue.Resting, queue.Delayed{Item: it, Until: until, Behind: from})
	f.core.waits.at = min(f.core.waits.at, until)
}

// RanksGone takes in that no node has ranks of the gangs of a dead owner.
func (g *Gangs) RanksGone(now time.Duration, o record.Owner, out *Out) {
	c := g.core
	c.enter(now, out)
	f := &c.failover
	lose, ok := f.remains.End(o, now)
	if !ok {
		return
	}
	for _, j := range c.sortedJobs() {
		if j.queue.Lift(o) > 0 {
			c.active(j)
			c.victim.Fresh = true
			c.orders.obey(j)
		}
	}
	if lose {
		f.Ask()
		out.Sweep = true
	}
	c.settle()
}

// lost queues a gang for its next attempt, after a node died that had ranks of the gang: no
// rank is left, and this node is not at fault.
func (e *execution) lost(j *job, it queue.Item) {
	it = it.Next(e.now)
	j.queue.Hold(&it)
	j.queue.Shared.Push(it)
	e.core.active(j)
}

// mustGather reports whether the first task of a job is a gang that never fits on this
// node alone. A node of unknown room suffices.
func (e *execution) mustGather(j *job) bool {
	m := e.core.cfg.Members.Get(e.core.cfg.Self)
	return j.gang.Nodes > 1 || j.gang.Spare > 0 || j.gang.Ranks > 1 && m != nil && m.Total.Slots > 0 && !m.Total.Holds(*j.next)
}

// mayGather reports whether the first gang of a job has a place among the gangs that gather. A
// gang for which nodes are missing keeps no place from a gang for which there are nodes.
func (e *execution) mayGather(j *job, fits bool) bool {
	n, can := e.gathers, e.core.cfg.Fits
	if !policy.MayGather(n, fits) && can != nil && can(j.spec.Need(j.need)) {
		for _, r := range e.list.All() {
			if r.stage == gathering && !can(r.job.spec.Need(int(r.item.Need)-1)) {
				n--
			}
		}
	}
	return policy.MayGather(n, fits)
}

// placeGang decides whether the first gang of a job may start, and in which stage.
func (e *execution) placeGang(j *job) (stage, got) {
	alone := e.mustGather(j)
	switch {
	case !alone && e.room.HoldsBeside(&e.used, j.next):
		return planned, gotNext
	case !e.mayGather(j, !alone):
		return 0, gotBlocked
	case alone:
		return gathering, gotNext
	case j.gatherAt == 0:
		j.gatherAt = e.now + policy.GatherAfter
	}
	if j.gatherAt > e.now {
		e.core.waits.at = min(e.core.waits.at, j.gatherAt)
		return 0, gotFull
	}
	return gathering, gotNext
}

// onPlaced takes in that a gang has begun.
func (e *execution) onPlaced(r *run) {
	switch r.job.gatherAt = 0; r.stage {
	case gathering:
		e.gathers++
	case borrows:
		e.lent.Add(r.taskRoom())
	}
}

// unlaunched takes in the end of a gang that was stopped before it had its slots, since a
// person held its job or cancelled it, or of a successor that never began: the task waits as
// before, or ends without an attempt.
func (e *execution) unlaunched(r *run, end *End) bool {
	switch j := r.job; {
	case r.stage != gathering && !(r.stage == succeeds && end.Unstarted) || end.State == filch.OK:
		return false
	case j.void != 0 || j.cancelled(r.item.Index):
		e.core.record(j, r.item, record.Task{State: cmp.Or(j.void, filch.Cancelled)})
	case mutants.SuccessorLost && r.stage == succeeds:
	case end.State == filch.Killed:
		r.item.Maybe = r.item.Maybe || end.Gone && r.stage == succeeds
		j.queue.Hold(&r.item)
		j.queue.Shared.Push(r.item)
		e.core.active(j)
	default:
		return false
	}
	e.release(end.Run)
	return true
}

// leave takes in that a run is over.
func (e *execution) leave(r *run) {
	switch r.stage {
	case gathering:
		e.gathers--
	case borrows:
		e.lent.Sub(r.taskRoom())
	}
}

// Launched takes in that a gang has its slots: the caller counts them, and
// [Core.SetRoom] no longer includes those of this node. The time of the gang begins. If goes
// is false, the core commits the start first: no rank may begin before [Out.Goes] has the
// run. A gang that lost its slots again, before its ranks began, may be reported once more.
func (g *Gangs) Launched(now time.Duration, id uint64, out *Out) (goes bool) {
	c := g.core
	c.enter(now, out)
	r := c.exec.list.Find(id)
	switch {
	case r == nil || r.gang().Ranks == 0:
		return true
	case r.stage == launched:
		r.began = now
		return r.may
	}
	c.exec.used.Sub(r.room())
	c.exec.leave(r)
	r.stage, r.began = launched, now
	r.job.pending.Begins(c.wall(now))
	if r.may = !r.item.Tracked || mutants.GangEarly; !r.may {
		r.opening = true
		gate := gate{}
		c.exec.gate(r, id, &gate)
		c.exec.commitStarts(&gate)
	}
	goes = r.may
	c.settle()
	return goes
}

// opened takes in that the start of a gang is committed, or that the gang has ended or belongs
// to another node.
func (e *execution) opened(r *run, id uint64, ours bool) {
	r.opening = false
	switch j := r.job; {
	case !ours:
		e.out.Stops = append(e.out.Stops, Stop{Run: id, Job: j.id})
		j.queue.Unhold(&r.item)
		e.release(id)
	case j.void != 0 || j.cancelled(r.item.Index): // the end follows
		e.out.Stops = append(e.out.Stops, Stop{Run: id, Job: j.id})
	default:
		r.may, r.began = true, e.now
		e.out.Goes = append(e.out.Goes, id)
	}
}

// Gathering takes in that a gang gathers slots although this node had room for it: others
// took the room meanwhile.
func (g *Gangs) Gathering(now time.Duration, id uint64, out *Out) {
	c := g.core
	c.enter(now, out)
	r := c.exec.list.Find(id)
	if r == nil || r.gang().Ranks == 0 || r.stage != planned {
		return
	}
	c.exec.used.Sub(r.room())
	r.stage = gathering
	c.exec.gathers++
	c.settle()
}
