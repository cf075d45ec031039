package instance

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Of copyFails tasks, the copies of one fail, with copyCode.
const (
	copyFails = 4
	copyCode  = 9
)

// copyOf is an attempt of a task that has copies.
type copyOf struct {
	index   int32
	attempt filch.Attempt
}

// slantReplicas has bags and workflows whose slow tasks have copies, and hosts on which tasks
// take ten times as long.
func slantReplicas(w *World, d *engine.Dice) {
	w.drawBag(d)
	for _, h := range w.hosts[:1+d.N(2)] {
		h.slow = 10
	}
	for _, b := range w.bags {
		s := &b.request
		if b.gangs() {
			continue
		}
		s.Spec.Replicas, s.Spec.Cap = uint8(1+d.N(2)), 0
		s.Spec.Once = d.Chance(0.1)
		if b.stepEvery = 0; d.Chance(0.3) {
			b.stepEvery = 1 + d.N(6)
		}
		if len(s.Nodes) == 0 {
			s.Total = min(s.Total, 60)
		}
		b.longest = d.Between(500*time.Millisecond, 1500*time.Millisecond)
		b.shortest = b.longest * 3 / 4
	}
}

// beganCopy checks the start of a copy: never of a task that runs once, and not more often than
// the bag says.
func (w *World) beganCopy(b *bag, s *mtc.Start, h *host) {
	spec := &b.request.Spec
	if b.copies == nil {
		b.copies = map[copyOf]int{}
	}
	k := copyOf{s.Index, s.Attempt}
	b.copies[k]++
	switch n := b.copies[k]; {
	case spec.Once || spec.Cap > 0:
		w.Fail("wrong-copy", "a copy of task %d.%d began, which may have none", s.Job, s.Index)
	case n > int(spec.Replicas):
		w.Fail("too-many-copies", "%d copies of task %d.%d began, at most %d may", n, s.Job, s.Index, spec.Replicas)
	case b.finished && !b.lapsed && h.trouble+leaseBound < w.Now():
		w.Fail("after-end", "a copy of task %d.%d began after its client was told that all is over", s.Job, s.Index)
	}
	w.copies++
	w.checkRivals(b, s.Index)
}

// copied reports whether a copy of a task began.
func (b *bag) copied(index int32) bool {
	for k := range b.copies { // any order: whether there is one
		if k.index == index {
			return true
		}
	}
	return false
}

// checkRivals: at most a task and its copies run at a time, as far as hosts that are well tell.
func (w *World) checkRivals(b *bag, index int32) {
	if b.request.Spec.Replicas == 0 && b.starts[index] == 1 {
		return // a look at all tasks of all hosts for each start is most of a large run
	}
	n := 0
	for _, h := range w.hosts {
		if h.trouble+leaseBound >= w.Now() {
			continue
		}
		for _, p := range h.tasks { // any order: a sum
			if p.bag == b && p.launch.Start.Index == index {
				n++
			}
		}
	}
	if most := 1 + int(b.request.Spec.Replicas); n > most {
		w.Fail("too-many-copies", "task %d.%d runs %d times at once, at most %d may", b.id, index, n, most)
	}
}

// losersWait bounds how long a task runs after the end of its bag: its host hears of the end, and
// the process ends when it is told.
const losersWait = 5 * time.Second

// awaitLosers: what still runs of a bag that is over is stopped soon.
func (w *World) awaitLosers(b *bag) {
	if b.request.Spec.Replicas == 0 || b.stubborn {
		return
	}
	told := w.Now()
	w.At(told+losersWait, func() {
		for _, h := range w.hosts {
			for _, p := range h.tasks { // any order: whether there is one
				if p.bag == b && p.began < told && w.allWell(told) {
					w.Fail("loser-runs", "task %d.%d runs on %s %v after its bag was over", b.id, p.launch.Start.Index, h.Name, losersWait)
				}
			}
		}
		for _, j := range w.jobs {
			if p := j.task; p != nil && p.bag == b && p.began < told && j.live() && w.allWell(told) {
				w.Fail("step-left", "step %d of task %d.%d runs on %s %v after its bag was over", j.id, b.id, p.launch.Start.Index, p.host.Name, losersWait)
			}
		}
	})
}
