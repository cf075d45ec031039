package local

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/slots"
)

// Timer is the moment at which a job, or a participant in a job, is due.
type Timer struct {
	At  time.Duration
	Key slots.Key // of a job only Job
}

func (e Timer) before(f Timer) bool {
	switch {
	case e.At != f.At:
		return e.At < f.At
	case e.Key.Job != f.Key.Job:
		return e.Key.Job < f.Key.Job
	}
	return e.Key.Attempt < f.Key.Attempt
}

// Timers is a heap of timers. A job or participant remembers the moment of its earliest
// timer; a timer with another moment is out of date and ignored. So each job or
// participant has about one timer.
type Timers struct{ heap []Timer }

// Push adds a timer.
func (a *Timers) Push(e Timer) {
	a.heap = append(a.heap, e)
	for i := len(a.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !a.heap[i].before(a.heap[up]) {
			return
		}
		a.heap[i], a.heap[up] = a.heap[up], a.heap[i]
		i = up
	}
}

// Next returns the moment of the earliest timer.
func (a *Timers) Next() time.Duration {
	if len(a.heap) == 0 {
		return filch.Never
	}
	return a.heap[0].At
}

// NextValid drops the earliest timers that are out of date, and returns the moment of the
// first valid timer.
func (a *Timers) NextValid(valid func(Timer) bool) time.Duration {
	for len(a.heap) > 0 && !valid(a.heap[0]) {
		a.Pop()
	}
	return a.Next()
}

// Pop removes and returns the earliest timer.
func (a *Timers) Pop() Timer {
	top, last := a.heap[0], len(a.heap)-1
	a.heap[0] = a.heap[last]
	a.heap = a.heap[:last]
	for i := 0; ; {
		k := 2*i + 1
		if k >= last {
			break
		}
		if k+1 < last && a.heap[k+1].before(a.heap[k]) {
			k++
		}
		if !a.heap[k].before(a.heap[i]) {
			break
		}
		a.heap[i], a.heap[k] = a.heap[k], a.heap[i]
		i = k
	}
	return top
}
