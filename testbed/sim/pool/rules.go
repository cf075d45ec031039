package pool

import (
	"math"
	"time"

	"github.com/filch-hpc/filch/pool"
)

// Rule is how another system decides how many allocations there should be.
type Rule interface {
	// Every is the time between two looks.
	Every() time.Duration
	// Idle is the time without work after which an allocation ends.
	Idle() time.Duration
	// Add returns how many allocations to ask for, of so many queued and live ones.
	Add(w *World, queued, live int) int
	// Spare returns how many allocations may go: those in the queue first, then those that
	// were without work for the time of Idle.
	Spare(w *World, queued, live int) (inQueue, idle int)
}

// rule lets another system's rule look. The rule sees everything at once, and its orders are
// carried out at once.
func (w *World) rule() {
	if w.now < w.ruleNext {
		return
	}
	w.ruleNext = w.now + w.Rule.Every()
	queued, live := 0, 0
	for _, j := range w.jobs {
		if j.state == pool.JobQueued || j.state == pool.JobRunning && w.now < j.node.up {
			queued++
		}
		if j.state != pool.JobOver {
			live++
		}
	}
	for range min(w.Rule.Add(w, queued, live), w.Spec.Max-live) {
		w.submit(pool.JobName("sim", w.Spec.Name, int64(len(w.jobs))))
	}
	drop, idle := w.Rule.Spare(w, queued, live)
	for i := len(w.jobs) - 1; i >= 0; i-- {
		j := w.jobs[i]
		switch {
		case j.state == pool.JobQueued && drop > 0:
			drop--
			w.finish(j, "CANCELLED")
		case j.state == pool.JobRunning && w.now >= j.node.up && idle > 0 && j.node.runs() == 0 && w.now-j.node.idle >= w.Rule.Idle():
			idle--
			w.finish(j, "COMPLETED")
		}
	}
}

// slotsWanted is the number of slots that all tasks and gangs could use now.
func (w *World) slotsWanted() (n int) {
	n = len(w.ready)
	for _, g := range w.gangs {
		n += int(g.slots)
	}
	for _, j := range w.jobs {
		if j.node != nil && j.state != pool.JobOver {
			n += int(j.node.runs())
		}
	}
	return n
}

// HyperQueue is the rule of HyperQueue's allocator with its defaults of version 0.26: one
// allocation waits in the queue of the batch system at a time (backlog 1), a look at least
// every 5 s, and an allocation ends after 5 minutes without work. Backlog may be raised.
type HyperQueue struct {
	Backlog int
	Timeout time.Duration
}

func (r HyperQueue) Every() time.Duration { return 5 * time.Second }

func (r HyperQueue) Idle() time.Duration { return r.Timeout }

func (r HyperQueue) Add(w *World, queued, live int) int {
	want := int(math.Ceil(float64(w.slotsWanted()) / float64(w.Slots)))
	return max(min(want-live, r.Backlog-queued), 0)
}

func (r HyperQueue) Spare(_ *World, _, live int) (inQueue, idle int) { return 0, live }

// Dask is the rule of Dask's adaptive clusters with their defaults: a look every second; as
// many workers as do the known work in 5 s, at most one for each task; of the workers beyond
// these, a worker without work closes when three looks in a row say so, which is 2 s after the
// first. A task of unknown length counts as 0.5 s.
type Dask struct{}

func (Dask) Every() time.Duration { return time.Second }

func (Dask) Idle() time.Duration { return 2 * time.Second }

func (r Dask) target(w *World) int {
	length := 0.5
	if w.ended > 0 {
		length = w.lengths().Seconds()
	}
	n := w.slotsWanted()
	byTime := int(math.Ceil(float64(n) * length / 5))
	return int(math.Ceil(float64(min(n, byTime)) / float64(w.Slots)))
}

func (r Dask) Add(w *World, _, live int) int { return max(r.target(w)-live, 0) }

func (r Dask) Spare(w *World, queued, live int) (inQueue, idle int) {
	n := max(live-r.target(w), 0)
	return min(n, queued), max(n-queued, 0)
}
