package engine

import (
	"time"

	"github.com/filch-hpc/filch"
)

// queue is the things to come, in a total order: by moment, then by the order in which
// they were pushed.
type queue[T any] struct {
	heap filch.Heap[entry[T], *entry[T]]
	seq  uint64
}

type entry[T any] struct {
	at    time.Duration
	seq   uint64 // order of making, which breaks ties
	thing T
}

// Before reports whether e comes before f.
func (e *entry[T]) Before(f *entry[T]) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

// Len is the number of things to come.
func (q *queue[T]) Len() int { return len(q.heap) }

// Next is the moment of the first thing; filch.Never if there is none.
func (q *queue[T]) Next() time.Duration {
	if len(q.heap) == 0 {
		return filch.Never
	}
	return q.heap[0].at
}

// Push puts a thing in at its moment.
func (q *queue[T]) Push(at time.Duration, thing T) {
	q.seq++
	q.heap.Push(entry[T]{at, q.seq, thing})
}

// Pop takes the first thing out, with its moment; there must be one.
func (q *queue[T]) Pop() (time.Duration, T) {
	e := q.heap.Pop()
	return e.at, e.thing
}
