package tasks

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// How long after an order a host that answers may start what the order forbids: news
// and answers of the store may be lost. After a fault of any host the leader may be dead.
const (
	obeysWithin = 4 * time.Second
	calmAfter   = 10 * time.Second
)

// orders are what people ordered about a job, as its record has it.
type orders struct {
	heldAt      time.Duration // 0: not held
	cancelledAt []time.Duration
	voidAt      time.Duration // of the cancel of the whole job; 0: none
}

// orders plans that single tasks are cancelled, and that jobs are held and
// released again.
func (w *World) orders(d *engine.Dice) {
	if d.Chance(0.3) {
		return
	}
	n := len(w.truth.jobs)
	for range 1 + d.N(5) {
		id := filch.JobID(1 + d.N(n))
		at, long := d.Between(0, 8*time.Second), d.Between(100*time.Millisecond, 40*time.Second)
		if d.Chance(0.3) {
			w.At(at, func() { w.hold(id, true) })
			w.At(at+long, func() { w.hold(id, false) })
			continue
		}
		from, count, single := d.N(1200), 1+d.N(400), d.Chance(0.5)
		w.At(at, func() {
			j := w.truth.jobs[id]
			if j.rec == nil || j.rec.Total == 0 {
				return
			}
			p := record.Pick{From: int32(from) % j.rec.Total, Count: 1}
			if !single {
				p.Count = min(int32(count), j.rec.Total-p.From)
			}
			w.Stats.Orders++
			w.Call(w.alive(), "order", func(c *mtc.Core, now time.Duration, out *mtc.Out) {
				c.Order(now, id, record.Orders{Cancels: []record.Pick{p}}, out)
			})
		})
	}
}

// hold has a person hold or release a job, again and again: the host that is told may
// crash.
func (w *World) hold(id filch.JobID, on bool) {
	j := w.truth.jobs[id]
	switch {
	case j.rec == nil && !on, j.rec != nil && (j.rec.Finished() || j.rec.Held == on):
		return
	case j.rec != nil:
		w.Stats.Orders++
		serial := j.rec.Serial
		w.Call(w.alive(), "hold", func(c *mtc.Core, now time.Duration, out *mtc.Out) {
			c.Order(now, id, record.Orders{Held: on, By: "someone", Serial: serial}, out)
		})
	}
	if !on {
		w.At(w.Now()+time.Second, func() { w.hold(id, false) })
	}
}

// ordered takes in the orders of a job's record.
func (t *truth) ordered(id filch.JobID, j *job, rec *record.Job) {
	o := &j.orders
	switch {
	case rec.Held && o.heldAt == 0:
		o.heldAt = t.w.Now()
	case !rec.Held:
		o.heldAt = 0
	}
	if rec.Void == filch.Cancelled && o.voidAt == 0 {
		o.voidAt = t.w.Now()
	}
	for _, p := range rec.Cancels {
		for i := p.From; i < p.From+p.Count; i++ {
			for int(i) >= len(o.cancelledAt) {
				o.cancelledAt = append(o.cancelledAt, 0)
			}
			if o.cancelledAt[i] == 0 {
				o.cancelledAt[i] = t.w.Now()
			}
		}
	}
	if j.rec != nil && (rec.Serial < j.rec.Serial || len(j.rec.Within(0, record.MaxTasks)) > 0 && !covers(rec, j.rec)) {
		t.breach("job %d: the orders went from %+v to %+v", id, j.rec.Orders, rec.Orders)
	}
}

// covers reports whether a cancels all that b cancels.
func covers(a, b *record.Job) bool {
	for _, p := range b.Cancels {
		if got := a.Within(p.From, p.From+p.Count); len(got) != 1 || got[0] != p {
			return false
		}
	}
	return true
}

// excused reports whether a host may not have heard of an order yet: because of a fault.
func (w *World) excused(h *host) bool {
	return h.Paused() || h.cut || h.seen.dead || w.shaken > 0 && w.Now()-w.shakenAt < calmAfter
}

// obeyed checks that a host does not start what an order forbids.
func (t *truth) obeyed(h *host, j *job, s mtc.Start) {
	w, o := t.w, &j.orders
	if w.excused(h) {
		return
	}
	if o.heldAt > 0 && w.Now()-o.heldAt > obeysWithin {
		t.breach("task %d.%d began on %s, and the job is held since %v", s.Job, s.Index, h.Name, w.Now()-o.heldAt)
	}
	if int(s.Index) < len(o.cancelledAt) && o.cancelledAt[s.Index] > 0 && w.Now()-o.cancelledAt[s.Index] > obeysWithin {
		t.breach("task %d.%d began on %s, %v after it was cancelled", s.Job, s.Index, h.Name, w.Now()-o.cancelledAt[s.Index])
	}
}
