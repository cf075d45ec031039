package instance

import (
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Some runs wait for other runs, for a time, or for their turn among runs of a name. None
// may begin before that, and none is skipped without cause.

// awaited is a run that another one waits for.
type awaited struct {
	job  *job
	when record.When
}

// drawAwaits has the clients of some runs ask for conditions, as they submit: what they
// wait for exists by then.
func (w *World) drawAwaits(d *engine.Dice, share float64) {
	for _, j := range w.jobs {
		if j.parent != nil || j.task != nil || j.request.Patient > 0 || !d.Chance(share) {
			continue
		}
		count, kinds, any := 1+d.N(3), d.N(1<<8), d.Chance(0.2)
		if d.Chance(0.2) {
			j.request.Name, j.request.Before.Alone = "alone", true
		}
		if d.Chance(0.2) {
			j.request.Before.Begin = wallClock + int64(j.Submit+d.Between(time.Millisecond, 5*time.Second))
		}
		j.awaits = func() {
			c := &j.request.Before
			for _, o := range w.jobs {
				if o.id == 0 || o == j || o.parent != nil || o.task != nil || o.spawner != nil || len(c.After) == count || (o.index+kinds)%3 == 0 {
					continue
				}
				when := record.When((kinds >> (2 * len(c.After))) & 3)
				j.awaited = append(j.awaited, awaited{o, when})
				c.After, c.When = append(c.After, o.id), append(c.When, when)
			}
			c.Any = any && !c.Alone && len(c.After) > 0
		}
	}
}

// checkAwaited holds the first launch of a run against what the run waits for.
func (w *World) checkAwaited(j *job) {
	c := &j.request.Before
	if h := w.hosts[j.host]; c.Begin > wallClock+int64(w.Now()) && h.skew == 0 && !w.shaky(j) {
		w.Fail("too-early", "job %d began %v before its time", j.id, time.Duration(c.Begin-wallClock)-w.Now())
	}
	why := ""
	for _, a := range j.awaited {
		text := w.unmet(&a)
		switch {
		case text == "" && c.Any:
			return
		case text != "":
			why = text
		}
	}
	if why != "" && len(j.attempts) == 1 {
		w.Fail("too-early", "job %d (index %d) began, which waits with %q: %s", j.id, j.index, c, why)
	}
	if !c.Alone {
		return
	}
	for _, o := range w.jobs {
		if o != j && o.request.Before.Alone && o.live() && !w.shaky(o) && !w.shaky(j) {
			w.Fail("not-alone", "job %d began while job %d of the same name runs", j.id, o.id)
		}
	}
}

// unmet says why a run cannot have met a condition; "" if it can.
func (w *World) unmet(a *awaited) string {
	o := a.job
	switch {
	case w.shaky(o) || o.clientGone || o.orphaned || o.cancelled:
		return "" // its record may tell another story
	case o.request.Detach && o.awaits != nil && !o.live():
		return "" // skipped, perhaps, without a word to its client
	case a.when == record.WhenStarted:
		if len(o.attempts) == 0 && !o.over() {
			return "job " + o.id.String() + " has not started"
		}
	case o.live():
		return "ranks of job " + o.id.String() + " run"
	case len(o.attempts) == 0 && !o.over():
		return "job " + o.id.String() + " has not started, and has no end"
	case o.over() && !o.refused && !a.when.Met(o.end.State):
		return "job " + o.id.String() + " ended as " + o.end.State.String()
	}
	return ""
}

// shaky reports whether a fault may have touched what decides about a run.
func (w *World) shaky(o *job) bool {
	if w.hosts[o.host].trouble > o.submittedAt-leaseBound || o.restarted {
		return true
	}
	for _, a := range o.attempts {
		if w.touched(o, a) {
			return true
		}
	}
	return false
}

// skipped reports whether a refusal says that a condition can never be met, and whether
// that may be so.
func (w *World) skipped(j *job, e *launcher.Refused) bool {
	if !strings.Contains(e.Err.Text, "is skipped: ") {
		return false
	}
	if strings.Contains(e.Err.Text, "there is no job") {
		// The record of a lost client's run may never be written, and that of an ended job may
		// be dropped before the next look.
		return !w.allWell(j.submittedAt) || slices.ContainsFunc(j.awaited, func(a awaited) bool { return w.droppedJob(a.job) })
	}
	for _, a := range j.awaited {
		o := a.job
		if w.shaky(o) || o.clientGone || o.cancelled || o.refused || o.request.Detach || o.over() && !a.when.Met(o.end.State) {
			return true
		}
	}
	return false
}

// endsSkipped reports whether a detached run may be skipped by its record.
func (j *job) endsSkipped(state string) bool {
	return state == filch.Skipped.String() && len(j.awaited) > 0 && len(j.attempts) == 0
}
