package mtc

import (
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// Graph is the dependencies between tasks, as two arrays of edges: a million tasks with
// two million edges are built in well under a second.
type Graph struct {
	parentAt []int32 // by task: index of the first parent; one entry more than tasks
	parents  []int32
	childAt  []int32
	children []int32
}

// NewGraph takes the parents of each task. Duplicate edges count once.
func NewGraph(n int, parents func(i int) []int32) (*Graph, error) {
	g := &Graph{parentAt: make([]int32, n+1), childAt: make([]int32, n+1)}
	seen := make([]int32, n) // by parent: the last task with this parent, plus one
	for i := range n {
		for _, p := range parents(i) {
			if p < 0 || int(p) >= n {
				return nil, filch.Errorf(filch.Invalid, "task %d waits for task %d of %d", i, p, n)
			}
			if seen[p] == int32(i)+1 {
				continue
			}
			seen[p] = int32(i) + 1
			g.parents = append(g.parents, p)
			g.childAt[p+1]++
		}
		g.parentAt[i+1] = int32(len(g.parents))
	}
	for i := range n {
		g.childAt[i+1] += g.childAt[i]
	}
	g.children = make([]int32, len(g.parents))
	fill := make([]int32, n)
	copy(fill, g.childAt)
	for i := range n {
		for _, p := range g.Parents(int32(i)) {
			g.children[fill[p]] = int32(i)
			fill[p]++
		}
	}
	return g, nil
}

// Len is the number of tasks.
func (g *Graph) Len() int { return len(g.parentAt) - 1 }

// Parents are the tasks that i waits for.
func (g *Graph) Parents(i int32) []int32 { return g.parents[g.parentAt[i]:g.parentAt[i+1]] }

// Children are the tasks that wait for i.
func (g *Graph) Children(i int32) []int32 { return g.children[g.childAt[i]:g.childAt[i+1]] }

// Order lists the tasks with parents before children, or returns a cycle.
func (g *Graph) Order() (order, cycle []int32) {
	n := g.Len()
	missing := make([]int32, n)
	order = make([]int32, 0, n)
	for i := range n {
		missing[i] = int32(len(g.Parents(int32(i))))
		if missing[i] == 0 {
			order = append(order, int32(i))
		}
	}
	for k := 0; k < len(order); k++ {
		for _, c := range g.Children(order[k]) {
			if missing[c]--; missing[c] == 0 {
				order = append(order, c)
			}
		}
	}
	if len(order) == n {
		return order, nil
	}
	return nil, g.cycle(missing)
}

// cycle walks from a task that never became ready to a parent that did not either, until
// the walk meets a task again.
func (g *Graph) cycle(missing []int32) []int32 {
	var at int32
	for missing[at] == 0 {
		at++
	}
	step := make(map[int32]int)
	var walk []int32
	for {
		if i, ok := step[at]; ok {
			return walk[i:]
		}
		step[at] = len(walk)
		walk = append(walk, at)
		for _, p := range g.Parents(at) {
			if missing[p] > 0 {
				at = p
				break
			}
		}
	}
}

// CycleError lists the tasks of a cycle.
func CycleError(cycle []int32, name func(int32) string) *filch.Error {
	var b strings.Builder
	for i, t := range cycle {
		if i == cycleNames {
			b.WriteString("... -> ")
			break
		}
		b.WriteString(name(t))
		b.WriteString(" -> ")
	}
	b.WriteString(name(cycle[0]))
	return filch.Errorf(filch.Invalid, "%d tasks wait for each other: %s", len(cycle), b.String())
}

// cycleNames bounds the names of a cycle in the text.
const cycleNames = 20

// Tracker knows which tasks of a graph are ready. The tracker keeps the set of ended
// tasks, and computes a task's missing parents from the set: a second report of the same
// end changes nothing.
type Tracker struct {
	g       *Graph
	ended   []uint64 // the set
	state   []filch.State
	missing []int32
	waiting int   // tasks neither ready nor ended
	known   int32 // tasks with a known end
	bytes   []int64
	by      []int32 // index into nodes
	nodes   []filch.NodeName
	mode    record.FailMode
}

// NewTracker begins with no task ended.
func NewTracker(g *Graph, mode record.FailMode) *Tracker {
	n := g.Len()
	t := &Tracker{
		g: g, ended: make([]uint64, (n+63)/64), state: make([]filch.State, n), missing: make([]int32, n),
		bytes: make([]int64, n), by: make([]int32, n), nodes: []filch.NodeName{""}, mode: mode,
	}
	for i := range n {
		t.missing[i] = int32(len(g.Parents(int32(i))))
		if t.missing[i] > 0 {
			t.waiting++
		}
	}
	return t
}

// Has reports whether the end of a task is known.
func (t *Tracker) Has(i int32) bool { return t.ended[i/64]>>(i%64)&1 != 0 }

// Ready reports whether a task waits for no parent and has no end.
func (t *Tracker) Ready(i int32) bool { return t.missing[i] == 0 && !t.Has(i) }

// End takes in the end of a task. End returns the tasks that became ready and the tasks
// to be skipped; the caller records the skipped tasks, whose end the tracker knows at
// once.
func (t *Tracker) End(i int32, s filch.State, bytes int64, by filch.NodeName) (ready, skipped []int32) {
	if t.Has(i) && !mutantCounter {
		return nil, nil
	}
	t.end(i, s)
	t.bytes[i], t.by[i] = bytes, t.node(by)
	if t.mode == record.FailOn {
		s = filch.OK
	}
	work := []int32{i}
	for len(work) > 0 {
		p := work[len(work)-1]
		work = work[:len(work)-1]
		bad := p != i || s != filch.OK
		for _, c := range t.g.Children(p) {
			if t.Has(c) {
				continue
			}
			t.missing[c]--
			switch {
			case bad:
				t.end(c, filch.Skipped)
				skipped = append(skipped, c)
				work = append(work, c)
			case t.missing[c] == 0:
				t.waiting--
				ready = append(ready, c)
			}
		}
	}
	return ready, skipped
}

func (t *Tracker) end(i int32, s filch.State) {
	if !t.Has(i) {
		t.known++
		if t.missing[i] > 0 {
			t.waiting--
		}
	}
	t.ended[i/64] |= 1 << (i % 64)
	t.state[i] = s
}

// node numbers a node's name; few nodes run many tasks.
func (t *Tracker) node(name filch.NodeName) int32 {
	for k := len(t.nodes) - 1; k >= 0; k-- {
		if t.nodes[k] == name {
			return int32(k)
		}
	}
	t.nodes = append(t.nodes, name)
	return int32(len(t.nodes) - 1)
}

// Inputs are the outputs of a task's parents, with node and size.
func (t *Tracker) Inputs(i int32) []policy.Input {
	parents := t.g.Parents(i)
	if len(parents) == 0 {
		return nil
	}
	in := make([]policy.Input, len(parents))
	for k, p := range parents {
		in[k] = policy.Input{Parent: p, Node: t.nodes[t.by[p]], Bytes: t.bytes[p]}
	}
	return in
}
