package makespan

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// ideal is a workflow for schedulers that know the length of every task, in whose world
// nothing but tasks takes time.
type ideal struct {
	lengths  []time.Duration
	parents  [][]int32
	children [][]int32
	levels   []time.Duration // the longest chain from the begin of each task
}

// newIdeal makes the workflow of nodes with these lengths.
func newIdeal(nodes []record.GraphNode, lengths []time.Duration) *ideal {
	w := &ideal{lengths: lengths, parents: make([][]int32, len(nodes)), children: make([][]int32, len(nodes)), levels: make([]time.Duration, len(nodes))}
	waits := make([]int, len(nodes))
	var order []int32
	for i := range nodes {
		w.parents[i] = nodes[i].Parents
		for _, p := range nodes[i].Parents {
			w.children[p] = append(w.children[p], int32(i))
		}
		if waits[i] = len(nodes[i].Parents); waits[i] == 0 {
			order = append(order, int32(i))
		}
	}
	for at := 0; at < len(order); at++ {
		for _, c := range w.children[order[at]] {
			if waits[c]--; waits[c] == 0 {
				order = append(order, c)
			}
		}
	}
	for _, i := range slices.Backward(order) {
		for _, c := range w.children[i] {
			w.levels[i] = max(w.levels[i], w.levels[c])
		}
		w.levels[i] += lengths[i]
	}
	return w
}

// list is the makespan on some slots: a free slot takes the first ready task.
func (w *ideal) list(slots int, first func(a, b int32) int) (makespan time.Duration) {
	var ready []int32
	add := func(i int32) {
		at, _ := slices.BinarySearchFunc(ready, i, first)
		ready = slices.Insert(ready, at, i)
	}
	waits := make([]int, len(w.lengths))
	for i := range waits {
		if waits[i] = len(w.parents[i]); waits[i] == 0 {
			add(int32(i))
		}
	}
	var ends filch.Timeline[int32]
	for free := slots; ; {
		for free > 0 && len(ready) > 0 {
			free--
			ends.Push(makespan+w.lengths[ready[0]], ready[0])
			ready = ready[1:]
		}
		if ends.Len() == 0 {
			return makespan
		}
		makespan = ends.Next()
		for ends.Len() > 0 && ends.Next() == makespan {
			_, i := ends.Pop()
			free++
			for _, c := range w.children[i] {
				if waits[c]--; waits[c] == 0 {
					add(c)
				}
			}
		}
	}
}

// urgent orders tasks by the critical path: the longest chain first.
func (w *ideal) urgent(a, b int32) int {
	return cmp.Or(cmp.Compare(w.levels[b], w.levels[a]), cmp.Compare(a, b))
}

// short orders tasks as min-min does, where all slots are alike: the shortest first.
func (w *ideal) short(a, b int32) int {
	return cmp.Or(cmp.Compare(w.lengths[a], w.lengths[b]), cmp.Compare(a, b))
}

// luck is the mean makespan of random orders.
func (w *ideal) luck(slots int) (mean time.Duration) {
	const orders = 20
	d := engine.NewDice(1, 1)
	list := make([]int32, len(w.lengths))
	for range orders {
		for i := range list {
			list[i] = int32(i)
		}
		for i := range list {
			j := i + d.N(len(list)-i)
			list[i], list[j] = list[j], list[i]
		}
		mean += w.list(slots, by(list)) / orders
	}
	return mean
}

// by orders tasks as a list of all tasks does.
func by(list []int32) func(a, b int32) int {
	place := make([]int, len(list))
	for at, i := range list {
		place[i] = at
	}
	return func(a, b int32) int { return cmp.Compare(place[a], place[b]) }
}

// heft is the makespan of HEFT: the tasks in the order of their levels, each at the slot
// that ends the task first, in a gap between earlier tasks too.
func (w *ideal) heft(slots int) (makespan time.Duration) {
	type spell struct{ from, to time.Duration }
	busy := make([][]spell, slots)
	order, place := make([]int32, len(w.lengths)), w.depths()
	for i := range order {
		order[i] = int32(i)
	}
	// A task without a length has the level of its child: parents go first all the same.
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(w.levels[b], w.levels[a]), cmp.Compare(place[a], place[b]), cmp.Compare(a, b))
	})
	ended := make([]time.Duration, len(order))
	for _, i := range order {
		ready := time.Duration(0)
		for _, p := range w.parents[i] {
			ready = max(ready, ended[p])
		}
		best, at, where := time.Duration(-1), 0, 0
		for s := range busy {
			begin, k := ready, len(busy[s])
			for g, b := range busy[s] {
				if begin+w.lengths[i] <= b.from {
					k = g
					break
				}
				begin = max(begin, b.to)
			}
			if best < 0 || begin < best {
				best, at, where = begin, k, s
			}
		}
		ended[i] = best + w.lengths[i]
		busy[where] = slices.Insert(busy[where], at, spell{best, ended[i]})
		makespan = max(makespan, ended[i])
	}
	return makespan
}

// depths is the number of tasks before each task on the longest way, counted in tasks.
func (w *ideal) depths() []int {
	depths, waits := make([]int, len(w.lengths)), make([]int, len(w.lengths))
	var order []int32
	for i := range waits {
		if waits[i] = len(w.parents[i]); waits[i] == 0 {
			order = append(order, int32(i))
		}
	}
	for at := 0; at < len(order); at++ {
		for _, c := range w.children[order[at]] {
			depths[c] = max(depths[c], depths[order[at]]+1)
			if waits[c]--; waits[c] == 0 {
				order = append(order, c)
			}
		}
	}
	return depths
}

// best is the least makespan of the schedulers that know all, and the scheduler's name.
func (w *ideal) best(slots int) (least time.Duration, name string) {
	for _, s := range []struct {
		name string
		took time.Duration
	}{
		{"critical path", w.list(slots, w.urgent)},
		{"HEFT", w.heft(slots)},
		{"min-min", w.list(slots, w.short)},
	} {
		if name == "" || s.took < least {
			least, name = s.took, s.name
		}
	}
	return least, name
}
