package graph

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

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
	copies  map[int32][]int32 // by task: further nodes with the output, where children ran
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

// Stops reports whether such an end of a task ends a graph that stops on a failure. A person who
// cancels a task wants the rest.
func Stops(s filch.State) bool {
	return s != filch.OK && s != filch.Cancelled && s != filch.Skipped
}

// Has reports whether the end of a task is known.
func (t *Tracker) Has(i int32) bool { return t.ended[i/64]>>(i%64)&1 != 0 }

// Waiting is the number of tasks that are neither ready nor ended.
func (t *Tracker) Waiting() int { return t.waiting }

// Known is the number of tasks with a known end.
func (t *Tracker) Known() int32 { return t.known }

// Last reports whether a task waits for one parent.
func (t *Tracker) Last(i int32) bool { return t.missing[i] == 1 && !t.Has(i) }

// Ready reports whether a task waits for no parent and has no end.
func (t *Tracker) Ready(i int32) bool { return t.missing[i] == 0 && !t.Has(i) }

// AllReady lists the tasks that are [Tracker.Ready].
func (t *Tracker) AllReady() (list []int32) {
	for i := range int32(len(t.missing)) {
		if t.Ready(i) {
			list = append(list, i)
		}
	}
	return list
}

// Waits reports whether a task waits for parents.
func (t *Tracker) Waits(i int32) bool { return t.missing[i] > 0 && !t.Has(i) }

// Behind lists parents of a task without a known end, at most most.
func (t *Tracker) Behind(i int32, most int) (list []int32) {
	for _, p := range t.g.Parents(i) {
		if !t.Has(p) && len(list) < most {
			list = append(list, p)
		}
	}
	return list
}

// End takes in the end of a task. End returns the tasks that became ready and the tasks
// to be skipped; the caller records the skipped tasks, whose end the tracker knows at
// once.
func (t *Tracker) End(i int32, s filch.State, bytes int64, by filch.NodeName) (ready, skipped []int32) {
	if t.Has(i) && !mutantCounter {
		return nil, nil
	}
	t.end(i, s)
	t.bytes[i], t.by[i] = bytes, t.node(by)
	if s == filch.OK {
		t.copy(i)
	}
	if t.mode == record.FailOn && s != filch.Cancelled {
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

// copiesMax bounds the nodes with a copy of an output: more is no use for the choice of one.
const copiesMax = 8

// copy notes that the node of a task that ended well has the outputs that the task read.
func (t *Tracker) copy(i int32) {
	for _, p := range t.g.feeders(i) {
		list := t.copies[p]
		if t.bytes[p] == 0 || t.by[p] == t.by[i] || len(list) >= copiesMax || slices.Contains(list, t.by[i]) {
			continue
		}
		if t.copies == nil {
			t.copies = make(map[int32][]int32)
		}
		t.copies[p] = append(list, t.by[i])
	}
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

// Read is the bytes of the outputs of the parents that write a task's inputs.
func (t *Tracker) Read(i int32) (bytes int64) {
	for _, p := range t.g.feeders(i) {
		bytes += t.bytes[p]
	}
	return bytes
}

// Inputs are the outputs of the parents that write a task's inputs, with node and size.
func (t *Tracker) Inputs(i int32) []policy.Input {
	parents := t.g.feeders(i)
	if len(parents) == 0 {
		return nil
	}
	in := make([]policy.Input, len(parents))
	for k, p := range parents {
		in[k] = policy.Input{Parent: p, Node: t.nodes[t.by[p]], Bytes: t.bytes[p]}
		for _, n := range t.copies[p] {
			in[k].Copies = append(in[k].Copies, t.nodes[n])
		}
	}
	return in
}
