package instance

import (
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// checkDetached: the record of a detached job tells its end, whoever decided about the
// job last. The end is one that happened, and no launcher remembers another one.
func (w *World) checkDetached(j *job) {
	if j.id == 0 || len(w.Broken()) > 0 {
		return
	}
	value := w.read(fmt.Sprintf("job/%d", j.id))
	if len(w.Broken()) > 0 {
		return
	}
	if value == nil && w.droppedJob(j) {
		return
	}
	if value == nil {
		w.Fail("forgotten", "there is no record of detached job %d (index %d) of %s: %s", j.id, j.index, w.hosts[j.host].Name, w.describeDrop())
		return
	}
	e, err := launcher.DecodeJobEntry(value)
	if err != nil {
		w.Fail("record", "the record of detached job %d: %v", j.id, err)
		return
	}
	if e.Info.Code == nil {
		w.Fail("no-end", "detached job %d (index %d) never ended: %s of %s says it is %s", j.id, j.index, e.Owner, w.hosts[j.host].Name, e.Info.State)
		return
	}
	if !w.stateIsTrue(j, e.Info.State) {
		text := "never started"
		if a := j.last(); a != nil {
			text = w.describe(a)
		}
		w.Fail("wrong-cause", "detached job %d (index %d) is %s by its record, %q; in truth %s", j.id, j.index, e.Info.State, e.Info.Cause, text)
	}
	for _, h := range w.hosts {
		if h.node == nil {
			continue
		}
		for _, i := range h.node.Jobs(h.Local()) {
			if i.ID == j.id && (i.State != e.Info.State || i.Code == nil || *i.Code != *e.Info.Code) {
				w.Fail("two-ends", "detached job %d is %s with %s and %s by its record, which %s wrote", j.id, i.State, h.Name, e.Info.State, e.Owner)
			}
		}
	}
}

// stateIsTrue reports whether a detached job can have ended in a state. Whom it was
// lost with need not be in the attempt: its owner may have been.
func (w *World) stateIsTrue(j *job, state string) bool {
	a, p := j.last(), &j.request.Policy
	well := w.allWell(j.submittedAt - leaseBound)
	if j.endsSkipped(state) {
		return true
	}
	switch state {
	case filch.OK.String():
		return a != nil && a.allRan() && len(a.ends) == int(a.launch.Size) && (a.firstBad() == nil || !p.KillOnBad)
	case filch.Lost.String():
		return !well
	case filch.Cancelled.String():
		return j.cancelled
	case filch.Killed.String():
		return a != nil && (p.TimeLimit > 0 || p.WaitFirst > 0 || a.firstBad() != nil || !well)
	case filch.Failed.String():
		return !well || j.vanished || a != nil && (a.unready || a.firstBad() != nil || p.WaitFirst > 0)
	}
	return false
}
