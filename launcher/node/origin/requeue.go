package origin

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
)

// requeues starts runs again on request.
type requeues struct {
	*joblist
	attempts *attempts
	endings  *endings
}

// Requeue ends the attempt of a detached run on request; the run waits again with its
// number and ticket. By names the requester. The ranks get TERM, and KILL after the job's
// kill-wait. The cause in the job's record makes the next owner start the job again, too.
func (q *requeues) Requeue(now time.Duration, id filch.JobID, by string, out *launcher.Outbox) *filch.Error {
	t := q.Turn(now, out)
	j := q.jobs[id]
	refused := func(why string) *filch.Error {
		return filch.Errorf(filch.Busy, "cannot start job %d again: %s", id, why)
	}
	switch {
	case j == nil:
		return q.endings.noJob(id)
	case j.req.Parent != 0:
		return refused("the job is a step of job " + j.req.Parent.String())
	case !j.req.Detach:
		return refused("a client waits for the job; only detached jobs start again on request")
	case j.run == nil || j.run.unsent != nil:
		return refused("the job waits for slots")
	case j.run.requeued():
		return nil
	case j.run.halt.level > 0 && !j.run.gate:
		return refused("the job is ending: " + j.run.cause.Text)
	}
	j.run.cause = verdict{}
	q.attempts.end(t, j, launcher.Cause{Kind: launcher.CauseRequeue, Rank: -1, Text: "started again by " + by}, launcher.SigTerm, j.req.Policy.KillWait)
	t.End()
	return nil
}

// requeued reports whether an attempt ends so that the job starts again on request. A
// cancel or a time limit ends the job all the same.
func (r *run) requeued() bool { return r.cause.Kind == launcher.CauseRequeue && !r.halt.user }

// takeCause makes c the cause of an end if there was no cause, if the cause so far is in
// doubt, or if c overrules a request to start again.
func (r *run) takeCause(c launcher.Cause) {
	gone := c.Kind == launcher.CauseNodeLost || c.Kind == launcher.CauseOurs // the ranks vanished, too
	if c.Kind.ByUser() {
		r.halt.user = true
	}
	overruled := r.cause.Kind == launcher.CauseRequeue && r.halt.user
	if r.cause.Kind == launcher.CauseNone || overruled || r.cause.Doubt > launcher.DoubtNone && gone {
		r.cause = verdict{c, c.Kind.Code(r.tally.high)}
	}
}

// arrays bounds how many jobs of an array run at a time ([launcher.Array]). The bound is
// kept among the jobs of one origin: when a node has died, each node that takes jobs of the
// array over keeps the bound for its own.
type arrays struct {
	*joblist
	origin beginner
	groups map[string]*array
}

// array is the jobs of an array at this origin.
type array struct {
	active map[filch.JobID]bool
	waits  []*job // by ticket
}

// admits reports whether a job may gather slots now; otherwise the job waits for the end of
// another job of its array.
func (a *arrays) admits(j *job) bool {
	j.behind = false
	key, most := j.req.Array.Key, int(j.req.Array.Most)
	if key == "" || most <= 0 {
		return true
	}
	g := a.groups[key]
	if g == nil {
		g = &array{active: make(map[filch.JobID]bool)}
		a.groups[key] = g
	}
	switch {
	case g.active[j.id]:
		return true
	case len(g.active) < most:
		g.active[j.id] = true
		return true
	}
	j.behind = true
	for i, other := range g.waits {
		if other == j {
			return false
		}
		if j.ticket.Older(other.ticket) {
			g.waits = append(g.waits[:i], append([]*job{j}, g.waits[i:]...)...)
			return false
		}
	}
	g.waits = append(g.waits, j)
	return false
}

// runs notes a job of an array that runs already.
func (a *arrays) runs(j *job) {
	if key := j.req.Array.Key; key != "" && j.req.Array.Most > 0 {
		if a.groups[key] == nil {
			a.groups[key] = &array{active: make(map[filch.JobID]bool)}
		}
		a.groups[key].active[j.id] = true
	}
}

// leave takes an ended job out of its array, and returns the job to begin instead, nil
// for none.
func (a *arrays) leave(j *job) *job {
	g := a.groups[j.req.Array.Key]
	if g == nil {
		return nil
	}
	delete(g.active, j.id)
	var next *job
	for len(g.waits) > 0 && next == nil && len(g.active) < int(j.req.Array.Most) {
		if w := g.waits[0]; a.jobs[w.id] == w {
			next = w
		}
		g.waits = g.waits[1:]
	}
	if next == nil && len(g.active) == 0 && len(g.waits) == 0 {
		delete(a.groups, j.req.Array.Key)
	}
	return next
}

// follow begins the job of an array that waited for the end of j.
func (a *arrays) follow(t *local.Turn, j *job) {
	if next := a.leave(j); next != nil {
		a.origin.begin(t, next)
	}
}
