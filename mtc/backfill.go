package mtc

import (
	"cmp"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/lines"
	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// Fills is the part of a Core that lets tasks run in slots held for a gang that still
// gathers. The caller says how much room there is, stops such a task when the gang can
// start, and reports the task's [End] as Recalled.
type Fills struct{ core *Core }

// SetGap sets the room of held slots, and what is known of the gang.
func (f *Fills) SetGap(now time.Duration, g policy.Gap, out *Out) {
	c := f.core
	c.enter(now, out)
	c.exec.gap = g
	if g.Room.Slots > c.exec.lent.Slots {
		c.settle()
	}
}

// Needs is how long a run takes at most, and whether that is the limit of the task; 0 if not
// known. A task that took longer already is not known any more.
func (f *Fills) Needs(run uint64) (need time.Duration) {
	c := f.core
	r := c.exec.list.Find(run)
	if r == nil || !r.started {
		return 0
	}
	if own := c.ownLimit(r.job, r.payload); own > 0 {
		return own
	}
	if limit := r.job.spec.Limit; limit > 0 {
		return limit
	}
	return c.usual(r.job, r.payload)
}

// usual is how long most tasks of a job took, or of earlier jobs of its kind; 0 if not known.
// The tasks of a workflow differ: a task takes as long as the file states, else as most tasks
// of its kind.
func (c *Core) usual(j *job, line []byte) time.Duration {
	switch {
	case c.cfg.Walltime.Blind:
		return 0
	case j.Graph():
		n, _ := record.DecodeGraphNode(line)
		return cmp.Or(n.Length, c.pace.estimates.On(c.cfg.Self, c.pace.estimates.Limit(n.Kind)), j.pace.told)
	case j.pace.durations.Count() > 0:
		return j.pace.durations.Limit()
	}
	return cmp.Or(j.pace.told, j.spec.Expect)
}

// fillGap starts tasks in the slots held for a gang, oldest job first. A task that waits for
// room keeps none of these slots from younger tasks: the room of tasks comes to it in its
// turn.
func (e *execution) fillGap(g *gate) {
	if e.gap.Room.Slots <= e.lent.Slots {
		return
	}
	e.filling = true
	for i := 0; i < len(e.core.order); {
		j := e.core.order[i]
		if len(j.queue.Lacking) == 0 && e.startOne(j, g) == gotOne {
			continue
		}
		if e.core.idle(j); j.queue.listed {
			i++
		}
	}
	e.filling = false
}

// fitsGap reports whether the first task of a job may run in the slots held for a gang, and
// otherwise whether that is unknown as long as the line of the task is on its way.
func (e *execution) fitsGap(j *job) (fits, away bool) {
	if j.spec.Once && !mutants.FillOnce || j.spec.Firm || j.gang.Ranks > 0 || j.queue.FirstRecalls() >= policy.RecallsMax {
		return false, false
	}
	if !e.gap.Room.HoldsBeside(&e.lent, j.next) {
		return false, false
	}
	index, _ := j.queue.First()
	if e.core.lines.Line(j, index) == lines.Away {
		return false, true
	}
	limit, usual := e.core.lengths(j, index)
	if e.gap.Admits(e.now, limit, usual) {
		return true, false
	}
	if at := e.gap.Again(e.now, usual); at > e.now {
		e.core.waits.at = min(e.core.waits.at, at)
	}
	return false, false
}

// taskRoom is the room of the task, wherever the room comes from.
func (r *run) taskRoom() *filch.Room {
	if mutants.OneRoom {
		return &r.job.spec.Each
	}
	return r.job.spec.Room(int(r.item.Need) - 1)
}
