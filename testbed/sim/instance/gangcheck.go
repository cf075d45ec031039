package instance

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// What is promised of tasks that are gangs (launcher/node/DESIGN.md, Gangs as tasks):
// all ranks start or none, a gang has one end, nothing of it runs then, and no other
// attempt of the task begins beside its ranks on a node that can be reached.

// Bounds of the checkers.
const (
	// gangBound is how long ranks may go on without the owner of their task: a lease.
	gangBound = leaseBound
	// halfBound is how long after the first rank of a gang the last one begins: the order to
	// begin is sent at 0, .5, 1.5 and 3.5 s, and the links of some seeds lose three in a row.
	halfBound = 4 * time.Second
)

// gangs reports whether the tasks of a bag are gangs.
func (b *bag) gangs() bool { return b.request.Spec.Gang.Ranks > 0 }

// need is the slots of a task of a bag.
func (b *bag) need() int32 { return max(b.request.Spec.Gang.Ranks, 1) * b.request.Spec.Each.Slots }

// setApart marks a host as one that others may not reach, or that stands still.
func (h *host) setApart(until time.Duration) { h.apartTill = max(h.apartTill, until) }

// excused reports whether ranks may go on on a host of which others believe otherwise: it
// could not be reached, or stood still, until shortly.
func (h *host) excused(killWait time.Duration) bool {
	return h.apartTill+leaseBound+killWait+h.w.slack() > h.w.Now()
}

// ranksLeft counts the ranks of a gang that run where they are not excused, and one such
// host.
func (w *World) ranksLeft(g *gangTask) (n int, on *host) {
	j := g.job
	if g.host.excused(j.killWait()) {
		return 0, nil // it decided about the gang
	}
	for _, h := range w.hosts {
		for _, k := range h.keepers {
			if k.truth.job == j && k.phase != done && k.truth.started[k.start.Index] && len(k.alive) > 0 && !h.excused(j.killWait()) {
				n, on = n+len(k.alive), h
			}
		}
	}
	return n, on
}

// ranksKnown is ranksLeft without the ranks of which nobody can know: those on a host
// whose launcher is away, or was until shortly.
func (w *World) ranksKnown(g *gangTask) (n int, on *host) {
	if n, on = w.ranksLeft(g); n > 0 && (on.node == nil || on.trouble+reapBound+g.job.killWait()+w.slack() > w.Now()) {
		return 0, nil
	}
	return n, on
}

// checkAlone: no attempt of a task begins beside ranks of another one.
func (w *World) checkAlone(k *keeper) {
	g := k.truth.job.gang
	if g.bag.lapsed {
		return
	}
	for _, o := range w.gangs {
		if o == g || o.bag != g.bag || o.launch.Start.Index != g.launch.Start.Index {
			continue
		}
		if n, h := w.ranksLeft(o); n > 0 {
			s := &g.launch.Start
			w.Fail("two-gangs", "task %d.%d begins on %s as start %d, owned by %s, while %d ranks of start %d, owned by %s, run on %s", s.Job, s.Index, k.h.Name, s.Nth, g.host.Name, n, o.launch.Start.Nth, o.host.Name, h.Name)
			return
		}
	}
}

// checkGangGone looks for ranks of a gang whose owner is gone.
func (w *World) checkGangGone(g *gangTask) {
	if n, h := w.ranksLeft(g); n > 0 {
		s := &g.launch.Start
		w.Fail("gang-left", "%d ranks of task %d.%d run on %s, %v after the launcher of its owner %s was gone", n, s.Job, s.Index, h.Name, w.Now()-g.lostAt, g.host.Name)
	}
}

// checkGangsOver: nothing of the gangs of a bag runs that is said to be over.
func (w *World) checkGangsOver(b *bag) {
	for _, g := range w.gangs {
		if g.bag != b || b.lapsed {
			continue
		}
		if n, h := w.ranksKnown(g); n > 0 {
			w.Fail("gang-left", "job %d is said to be over while %d ranks of task %d run on %s", b.id, n, g.launch.Start.Index, h.Name)
			return
		}
	}
}

// checkGangID: no run and no other gang has the id of a gang's run.
func (w *World) checkGangID(j *job, id filch.JobID) {
	if o := w.gangIDs[id]; o != nil && o != j.gang || w.ids[id] != 0 {
		w.Fail("same-id", "two gangs, or a gang and a job, are job %d", id)
	}
	w.gangIDs[id] = j.gang
}

// checkGangWhole: all ranks of a gang begin when one does.
func (w *World) checkGangWhole(g *gangTask) {
	a := g.job.last()
	if g.over || a == nil || a.allRan() || a.unready || a.failing || a.vanished || g.job.vanished || w.touched(g.job, a) || g.stops() {
		return
	}
	w.Fail("half-gang", "%d of %d ranks of task %d.%d were exec'ed, %v after the first", count(a.ran), len(a.ran), g.launch.Start.Job, g.launch.Start.Index, w.Now()-a.firstAt)
}

func count(list []bool) (n int) {
	for _, is := range list {
		if is {
			n++
		}
	}
	return n
}

// stops reports whether a gang may have been told to end.
func (g *gangTask) stops() bool {
	b, limit := g.bag, g.job.request.Policy.TimeLimit
	return b.cancelled || b.ordered || limit > 0 || g.host.trouble > g.job.submittedAt-leaseBound
}

