package engine

import (
	"time"

	"github.com/filch-hpc/filch"
)

// queue is a 4-ary heap of things to come, in a total order: by moment, then by
// the order in which they were pushed.
type queue[T any] struct {
	heap []entry[T]
	seq  uint64
}

type entry[T any] struct {
	at    time.Duration
	seq   uint64 // order of making, which breaks ties
	thing T
}

func (e *entry[T]) before(f *entry[T]) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

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
	e := entry[T]{at, q.seq, thing}
	q.heap = append(q.heap, e)
	h := q.heap
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

// Pop takes the first thing out, with its moment; there must be one.
func (q *queue[T]) Pop() (time.Duration, T) {
	h := q.heap
	top := h[0]
	last := len(h) - 1
	e := h[last]
	h[last] = entry[T]{}
	h = h[:last]
	q.heap = h
	if last == 0 {
		return top.at, top.thing
	}
	i := 0
	for {
		first := 4*i + 1
		if first >= last {
			break
		}
		least := first
		for k := first + 1; k < min(first+4, last); k++ {
			if h[k].before(&h[least]) {
				least = k
			}
		}
		if !h[least].before(&e) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = e
	return top.at, top.thing
}
