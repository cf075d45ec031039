package report

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Two slots on one node, one on another; each row is a job with times in seconds.
func TestIdleBill(t *testing.T) {
	node := func(slots int32) nodeTime { return nodeTime{Slots: slots} }
	for _, c := range []struct {
		name string
		w    work
		busy int64
		idle map[cause]int64
	}{
		{"all busy", work{End: 10, Tasks: 2, Bars: []bar{{0, 10, 0, 0, 1}, {0, 10, 0, 0, 1}}, Nodes: []nodeTime{node(2)}}, 20, nil},
		{"late start", work{End: 10, Tasks: 1, Bars: []bar{{4, 10, 4, 0, 1}}, Nodes: []nodeTime{node(1)}}, 6, map[cause]int64{idleBefore: 4}},
		{"the last task", work{End: 10, Tasks: 2, Bars: []bar{{0, 10, 0, 0, 1}, {0, 3, 0, 0, 1}}, Nodes: []nodeTime{node(2)}}, 13, map[cause]int64{idleNothing: 7}},
		{"a chain", work{End: 10, Tasks: 2, Graph: true, Bars: []bar{{0, 5, 0, 0, 1}, {5, 10, 0, 0, 1}}, Nodes: []nodeTime{node(2)}}, 10, map[cause]int64{idleWaiting: 5, idleNothing: 5}},
		{"a bag behind a busy node", work{End: 10, Tasks: 2, Bars: []bar{{0, 5, 0, 0, 1}, {5, 10, 0, 0, 1}}, Nodes: []nodeTime{node(1), node(2)}}, 10, map[cause]int64{idleQueued: 5, idleNothing: 15}},
		{"queued on a busy node", work{End: 10, Tasks: 2, Bars: []bar{{0, 5, 0, 0, 1}, {5, 10, 5, 0, 1}}, Nodes: []nodeTime{node(1), node(1)}}, 10, map[cause]int64{idleQueued: 5, idleNothing: 5}},
		{"a limit", work{End: 10, Tasks: 2, Limit: 1, Bars: []bar{{0, 5, 0, 0, 1}, {5, 10, 5, 0, 1}}, Nodes: []nodeTime{node(2)}}, 10, map[cause]int64{idleLimit: 10}},
		{"lost and drained", work{
			End: 10, Tasks: 1, Bars: []bar{{0, 10, 0, 0, 1}},
			Nodes: []nodeTime{node(1), {Slots: 1, Lost: []span{{2, 6}}, Drains: []span{{5, 8}}}},
		}, 10, map[cause]int64{idleLost: 4, idleDrain: 2, idleNothing: 4}},
		{"wide tasks", work{End: 4, Tasks: 1, Each: 3, Bars: []bar{{0, 4, 0, 0, 3}}, Nodes: []nodeTime{node(4)}}, 12, map[cause]int64{idleNothing: 4}},
		{"a skipped task", work{End: 10, Tasks: 3, Never: 1, Graph: true, Bars: []bar{{0, 5, 0, 0, 1}, {5, 10, 0, 0, 1}}, Nodes: []nodeTime{node(2)}}, 10, map[cause]int64{idleWaiting: 5, idleNothing: 5}},
		{"a gang over nodes", work{End: 4, Tasks: 1, Each: 3, Spread: true, Bars: []bar{{0, 4, 0, 0, 3}}, Nodes: []nodeTime{node(2), node(2)}}, 12, map[cause]int64{idleNothing: 4}},
		{"a gang gathers before all", work{
			End: 10, Tasks: 1, Each: 3, Spread: true, Bars: []bar{{4, 10, 0, 0, 3}}, Nodes: []nodeTime{node(2), node(2)},
			Gathers: []gathering{{span{1, 4}, 3}},
		}, 18, map[cause]int64{idleBefore: 4 + 3, idleGather: 9, idleNothing: 6}},
		{"a gang of another job gathers", work{
			End: 10, Tasks: 2, Bars: []bar{{0, 5, 0, 0, 1}, {8, 10, 3, 0, 1}}, Nodes: []nodeTime{node(2)},
			Gathers: []gathering{{span{5, 8}, 8}},
		}, 7, map[cause]int64{idleQueued: 5, idleGather: 6, idleNothing: 2}},
		{"a gang waits, without an event", work{
			End: 10, Tasks: 2, Each: 3, Spread: true, Bars: []bar{{0, 4, 0, 0, 3}, {6, 10, 6, 0, 3}}, Nodes: []nodeTime{node(2), node(2)},
		}, 24, map[cause]int64{idleGather: 4 + 6, idleNothing: 6}},
		{"a gang gathers on a node that drains", work{
			End: 4, Tasks: 1, Each: 2, Spread: true, Nodes: []nodeTime{{Slots: 1, Drains: []span{{0, 4}}}, node(1)},
			Gathers: []gathering{{span{0, 4}, 2}},
		}, 0, map[cause]int64{idleDrain: 4, idleGather: 4}},
	} {
		got := c.w.sum(c.w.changes())
		if got.Busy != c.busy {
			t.Errorf("%s: %d slot-seconds are busy, want %d", c.name, got.Busy, c.busy)
		}
		for k := range numCauses {
			if got.Idle[k] != c.idle[k] {
				t.Errorf("%s: %d slot-seconds are idle, %s; want %d", c.name, got.Idle[k], texts[k], c.idle[k])
			}
		}
	}
}

