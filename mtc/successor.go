package mtc

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/mtc/policy"
)

// A successor is the next task of the job of a running task, handed to the caller ahead of its
// room: see [Start.Succeeds].

// hasSuccessors reports whether tasks of j begin as successors: first attempts of brief tasks
// of one kind, whose starts are in no record, so that a start given up costs nothing.
func (j *job) hasSuccessors() bool {
	q := &j.queue
	return !j.alone && !j.Graph() && !j.spec.CommitsStarts() && !j.spec.Capped() && len(j.spec.Needs) == 0 && j.gang.Ranks == 0 &&
		len(q.Dedicated)+len(q.Shared) == 0 && len(q.Ranges) > 0 && policy.Brief(&j.pace.durations)
}

// Alone takes in that tasks of a job leave processes in their room: they get no successors here.
func (c *Core) Alone(id filch.JobID) {
	if j := c.jobs[id]; j != nil {
		j.alone = true
	}
}

// fillNext starts successors of the running tasks of the oldest job that waits for room.
// Where gangs took room of running tasks, or tasks of a better class wait elsewhere, running
// tasks have no successors.
func (e *execution) fillNext(g *gate) {
	j := e.stuck.job
	if j == nil || e.used.Slots > e.room.Slots || e.core.drain.on || e.core.thief.Urge.StandsBack(j.ticket.Class) {
		return
	}
	for id, r := range e.list.All() {
		if !j.hasSuccessors() {
			return
		}
		if r.job == j && r.stage == planned && r.started && r.next == 0 {
			e.succeeded = id
			is := e.startOne(j, g)
			if e.succeeded = 0; is != gotOne {
				return
			}
		}
	}
}

// pass gives the room of an ended run to its successor.
func (e *execution) pass(r *run) {
	if r.stage == succeeds {
		r.job.successors--
		if prev := e.list.Find(r.prev); prev != nil {
			prev.next = 0
		}
	}
	if next := e.list.Find(r.next); next != nil {
		next.job.successors--
		next.stage, next.prev, next.began = planned, 0, e.now
		if !mutants.FreeSuccessor {
			e.used.Add(next.room())
		}
	}
}
