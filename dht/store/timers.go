package store

import (
	"time"

	"github.com/filch-hpc/filch"
)

// timed is a task to run later. due is called once for each put, and must check itself
// whether the task is still needed.
type timed interface{ due(s *Store) }

type timer struct {
	at   time.Duration
	seq  uint64
	what timed
}

// timers is a heap by time, then by the order of put.
type timers struct {
	heap []timer
	seq  uint64
}

func (t *timers) less(i, j int) bool {
	a, b := &t.heap[i], &t.heap[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (t *timers) put(at time.Duration, what timed) {
	t.seq++
	t.heap = append(t.heap, timer{at, t.seq, what})
	for i := len(t.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !t.less(i, up) {
			break
		}
		t.heap[i], t.heap[up] = t.heap[up], t.heap[i]
		i = up
	}
}

func (t *timers) next() time.Duration {
	if len(t.heap) == 0 {
		return filch.Never
	}
	return t.heap[0].at
}

func (t *timers) pop() timed {
	top := t.heap[0].what
	n := len(t.heap) - 1
	t.heap[0] = t.heap[n]
	t.heap[n] = timer{}
	t.heap = t.heap[:n]
	for i := 0; ; {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && t.less(down+1, down) {
			down++
		}
		if !t.less(down, i) {
			break
		}
		t.heap[i], t.heap[down] = t.heap[down], t.heap[i]
		i = down
	}
	return top
}

// timedFunc is a timed that needs no state.
type timedFunc func(s *Store)

func (f timedFunc) due(s *Store) { f(s) }

// in runs f later.
func (s *Store) in(d time.Duration, what timed) { s.clock.put(s.now+d, what) }
