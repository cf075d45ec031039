package mtc

import (
	"iter"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// Look answers questions of users about the tasks of a node that have no recorded end. A
// Look changes nothing, and costs nothing while no user asks.
type Look struct{ core *Core }

// Look returns the Look at a Core.
func (c *Core) Look() Look { return Look{c} }

// Live yields the jobs that are not known to have ended, by id.
func (l Look) Live() iter.Seq[filch.JobID] {
	return func(yield func(filch.JobID) bool) {
		for _, j := range l.core.sortedJobs() {
			if !j.over && !yield(j.id) {
				return
			}
		}
	}
}

// Work counts the attempts of tasks that ended on this node, and the node's steals.
func (l Look) Work() (ended int64, s policy.Steals) {
	return l.core.mover.ends.Done(), l.core.thief.Poll.Steals
}

// Arrivals are the comings of the task with an index to this node's queue.
func (l Look) Arrivals(id filch.JobID, index int32) []queue.Arrival {
	return l.core.arrivals.Of(id, index)
}

// Behind returns the tasks without an end that a task of a workflow waits for, at most
// most. leads is false if the node does not lead the workflow, or the workflow has to wait
// for other jobs; likewise for a bag whose task waits for a task of another bag.
func (l Look) Behind(id filch.JobID, index int32, most int) (tasks []int32, leads bool) {
	j := l.core.jobs[id]
	if j != nil && j.leader != nil && j.leader.open && j.leader.each != nil {
		return nil, !j.leader.each.Waits(index)
	}
	if j == nil || j.leader == nil || !j.leader.open || j.leader.tracker == nil || index < 0 || int(index) >= j.leader.graph.Len() {
		return nil, false
	}
	return j.leader.tracker.Behind(index, most), true
}

// Ending yields the numbers of the tasks in their first job that ended on this node, and their
// ends, which are not recorded yet; in any order.
func (l Look) Ending(id filch.JobID) iter.Seq2[int32, *record.Task] {
	return func(yield func(int32, *record.Task) bool) {
		if j := l.core.jobs[id]; j != nil && j.spec != nil {
			for i, t := range j.pending.Each() {
				if !yield(j.spec.Name(i), t) {
					return
				}
			}
		}
	}
}

// RestsUntil is when a task that failed is tried again; 0: the task does not rest on this
// node. name is the task's number in its first job.
func (l Look) RestsUntil(id filch.JobID, name int32) time.Duration {
	if j, index, ok := l.find(id, name); ok {
		return j.queue.RestsUntil(index)
	}
	return 0
}

// find is the job and the index of a task by its number in its first job.
func (l Look) find(id filch.JobID, name int32) (j *job, index int32, ok bool) {
	if j = l.core.jobs[id]; j != nil && j.spec != nil {
		index, ok = j.spec.Index(name)
	}
	return j, index, ok
}

// Remaining counts the gangs of a job that wait on this node for ranks of dead owners: the gangs
// that are lost afterwards, and the gangs that rest here until then; owners names the dead.
func (l Look) Remaining(id filch.JobID) (astray, resting int64, owners []record.Owner) {
	f := &l.core.failover
	astray, owners = f.remains.Astray(id, f.now-2*policy.SweepAgain)
	if j := l.core.jobs[id]; j != nil {
		resting, owners = j.queue.Remaining(owners)
	}
	return astray, resting, owners
}

// RestsBehind is the dead owner whose ranks a resting gang waits for. name is the task's number
// in its first job.
func (l Look) RestsBehind(id filch.JobID, name int32) (o record.Owner, ok bool) {
	if j, index, known := l.find(id, name); known {
		o = j.queue.RestsBehind(index)
	}
	return o, o != record.Owner{}
}

// Gathers is the number of the node's gangs that gather slots.
func (l Look) Gathers() int32 { return l.core.exec.gathers }

// HasSlots reports whether the run of a gang was reported to have its slots, and whether
// it gathers them.
func (l Look) HasSlots(run uint64) (has, gathers bool) {
	r := l.core.exec.list.Find(run)
	return r != nil && r.stage == launched, r != nil && r.stage == gathering
}

// Choice is the policy by which the tasks of a workflow are placed that this node leads, if the
// policy of the instance is [policy.Auto].
func (l Look) Choice(id filch.JobID) (c policy.Choice, ok bool) {
	j := l.core.jobs[id]
	if l.core.mover.Kind != policy.Auto || j == nil || j.leader == nil || j.leader.plan == nil {
		return c, false
	}
	return j.leader.plan.Choice, true
}

// First is the job whose next task finds no room on this node beside the running tasks:
// younger tasks do not overtake it here. 0: none.
func (l Look) First() filch.JobID {
	if j := l.core.exec.stuck.job; j != nil {
		return j.id
	}
	return 0
}

// Started describes a start.
type Started struct {
	Began   time.Duration
	Limit   time.Duration // of the task; 0 none
	Attempt filch.Attempt
	Maybe   bool // as [record.Task.Maybe]
	Copy    bool // of a task that another node runs
}

// Started describes the start of a run. ok is false if the run of a [Start] has ended.
func (l Look) Started(run uint64) (s Started, ok bool) {
	r := l.core.exec.list.Find(run)
	if r == nil || !r.started {
		return s, false
	}
	s = Started{Began: r.began, Attempt: r.item.Attempt, Maybe: r.item.Maybe, Copy: r.copy != nil, Limit: l.core.ownLimit(r.job, r.payload)}
	if s.Limit <= 0 {
		s.Limit = r.job.spec.Limit
	}
	return s, true
}
