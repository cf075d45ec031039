package filch

import "time"

// Timeline holds things to come, by time and then by the order of [Timeline.Push]. There
// is no way to take a thing back: the receiver checks whether the thing is still wanted.
type Timeline[T any] struct {
	heap Heap[coming[T], *coming[T]]
	seq  uint64
}

type coming[T any] struct {
	at    time.Duration
	seq   uint64 // order of Push, which breaks ties
	thing T
}

// Before reports whether c comes before d.
func (c *coming[T]) Before(d *coming[T]) bool { return c.at < d.at || c.at == d.at && c.seq < d.seq }

// Len is the number of things to come.
func (l *Timeline[T]) Len() int { return len(l.heap) }

// Next returns the time of the first thing, [Never] if there is none.
func (l *Timeline[T]) Next() time.Duration {
	if len(l.heap) == 0 {
		return Never
	}
	return l.heap[0].at
}

// Push adds a thing at a time.
func (l *Timeline[T]) Push(at time.Duration, thing T) {
	l.seq++
	l.heap.Push(coming[T]{at, l.seq, thing})
}

// Pop removes and returns the first thing, with its time; there must be one.
func (l *Timeline[T]) Pop() (time.Duration, T) {
	c := l.heap.Pop()
	return c.at, c.thing
}
