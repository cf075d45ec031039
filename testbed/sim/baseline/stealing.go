package baseline

import (
	"math"
	"slices"
	"time"
)

// Stealing is the adaptive work stealing of MATRIX v1, 3.1. A node without a ready task asks
// the square root of N random nodes for their load, in turn, and steals half of the tasks of
// the most loaded one. If there are none, the node waits, each time twice as long.
type Stealing struct {
	Poll time.Duration // the first wait
	Most time.Duration // the longest wait
	Ask  time.Duration // cost of the victim for a question
	Move time.Duration // cost of the victim for each task that moves
}

// Matrix has the printed wait of 1 ms (3.1.2); the bound of the wait and the cost of a question
// are not printed.
var Matrix = Stealing{Poll: time.Millisecond, Most: time.Second, Ask: 2 * time.Microsecond, Move: 34 * time.Microsecond}

// MatrixAlone is the algorithm alone: moves of tasks take no time of the victim.
var MatrixAlone = Stealing{Poll: time.Millisecond, Most: time.Second, Ask: 2 * time.Microsecond}

// thief is a node that looks for tasks.
type thief struct {
	*node
	s        *Stealing
	all      []*thief
	stealing bool
	poll     time.Duration
	asked    []int // the nodes of this round
}

// Run runs a bag.
func (s Stealing) Run(b *Bag) (Took, error) {
	w := newWorld(b, 0)
	all := make([]*thief, b.Nodes)
	for i, n := range w.nodes {
		all[i] = &thief{node: n, s: &s, all: all, poll: s.Poll}
	}
	for i := range b.Lengths {
		to := all[0]
		if b.Spread {
			to = all[i%b.Nodes]
		}
		to.queue = append(to.queue, int32(i))
	}
	for _, t := range all {
		t.Do(t.fill)
	}
	return w.took()
}

// fill starts ready tasks in free slots; without a ready task the node becomes a thief.
func (t *thief) fill() {
	for t.free > 0 && len(t.queue) > 0 {
		task := t.queue[0]
		t.queue = t.queue[1:]
		t.start(task, t.fill)
	}
	if len(t.queue) == 0 && !t.stealing && t.w.left > 0 && len(t.all) > 1 {
		t.stealing = true
		t.search()
	}
}

// search is algorithm 2.
func (t *thief) search() {
	t.asked = append(t.asked[:0], t.index)
	t.ask(int(math.Sqrt(float64(len(t.all)))), nil, 0)
}

// ask asks left more nodes, of which algorithm 1 draws the next. The most loaded node so far is
// best.
func (t *thief) ask(left int, best *thief, load int) {
	if left == 0 {
		if load == 0 {
			t.wait()
			return
		}
		t.steal(best)
		return
	}
	k := t.w.dice.N(len(t.all))
	for slices.Contains(t.asked, k) {
		k = t.w.dice.N(len(t.all))
	}
	t.asked = append(t.asked, k)
	victim := t.all[k]
	t.w.send(t.node, victim.node, t.s.Ask, func() {
		has := len(victim.queue)
		t.w.send(victim.node, t.node, 0, func() {
			if has > load {
				t.ask(left-1, victim, has)
				return
			}
			t.ask(left-1, best, load)
		})
	})
}

// steal takes half of the tasks of a victim; half of one task is none.
func (t *thief) steal(victim *thief) {
	t.w.send(t.node, victim.node, t.s.Ask, func() {
		from := len(victim.queue) - len(victim.queue)/2
		loot := victim.queue[from:len(victim.queue):len(victim.queue)]
		victim.queue = victim.queue[:from:from]
		victim.work(t.s.Move*time.Duration(len(loot)), func() {
			t.w.send(victim.node, t.node, 0, func() {
				if len(loot) == 0 {
					t.wait()
					return
				}
				t.stealing, t.poll = false, t.s.Poll
				t.queue = append(t.queue, loot...)
				t.fill()
			})
		})
	})
}

// wait searches again after the wait.
func (t *thief) wait() {
	t.w.After(t.poll, func() {
		if t.poll = min(2*t.poll, t.s.Most); t.w.left > 0 {
			t.search()
		}
	})
}
