// Package timer orders the calls that a store has to make later. The package has no clock:
// times are those of the caller's inputs.
package timer

import (
	"time"

	"github.com/filch-hpc/filch"
)

// Queue is a heap of calls, by time and then by the order of Put. There is no way to
// cancel a call: the called function checks whether the call is still needed.
type Queue struct {
	heap filch.Heap[call, *call]
	seq  uint64
}

type call struct {
	at  time.Duration
	seq uint64
	due func()
}

// Before reports whether c comes before d.
func (c *call) Before(d *call) bool { return c.at < d.at || c.at == d.at && c.seq < d.seq }

// Put adds a call of due at a time.
func (q *Queue) Put(at time.Duration, due func()) {
	q.seq++
	q.heap.Push(call{at, q.seq, due})
}

// Next returns the time of the first call, Never if there is none.
func (q *Queue) Next() time.Duration {
	if len(q.heap) == 0 {
		return filch.Never
	}
	return q.heap[0].at
}

// Pop removes the first call, and returns the function to call.
func (q *Queue) Pop() func() { return q.heap.Pop().due }