// The parts of any bill make the time of all slots.
func TestBillIsComplete(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := work{Begin: 5, End: 105, Tasks: 40, Graph: seed%2 == 0, Spread: seed%3 == 0, Each: 1 + r.Int32N(2), Limit: r.Int32N(3)}
		slots := int64(0)
		for range 1 + r.IntN(4) {
			n := nodeTime{Slots: 1 + r.Int32N(4)}
			for range r.IntN(3) {
				at := r.Int64N(100)
				n.Lost = append(n.Lost, span{at, at + r.Int64N(50)})
				n.Drains = append(n.Drains, span{at + 3, at + 3 + r.Int64N(50)})
			}
			w.Nodes, slots = append(w.Nodes, n), slots+int64(n.Slots)
		}
		for range r.IntN(4) {
			at := r.Int64N(120)
			w.Gathers = append(w.Gathers, gathering{span{at, at + r.Int64N(40)}, r.Int32N(9)})
		}
		for range r.IntN(40) {
			at := r.Int64N(120)
			w.Bars = append(w.Bars, bar{at, at + r.Int64N(40), r.Int64N(20), r.Int32N(int32(len(w.Nodes))), w.Each})
		}
		if b := w.sum(w.changes()); b.Sum() != slots*100 {
			t.Fatalf("seed %d: the parts make %d, the slots %d", seed, b.Sum(), slots*100)
		}
	}
}

func TestBound(t *testing.T) {
	w := work{Bars: []bar{{0, 10, 0, 0, 1}, {0, 4, 0, 0, 1}}, Nodes: []nodeTime{{Slots: 2}}}
	if got := w.bound(); got != 10 {
		t.Errorf("got %d, want the longest task, 10", got)
	}
	w.Bars = append(w.Bars, bar{4, 20, 0, 0, 1})
	if got := w.bound(); got != 16 {
		t.Errorf("got %d, want 16: the longest again", got)
	}
	w.Bars = append(w.Bars, bar{20, 36, 0, 0, 1})
	if got := w.bound(); got != 23 {
		t.Errorf("got %d, want 46/2", got)
	}
}

// A limit of the job, and a chain of tasks, bound the time, too.
func TestBoundKnowsLimitsAndChains(t *testing.T) {
	w := work{Each: 1, Limit: 1, Bars: []bar{{0, 10, 0, 0, 1}, {0, 4, 0, 0, 1}}, Nodes: []nodeTime{{Slots: 2}}}
	if got := w.bound(); got != 14 {
		t.Errorf("got %d, want 14: one at a time", got)
	}
	w.Limit, w.Chain = 0, 12
	if got := w.bound(); got != 12 {
		t.Errorf("got %d, want the chain, 12", got)
	}
}

func TestLongestChain(t *testing.T) {
	for _, c := range []struct {
		parents [][]int32
		took    []int64
		want    int64
		path    []int32
	}{
		{nil, nil, 0, nil},
		{[][]int32{{}, {0}, {1}}, []int64{1, 2, 3}, 6, []int32{0, 1, 2}},
		{[][]int32{{1}, {2}, {}}, []int64{1, 2, 3}, 6, []int32{2, 1, 0}}, // a parent comes later
		{[][]int32{{}, {}, {0, 1}}, []int64{5, 2, 1}, 6, []int32{0, 2}},
		{[][]int32{{}, {0}, {0}, {1, 2}}, []int64{1, 9, 4, 1}, 11, []int32{0, 1, 3}},
		{[][]int32{{}, {}}, []int64{0, 0}, 0, nil},
		{[][]int32{{}, {0}}, []int64{4, 0}, 4, []int32{0}},
	} {
		if got, path := longest(c.parents, c.took); got != c.want || !slices.Equal(path, c.path) {
			t.Errorf("%v: got %d by %v, want %d by %v", c.parents, got, path, c.want, c.path)
		}
	}
}

// Files move when a task ran on another node than the task before, once for each node.
func TestMoved(t *testing.T) {
	parents := [][]int32{{}, {0}, {0}, {1, 2}}
	node, bytes := []int32{0, 1, 1, 0}, []int64{100, 10, 7, 1}
	if got := moved(parents, node, bytes); got != 100+10+7 {
		t.Errorf("got %d, want 117: task 0 to node 1 once, and tasks 1 and 2 back", got)
	}
	if got := moved(parents, []int32{0, -1, 0, 0}, bytes); got != 0 {
		t.Errorf("got %d for a task that never ran, want 0", got)
	}
}
