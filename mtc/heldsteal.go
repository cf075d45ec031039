package mtc

import (
	"cmp"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/lines"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
)

// This file lets a node steal tasks for slots held for a gang that still gathers. The thief
// states what may run there, and a victim gives tasks of one job that fit. The thief looks at
// each task again before the start, as at tasks of its own queue: see [Fills].

// heldLooks bounds the single tasks of a job at which a victim looks for such a thief.
const heldLooks = 64

// idleGap is what may run in the idle slots of the gap, where no slot is free for a task; the
// zero Fill if nothing may.
func (e *execution) idleGap() (f policy.Fill) {
	if !e.full() || e.gap.Room.Slots <= e.lent.Slots {
		return f
	}
	return e.gap.Fill(e.now)
}

// starving reports whether slots of the gap are idle, and no task here may run there.
func (e *execution) starving() bool {
	if !e.idleGap().Held() {
		return false
	}
	for _, j := range e.core.order {
		if !j.queue.starved(j) && e.mayFill(j) {
			return false
		}
	}
	return true
}

// mayFill reports whether the first task of a job may run in the gap now, as far as is known.
func (e *execution) mayFill(j *job) bool {
	fits, away := e.fitsGap(j)
	return fits || away
}

// lengths are the time limit of a task, whose line is here, and the time that such tasks
// usually take; 0 is not known.
func (c *Core) lengths(j *job, index int32) (limit, usual time.Duration) {
	line := j.payloads.Of(index)
	return cmp.Or(c.ownLimit(j, line), j.spec.Limit), c.usual(j, line)
}

// heldPick is what of a job a thief may run in held slots.
type heldPick struct {
	suits  queue.Suits // for single tasks
	ranges bool        // all tasks of the ranges suit
	most   int64       // tasks
}

// heldPick finds what of a job a thief may run in held slots; false if nothing. Tasks of
// capped jobs stay: tokens would go with tasks that may be stopped.
func (v *victim) heldPick(j *job, m *message.Means, thief *filch.Member) (p heldPick, ok bool) {
	if thief == nil || !v.stealable(j, m, thief) || j.spec.Capped() || j.spec.Once && !mutants.FillOnce || j.spec.Firm {
		return p, false
	}
	alike, fits := len(j.spec.Needs) == 0 && !j.Graph() && !j.spec.Limits, j.suits(thief)
	p.suits = func(it *queue.Item) bool {
		need := int(it.Need) - 1
		switch {
		case it.Recalls >= policy.RecallsMax, fits != nil && (need < 0 || !fits(it)), j.spec.Need(need).Gang.Ranks > 0,
			m.Free.Fits(filch.Room{}, *j.spec.Room(need)) < 1, !alike && v.core.lines.Line(j, it.Index) != lines.Here:
			return false
		}
		return m.Fill.Admits(v.core.lengths(j, it.Index)) || mutants.BlindFill
	}
	n := j.queue.CountFirst(p.suits, heldLooks)
	if p.ranges = alike && len(j.queue.Ranges) > 0 && p.suits(&queue.Item{Index: j.queue.Ranges[0].Next}); p.ranges {
		n += j.queue.Ranges.Left()
	}
	if p.most = min(policy.Half(max(n-v.keeps(j), 0)), int64(m.Free.Slots)); alike {
		p.most = min(p.most, int64(j.fits(m, thief)))
	}
	return p, p.most > 0
}

// keeps is how many tasks of a job start here soon, in slots of tasks or in slots held for a
// gang: two nodes with held slots would pass tasks to and fro.
func (v *victim) keeps(j *job) int64 {
	e := &v.core.exec
	if j.pace.late || v.core.drain.on || j.unfit {
		return 0
	}
	n := e.slotsFor(j)
	if e.gap.Room.Slots > e.lent.Slots && e.mayFill(j) {
		n += (e.gap.Room.Slots - e.lent.Slots) / max(j.next.Slots, 1)
	}
	return int64(n)
}

// heldLoad is how many tasks a thief could steal for held slots, and their class.
func (v *victim) heldLoad(m *message.Means, thief *filch.Member) (load int64, class int32) {
	for _, j := range v.core.order {
		if p, ok := v.heldPick(j, m, thief); ok {
			return p.most, j.ticket.Class
		}
	}
	return 0, 0
}

// freezeHeld takes tasks of the first job that has some for the held slots of a thief.
func (v *victim) freezeHeld(x *xfer, m *message.Means, thief *filch.Member) {
	space := message.OfferSpace
	for _, j := range v.core.order {
		p, ok := v.heldPick(j, m, thief)
		if !ok {
			continue
		}
		parts := 0
		if p.ranges {
			parts = message.OfferRangesMax
		}
		for _, s := range j.queue.Ranges.Halve(p.most, parts) {
			p.most -= s.Left()
			x.addRange(j, s)
			x.offer.Usual = v.core.usual(j, nil)
		}
		for _, it := range j.queue.CutFirst(p.suits, heldLooks, min(p.most, int64(v.core.cfg.Bounds.Offer)), &space) {
			x.addTask(j, it, false)
			x.offer.Usual = max(x.offer.Usual, v.core.usual(j, j.payloads.Of(it.Index)))
		}
		return
	}
}
