package tasks

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// lastsFor is how long the task runs that a failed workflow waits for: longer than any fault.
const lastsFor = 45 * time.Second

// lasting plans a workflow of which a task fails while another task runs for long. A
// person then cancels the task that still runs, or the whole job.
func (w *World) lasting(d *engine.Dice) {
	if d.Chance(0.5) {
		return
	}
	id := filch.JobID(len(w.truth.jobs) + 1)
	s := submit.Job{Job: id, Nodes: []record.GraphNode{{Name: "fails"}, {Name: "lasts"}, {Name: "after", Parents: []int32{1}}}}
	s.Spec.OnFail, s.Spec.CrashLimit = record.FailStop, 100
	length := func(r *engine.Dice, s mtc.Start) time.Duration {
		if s.Index == 1 {
			return lastsFor
		}
		return r.Between(10*time.Millisecond, time.Second)
	}
	fails := func(s mtc.Start) int32 { return 1 - min(s.Index, 1) }
	host, at, whole := d.N(len(w.hosts)), d.Between(0, 2*time.Second), d.Chance(0.5)
	w.At(at, func() {
		if !w.hosts[host].Up() {
			host = w.alive()
		}
		w.Submit(host, s, length)
		w.truth.jobs[id].fails = fails
	})
	w.At(at+d.Between(2*time.Second, 20*time.Second), func() { w.enough(id, whole) })
	w.truth.submitted(s, length)
}

// enough has a person cancel the lasting task of a failed workflow, or the workflow, again
// and again: the host that is told may crash.
func (w *World) enough(id filch.JobID, whole bool) {
	j := w.truth.jobs[id]
	switch {
	case j.rec != nil && (j.rec.Finished() || j.orders.voidAt > 0 || j.rec.Cancelled(1)):
		return
	case j.rec != nil && j.rec.Void != 0:
		w.Stats.Orders++
		w.Call(w.alive(), "enough", func(c *mtc.Core, now time.Duration, out *mtc.Out) {
			if whole {
				c.Cancel(now, id, "", out)
			} else {
				c.Order(now, id, record.Orders{Cancels: []record.Pick{{From: 1, Count: 1}}}, out)
			}
		})
	}
	w.At(w.Now()+time.Second, func() { w.enough(id, whole) })
}

// stopped checks that a process that ended by itself was not cancelled long before.
func (t *truth) stopped(h *host, j *job, s mtc.Start) {
	w, at := t.w, j.orders.voidAt
	if int(s.Index) < len(j.orders.cancelledAt) && j.orders.cancelledAt[s.Index] > 0 {
		at = j.orders.cancelledAt[s.Index]
	}
	if at > 0 && w.Now()-at > obeysWithin && !w.excused(h) {
		t.breach("task %d.%d ran on on %s until %v after it was cancelled", s.Job, s.Index, h.Name, w.Now()-at)
	}
}