// checkGangEnd holds an end against what the ranks did.
func (w *World) checkGangEnd(g *gangTask, e *launcher.TaskEnd) {
	j, s := g.job, &g.launch.Start
	if n, h := w.ranksKnown(g); n > 0 {
		w.Fail("gang-left", "task %d.%d has ended on %s while %d of its ranks run on %s", s.Job, s.Index, g.host.Name, n, h.Name)
		return
	}
	a, is := j.last(), false
	switch e.Kind {
	case launcher.CauseNone:
		is = a != nil && a.allRan() && len(a.ends) == len(a.ran) && !slices.ContainsFunc(a.ends, func(x truthEnd) bool { return x.Kind != launcher.CauseNone })
	case launcher.CauseCancel: // the gangs of a held bag give back what they gather
		is = g.stops() || a == nil && g.bag.held
	case launcher.CauseTimeLimit:
		is = a != nil && j.request.Policy.TimeLimit > 0 && w.Now()-a.firstAt+w.slack() >= j.request.Policy.TimeLimit
	case launcher.CauseNodeLost, launcher.CauseOurs:
		is = j.vanished || g.stops() || a != nil && (a.unready || w.touched(j, a)) || a == nil && !w.allWell(j.submittedAt)
	default:
		is = a != nil && (a.unready && e.Kind == j.plan.unreadyCause || slices.ContainsFunc(a.ends, func(x truthEnd) bool { return x.Kind == e.Kind }))
	}
	if !is {
		text := "never started"
		if a != nil {
			text = w.describe(a)
		}
		w.Fail("wrong-cause", "task %d.%d ended as %s; in truth %s", s.Job, s.Index, show(*e), text)
	}
}

// cancelBagsTooLarge has clients give up bags whose gangs cannot fit any more, since nodes
// were lost for good.
func (w *World) cancelBagsTooLarge() {
	for _, b := range w.bags {
		if b.gangs() && !w.couldFitGang(b) {
			w.cancelBag(b)
		}
	}
}

// couldFitGang reports whether the hosts that are not lost have room for a gang.
func (w *World) couldFitGang(b *bag) bool {
	s := &b.request.Spec
	left := w.takers(true)
	if w.opt.Roles != nil {
		left -= s.Gang.Spare // as in [World.couldFit]
	}
	return w.opt.Slots/s.Each.Slots*left >= s.Gang.Ranks && left >= s.Gang.Nodes
}

// mustStopGangs lets a checker look, after a cancel of a bag, whether its gangs are gone.
func (w *World) mustStopGangs(b *bag) {
	began := w.Now()
	w.At(began+cancelBound+killWaitMax+w.slack(), func() {
		if !w.calm(began-time.Second) || b.lapsed || b.id == 0 {
			return
		}
		for _, g := range w.gangs {
			if n, h := w.ranksLeft(g); g.bag == b && n > 0 {
				w.Fail("gang-left", "%d ranks of task %d.%d run on %s, %v after the job was cancelled", n, b.id, g.launch.Start.Index, h.Name, w.Now()-began)
				return
			}
		}
	})
}

// cancelBound is how long a cancel takes to reach all owners of tasks.
const cancelBound = 3 * time.Second

// calm reports whether no fault has touched any host since a moment, and all hosts are up.
func (w *World) calm(since time.Duration) bool {
	for _, h := range w.hosts {
		if h.trouble > since || h.node == nil || !h.Speaks() || h.dead {
			return false
		}
	}
	return true
}

// Looks for slots that stay idle beside tasks that are ready on the same node.
const (
	idleEvery = 2 * time.Second
	idleSlots = 4 // looks in a row
)

// checkIdle looks for nodes with free slots on which gangs wait although nothing else does.
func (w *World) checkIdle() {
	for _, h := range w.hosts {
		if h.starves++; !w.calm(w.Now()-idleEvery) || !w.starves(h) {
			h.starves = 0
		}
		if h.starves >= idleSlots {
			w.Fail("idle-slots", "%s has free slots, and gangs that fit are ready there since %v: %+v", h.Name, idleSlots*idleEvery, h.node.Slots())
			return
		}
	}
	if w.Now() < faultSpan+cutLongest+settleSpan {
		w.At(w.Now()+idleEvery, w.checkIdle)
	}
}

// starves reports whether a host has free slots for a task of each bag of which tasks are
// ready there, of which one at least is a bag of gangs; not if a run or a gang waits there
// or holds slots.
func (w *World) starves(h *host) bool {
	s := h.node.Slots()
	if s.Waiting > 0 || s.Held > 0 || h.drains || !h.role.Takes(true) {
		return false
	}
	for _, o := range w.hosts {
		for _, g := range o.gangs { // any order: whether there is one
			if !g.job.live() {
				return false
			}
		}
	}
	gangs := false
	for _, b := range w.bags {
		if b.id == 0 || b.finished {
			continue
		}
		here := h.node.TasksHere(b.id)
		if here.Ready == 0 {
			continue
		}
		if !b.gangs() || b.ordered || b.held || b.failEvery > 0 || b.request.Spec.Cap > 0 || here.Ready <= here.Resting+here.Opening || b.need() > s.Free {
			return false
		}
		gangs = true
	}
	return gangs
}
