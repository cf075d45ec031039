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
	heap []call
	seq  uint64
}

type call struct {
	at  time.Duration
	seq uint64
	due func()
}

func (q *Queue) less(i, j int) bool {
	a, b := &q.heap[i], &q.heap[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

// Put adds a call of due at a time.
func (q *Queue) Put(at time.Duration, due func()) {
	q.seq++
	q.heap = append(q.heap, call{at, q.seq, due})
	for i := len(q.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.less(i, up) {
			break
		}
		q.heap[i], q.heap[up] = q.heap[up], q.heap[i]
		i = up
	}
}

// Next returns the time of the first call, Never if there is none.
func (q *Queue) Next() time.Duration {
	if len(q.heap) == 0 {
		return filch.Never
	}
	return q.heap[0].at
}

// Pop removes the first call, and returns the function to call.
func (q *Queue) Pop() func() {
	top := q.heap[0].due
	n := len(q.heap) - 1
	q.heap[0] = q.heap[n]
	q.heap[n] = call{}
	q.heap = q.heap[:n]
	for i := 0; ; {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && q.less(down+1, down) {
			down++
		}
		if !q.less(down, i) {
			break
		}
		q.heap[i], q.heap[down] = q.heap[down], q.heap[i]
		i = down
	}
	return top
}
