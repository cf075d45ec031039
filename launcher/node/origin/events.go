package origin

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/node/local"
)

// kind returns the kind of a job of this origin.
func (j *job) kind() string {
	if j.req.Parent != 0 {
		return "step"
	}
	return "run"
}

// event returns an event of an attempt: of the run, or of the task that is a gang.
func (j *job) event(k events.Kind, count int64) events.Event {
	e := events.Event{Kind: k, Job: j.id, Try: j.try(), Count: count}
	if j.gang != 0 {
		e.Job, e.Task, e.Tasks = j.req.Of.Job, int32(j.req.Of.Index), 1
	}
	return e
}

// pastAttempt reports the end of an attempt of a job that starts again.
func (j *job) pastAttempt(t *local.Turn, origin filch.NodeName) {
	if j.run == nil || j.gang != 0 {
		return
	}
	r := j.run
	e := launcher.EndRecord{State: r.cause.Kind.State(), Code: r.cause.code, Cause: r.cause.Cause, Usage: r.tally.rows.Sum}
	if r.cause.Kind == launcher.CauseNone { // no rank began
		e.State, e.Code, e.Cause.Text = filch.Lost, filch.ExitOurs, r.halt.reason
	}
	t.Past(j.info(t.Now, origin, &e), true)
}
