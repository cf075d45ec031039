package store

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// input is the input that the Store handles now, with what every part needs: the
// identity of the node, the time, the timers and the list of actions.
type input struct {
	cfg   Config
	self  dht.Replica
	began time.Duration // time of the first input; 0: there was none yet
	now   time.Duration
	out   *Out
	dice  filch.Rand
	clock timers
}

func newInput(cfg Config) *input {
	return &input{
		cfg: cfg, self: dht.Replica{Name: cfg.Self, Incarnation: cfg.Incarnation},
		dice: filch.Rand(filch.Mix(cfg.Seed ^ cfg.Self.Hash() ^ filch.Mix(cfg.Incarnation))),
	}
}

// in calls f later.
func (in *input) in(d time.Duration, f func()) { in.clock.put(in.now+d, f) }

func (in *input) note(n Note) { in.out.Notes = append(in.out.Notes, n) }

// timer is a call due later. The called function checks whether the call is still needed.
type timer struct {
	at  time.Duration
	seq uint64
	due func()
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

func (t *timers) put(at time.Duration, due func()) {
	t.seq++
	t.heap = append(t.heap, timer{at, t.seq, due})
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

func (t *timers) pop() func() {
	top := t.heap[0].due
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
