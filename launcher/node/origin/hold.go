package origin

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
)

// Hold holds a waiting run in the name of a person: the run gives its slots back, and
// gathers none until Hold with "" releases the run. The ticket stays, so a released run
// goes before younger runs. Of a detached run, the record has the hold before Hold calls
// then; the record outlives this node.
func (q *gatherqueue) Hold(now time.Duration, id filch.JobID, by string, then func(*filch.Error), out *launcher.Outbox) {
	t := q.Turn(now, out)
	defer t.End()
	j := q.jobs[id]
	if j == nil || j.req.HeldBy == by {
		then(nil)
		return
	}
	if err := j.holdable(); err != nil && by != "" {
		then(err)
		return
	}
	j.req.HeldBy = by
	if by != "" {
		q.releaseHolds(t, j, nil)
		if j.lined = false; !j.kept.unrecorded {
			q.origin.begin(t, j) // which waits, and gives back what else the run has
		}
	}
	q.origin.keep(t, j)
	settled := func(t *local.Turn) {
		if q.jobs[id] == j && j.req.HeldBy == "" && j.idle() {
			q.origin.again(t, j)
		}
		q.wakeJob(j, j.deadline())
		then(nil)
	}
	if j.req.Detach {
		q.recorder.Commit(t, id, settled)
		return
	}
	settled(t)
}

// holdable returns the reason why a job cannot be held.
func (j *job) holdable() *filch.Error {
	switch {
	case j.req.Parent != 0:
		return filch.Errorf(filch.Invalid, "job %d is a step of %s, and uses slots of it: a step cannot be held", j.id, j.inside())
	case j.run != nil && j.run.going:
		nodes := make([]filch.NodeName, len(j.run.launch.Nodes))
		for i := range nodes {
			nodes[i] = j.run.launch.Nodes[i].Node
		}
		return filch.Errorf(filch.Busy, "job %d runs on %s, and only a run that waits can be held", j.id, launcher.ListNames(nodes)).
			WithHint("filch cancel %d ends the run", j.id)
	case j.run != nil:
		return filch.Errorf(filch.Busy, "job %d is being launched on %d nodes, and only a run that waits can be held", j.id, len(j.run.launch.Nodes)).
			WithHint("filch cancel %d ends the run", j.id)
	}
	return nil
}

// idle reports whether nothing else decides when the job begins: it neither runs nor
// gathers, and waits for no record, client or lost rank.
func (j *job) idle() bool {
	return j.run == nil && j.gather == nil && j.wait == nil && !j.lined && !j.unclaimed() && !j.kept.unrecorded && j.clock.lostUntil == filch.Never
}

// pass gives the place of a held job in its array to the next job.
func (a *arrays) pass(t *local.Turn, j *job) {
	j.behind = false
	if g := a.groups[j.req.Array.Key]; g != nil {
		g.waits = slices.DeleteFunc(g.waits, func(other *job) bool { return other == j })
	}
	a.follow(t, j)
}
