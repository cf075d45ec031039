package plan

import (
	"math"
	"time"

	"github.com/filch-hpc/filch/mtc/graph"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// Plan has the bottom levels of the tasks of a graph. At most 32 bytes a task.
type Plan struct {
	graph   *graph.Graph
	order   []int32 // parents before children
	levels  []time.Duration
	stated  []time.Duration // 0: unknown
	moves   []time.Duration // of a task's output to its children
	kinds   policy.Kinds
	kind    []uint16 // of each task
	next    time.Duration
	pending bool // the learnt lengths differ from the lengths in levels
}

// New makes the plan of a graph whose tasks are nodes. An unknown length is the length of
// the task's kind, else the mean of all known lengths, else guess.
func New(g *graph.Graph, nodes func(i int32) *record.GraphNode, guess time.Duration) *Plan {
	n := g.Len()
	order, _ := g.Order()
	p := &Plan{
		graph: g, order: order, levels: make([]time.Duration, n), stated: make([]time.Duration, n),
		moves: make([]time.Duration, n), kind: make([]uint16, n), kinds: policy.NewKinds(guess),
	}
	for i := range int32(n) {
		node := nodes(i)
		p.stated[i], p.moves[i] = node.Length, policy.TransferTime(node.Output, policy.Bandwidth)
		p.kind[i] = p.kinds.Number(node.Kind)
		if node.Length > 0 {
			p.kinds.State(node.Length)
		}
	}
	p.compute()
	return p
}

// Length is the estimated length of a task.
func (p *Plan) Length(i int32) time.Duration {
	if p.stated[i] > 0 {
		return p.stated[i]
	}
	return p.kinds.Length(p.kind[i])
}

// Level is the bottom level of a task, at least 1 ns: the length of the task and of the
// longest chain behind the task, with the transfers between the tasks of the chain.
func (p *Plan) Level(i int32) time.Duration { return p.levels[i] }

// Ended takes in the length of a task that ended well. The levels change with the next
// [Plan.Update].
func (p *Plan) Ended(i int32, took time.Duration) {
	if p.kinds.Add(p.kind[i], took) && p.stated[i] == 0 {
		p.pending = true
	}
}

// The levels are computed again at most once per updateEach for each updateTasks tasks: a
// million tasks take some hundred milliseconds.
const (
	updateEach  = time.Second
	updateTasks = 50_000
)

// Update computes the levels anew if the learnt lengths have changed by much, and reports
// whether the levels changed.
func (p *Plan) Update(now time.Duration) bool {
	if !p.pending || now < p.next {
		return false
	}
	p.pending = false
	p.next = now + updateEach*time.Duration(1+len(p.levels)/updateTasks)
	p.compute()
	return true
}

func (p *Plan) compute() {
	p.kinds.Settle()
	for k := len(p.order) - 1; k >= 0; k-- {
		i := p.order[k]
		var behind time.Duration
		for _, c := range p.graph.Children(i) {
			behind = max(behind, p.levels[c])
		}
		if behind > 0 {
			behind = add(behind, p.moves[i])
		}
		p.levels[i] = add(max(p.Length(i), 1), behind)
	}
}

// add is a+b, or the greatest time if the sum is greater: files may state any length.
func add(a, b time.Duration) time.Duration {
	if a > math.MaxInt64/2-b {
		return math.MaxInt64 / 2
	}
	return a + b
}
