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

// Before reports whether e is due before f.
func (e *Timer) Before(f *Timer) bool {
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
type Timers struct{ filch.Heap[Timer, *Timer] }

// Next returns the moment of the earliest timer.
func (a *Timers) Next() time.Duration {
	if len(a.Heap) == 0 {
		return filch.Never
	}
	return a.Heap[0].At
}

// NextValid drops the earliest timers that are out of date, and returns the moment of the
// first valid timer.
func (a *Timers) NextValid(valid func(Timer) bool) time.Duration {
	for len(a.Heap) > 0 && !valid(a.Heap[0]) {
		a.Pop()
	}
	return a.Next()
}
