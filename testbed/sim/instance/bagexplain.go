package instance

import (
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/launcher/node/tasks"
)

// What the launchers say of a job of tasks that has not ended is held against what
// its processes do, and what its client could know.

// checkBagsExplained asks a launcher of each.
func (w *World) checkBagsExplained() {
	w.lookForIdle()
	for _, b := range w.bags {
		if b.id == 0 || b.finished {
			continue
		}
		w.onSomeHost(func(h *host, now time.Duration, out *launcher.Outbox) {
			life := h.Life()
			h.node.FindTasks(now, b.id, recordWait, func(j *records.TaskJob, err *filch.Error) {
				if err == nil && h.Life() == life && len(w.Broken()) == 0 {
					w.checkBagExplained(h, b, j)
				}
			}, out)
		})
	}
}

// checkBagExplained sums up what the nodes have, as a launcher does that is asked.
func (w *World) checkBagExplained(h *host, b *bag, j *records.TaskJob) {
	var sum tasks.Sum
	for _, o := range w.hosts {
		switch {
		case o.node != nil && o.Speaks():
			here := o.node.TasksHere(b.id)
			sum.Add(&here)
		case !o.lost:
			sum.Silent = append(sum.Silent, o.Name)
		}
	}
	info := records.TaskJobInfo(b.id, j.Record, wallClock+int64(w.Now()))
	sum.Fill(&info)
	x := h.node.ExplainTasks(j.Record, &info, &sum)
	switch {
	case x.Text == "" && info.Code == nil:
		w.Fail("unexplained", "%s has no word for where job %d of tasks stands: %+v", h.Name, b.id, info.Tasks)
	case info.Code != nil || b.submit > w.Now()-staleSpan || !w.allWell(w.Now()-staleSpan+leaseBound) || w.Net.Links.Loss > 0.02:
		return // what is said may be of before
	case !w.bagStands(b, x.Text):
		w.Fail("wrong-explanation", "%s says of job %d of tasks what is not so: %s", h.Name, b.id, x.Text)
	}
}

// bagStands reports whether it is so what is said of a bag.
func (w *World) bagStands(b *bag, text string) bool {
	says := func(what string) bool { return strings.Contains(text, what) }
	if !says("moving between nodes") {
		b.moving = 0
	}
	switch {
	case says(" tasks run,") || says(" task runs,"):
		return b.running > 0 || b.lastAt > w.Now()-staleSpan
	case says("no node takes work"):
		for _, h := range w.hosts {
			if h.node != nil && !h.drains {
				return false
			}
		}
	case says("wait for slots") || says("waits for slots"):
		// A limit of tasks at a time leaves hosts idle beside a bag that goes on.
		return !w.idles(b) || b.request.Spec.Cap > 0 && b.lastAt > w.Now()-staleSpan
	case says("waits for the end of"):
		for _, a := range b.after {
			if !a.finished || a.lastAt > w.Now()-staleSpan {
				return true
			}
		}
		return false
	case says("is not a member"):
		return !w.allWell(w.Now() - staleSpan - missedSpan)
	case says("moving between nodes"):
		// One may just have been offered that waited for slots before; not look after look.
		b.moving++
		return b.lastAt > w.Now()-staleSpan || b.moving < movingLooks
	case says("did not answer") || says("is dead"):
		return b.lastAt > w.Now()-staleSpan
	}
	return true
}

// movingLooks is for how many looks in a row tasks may be said to be on their way.
const movingLooks = 3

// missedSpan is how long a store and then the tasks wait for a node that all have
// missed since all were started again.
const missedSpan = 30 * time.Second

// idleLooks is for how many looks in a row a host must have had nothing to do, for
// tasks that wait for slots to be wrong about it.
const idleLooks = 4

// lookForIdle notes which hosts have nothing to do.
func (w *World) lookForIdle() {
	for _, h := range w.hosts {
		if h.idle++; h.node == nil || !h.Speaks() || h.drains || len(h.keepers) > 0 || len(h.tasks) > 0 {
			h.idle = 0
		}
	}
}

// idles reports whether a host has had nothing to do for long, while no gang waits
// that it may keep its slots for.
func (w *World) idles(b *bag) bool {
	for _, j := range w.jobs {
		if j.id != 0 && !j.over() && !j.live() {
			return false
		}
	}
	for _, h := range w.hosts {
		for _, g := range h.gangs { // any order: whether there is one
			if !g.job.live() {
				return false
			}
		}
	}
	for _, h := range w.hosts {
		if h.idle >= idleLooks && !w.unserved && h.role.Takes(b.gangs()) && b.need() <= w.opt.Slots {
			return true
		}
	}
	return false
}
