// Package graph has the dependencies between the tasks of a workflow: edges, order, cycles,
// and the tasks that are ready ([Tracker]).
package graph

import (
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// Graph is the dependencies between tasks, as two arrays of edges: a million tasks with
// two million edges are built in well under a second.
type Graph struct {
	parentAt []int32 // by task: index of the first parent; one entry more than tasks
	parents  []int32
	childAt  []int32
	children []int32
	// By task: how many of its first parents write its inputs, and how many of its first children
	// read its outputs; nil: all do.
	feeds, reads []int32
}

// New takes the parents of each task. Duplicate edges count once.
func New(n int, parents func(i int) []int32) (*Graph, error) {
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

// Of is the graph of the tasks of a workflow.
func Of(nodes []record.GraphNode) (*Graph, error) {
	g, err := New(len(nodes), func(i int) []int32 { return nodes[i].Parents })
	if err == nil && !mutantAfterFeeds && slices.ContainsFunc(nodes, func(n record.GraphNode) bool { return n.After > 0 }) {
		g.carry(nodes)
	}
	return g, err
}

// carry notes which edges carry files, and puts these edges before the others.
func (g *Graph) carry(nodes []record.GraphNode) {
	n := g.Len()
	g.feeds, g.reads = make([]int32, n), make([]int32, n)
	fill := slices.Clone(g.childAt[:n])
	add := func(i int32, parents []int32) {
		for _, p := range parents {
			g.children[fill[p]] = i
			fill[p]++
		}
	}
	for i := range int32(n) {
		parents, fed := g.Parents(i), int32(0)
		for _, p := range nodes[i].Parents[:max(len(nodes[i].Parents)-nodes[i].After, 0)] {
			if int(fed) < len(parents) && parents[fed] == p { // else the edge is there twice
				fed++
			}
		}
		g.feeds[i] = fed
		add(i, parents[:fed])
	}
	for i := range g.reads {
		g.reads[i] = fill[i] - g.childAt[i]
	}
	for i := range int32(n) {
		add(i, g.Parents(i)[g.feeds[i]:])
	}
}

// Len is the number of tasks.
func (g *Graph) Len() int { return len(g.parentAt) - 1 }

// Parents are the tasks that i waits for.
func (g *Graph) Parents(i int32) []int32 { return g.parents[g.parentAt[i]:g.parentAt[i+1]] }

// Children are the tasks that wait for i.
func (g *Graph) Children(i int32) []int32 { return g.children[g.childAt[i]:g.childAt[i+1]] }

// feeders are the parents of i that write inputs of i.
func (g *Graph) feeders(i int32) []int32 {
	if g.feeds == nil {
		return g.Parents(i)
	}
	return g.Parents(i)[:g.feeds[i]]
}

// Readers are the children of i that read outputs of i.
func (g *Graph) Readers(i int32) []int32 {
	if g.reads == nil {
		return g.Children(i)
	}
	return g.Children(i)[:g.reads[i]]
}

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
