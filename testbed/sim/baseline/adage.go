package baseline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/workflow"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Adage is work giving: each node has a queue of the tasks that a plan gives to the node. A
// node that is the most loaded of some random nodes puts copies of half of its own tasks into
// the queue of the least loaded one (ADAGE, III).
type Adage struct {
	Name  string
	Rate  float64       // bytes a second of a transfer, in the plan
	First time.Duration // the first wait of a giver; doubles up to Most
	Most  time.Duration
	// Urgent orders the queues by the critical path; false: by the time at which tasks get ready.
	Urgent bool
	// Prompt wakes an idle node when its queue gets a task; false: at the next end of any task.
	Prompt bool
	// Race runs copies side by side, and the first that ends stops the others; false: a copy of a
	// task that has started is dropped.
	Race bool
	// Gives is false for the plan alone.
	Gives bool
}

// The rules as the code has them (bytes by a bandwidth in Mb/s, no order, no wake-up, no copy beside
// the original), and as the paper prints them.
var (
	AdageCode    = Adage{Name: "ADAGE, as its code is", Rate: 1000, First: time.Second, Most: 120 * time.Second, Gives: true}
	AdagePrinted = Adage{Name: "ADAGE, as printed", Rate: 125e6, First: time.Millisecond, Most: 120 * time.Second, Urgent: true, Prompt: true, Race: true, Gives: true}
)

const (
	speed         = 2                        // of a node: 2,000 MIPS, where files state times of 1,000
	copiesMax     = 3                        // nodes that have a task: the owner and two more
	validateEvery = 62500 * time.Millisecond // how often a node drops ended tasks from its queue
)

// Flow is a workflow on nodes that run a task at a time.
type Flow struct {
	Graph    *workflow.Graph
	Nodes    int
	Seed     uint64
	lengths  []time.Duration
	children [][]int32
	levels   []time.Duration // the longest chain from the begin of each task
}

// NewFlow prepares a workflow.
func NewFlow(g *workflow.Graph, nodes int, seed uint64) *Flow {
	f := &Flow{Graph: g, Nodes: nodes, Seed: seed, children: make([][]int32, len(g.Tasks)), levels: make([]time.Duration, len(g.Tasks))}
	for i := range g.Tasks {
		f.lengths = append(f.lengths, g.Tasks[i].Cost/speed)
		for _, p := range g.Tasks[i].Parents {
			f.children[p] = append(f.children[p], int32(i))
		}
	}
	for _, i := range slices.Backward(g.Order()) {
		for _, c := range f.children[i] {
			f.levels[i] = max(f.levels[i], f.levels[c])
		}
		f.levels[i] += f.lengths[i]
	}
	return f
}

// Bound is a time that no schedule beats: the longest chain, and the work by the nodes.
func (f *Flow) Bound() time.Duration {
	sum := time.Duration(0)
	for _, d := range f.lengths {
		sum += d
	}
	return max(sum/time.Duration(f.Nodes), slices.Max(f.levels))
}

// urgent is all tasks, the longest chain first.
func (f *Flow) urgent() []int32 {
	order := make([]int32, len(f.lengths))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(f.levels[b], f.levels[a]) })
	return order
}

// plan gives each task to the node that is free first, after the transfers of the files that the
// node has not got. It has a clock for the tasks and one for the transfers of each node, and no
// dependencies (the planning of the code).
func (f *Flow) plan(rate float64) []int {
	place := make([]int, len(f.lengths))
	free, loaded, has := make([]float64, f.Nodes), make([]float64, f.Nodes), make([]map[int32]bool, f.Nodes)
	for n := range has {
		has[n] = map[int32]bool{}
	}
	for _, i := range f.urgent() {
		best, at, after := -1, 0.0, 0.0
		for n := range f.Nodes {
			moved := loaded[n]
			for _, file := range f.Graph.Tasks[i].Inputs {
				if !has[n][file] {
					moved += float64(max(f.Graph.Files[file].Size, 0)) / rate
				}
			}
			if t := max(moved, free[n]); best < 0 || t < at {
				best, at, after = n, t, moved
			}
		}
		place[i], free[best], loaded[best] = best, at+f.lengths[i].Seconds(), after
		for _, list := range [][]int32{f.Graph.Tasks[i].Inputs, f.Graph.Tasks[i].Outputs} {
			for _, file := range list {
				has[best][file] = true
			}
		}
	}
	return place
}

// Flown is the result of a workflow.
type Flown struct {
	Makespan time.Duration
	Copies   int // tasks that givers put into other queues
	Asked    int // loads that givers looked at
}

// adage is a run.
type adage struct {
	*engine.Engine
	*Flow
	rule   Adage
	dice   *engine.Dice
	nodes  []*giver
	owner  []int   // of each task: the plan, then the node that runs the task
	waits  []int   // parents that have not ended
	fresh  []int32 // ready tasks in no queue
	state  []progress
	left   int
	copies int
	asked  int
}

type progress struct {
	started, ended bool
	bound          []int // nodes with the task in their queue
}

// giver is a node.
type giver struct {
	index   int
	queue   []int32
	running int32 // -1: idle
	spell   int   // counts runs, so that the end of a stopped copy is void
	wait    time.Duration
}

// Run runs a workflow.
func (a Adage) Run(f *Flow) (Flown, error) {
	r := &adage{
		Engine: engine.New(engine.Options{Seed: f.Seed, Hosts: f.Nodes, Steps: eventsMax}), Flow: f, rule: a,
		owner: f.plan(a.Rate), waits: make([]int, len(f.lengths)), state: make([]progress, len(f.lengths)), left: len(f.lengths),
	}
	r.dice = r.Dice(1)
	for n := range f.Nodes {
		g := &giver{index: n, running: -1, wait: a.First}
		r.nodes = append(r.nodes, g)
		if a.Gives {
			r.After(g.wait, func() { r.balance(g) })
		}
		r.After(validateEvery, func() { r.validate(g) })
	}
	for _, i := range f.urgent() {
		if r.waits[i] = len(f.Graph.Tasks[i].Parents); r.waits[i] == 0 {
			r.fresh = append(r.fresh, i)
		}
	}
	r.At(0, r.pass)
	if !r.RunUntil(filch.Never, func() bool { return r.left == 0 }) {
		return Flown{}, fmt.Errorf("cannot run %s on %d nodes: %d tasks left, %v", f.Graph.Name, f.Nodes, r.left, r.Broken())
	}
	return Flown{Makespan: r.Now(), Copies: r.copies, Asked: r.asked}, nil
}

// pass lets all nodes look for a task, in turn.
func (r *adage) pass() {
	for _, g := range r.nodes {
		r.execute(g)
	}
}

// execute starts the next task of an idle node (listing 1, and the code).
func (r *adage) execute(g *giver) {
	if g.running >= 0 {
		return
	}
	if len(g.queue) == 0 {
		r.decide(g)
	}
	for len(g.queue) > 0 {
		i := g.queue[0]
		g.queue = g.queue[1:]
		if s := &r.state[i]; s.ended || s.started && !r.rule.Race {
			continue
		}
		r.state[i].started, r.owner[i] = true, g.index
		g.running = i
		g.spell++
		spell := g.spell
		r.After(r.lengths[i], func() {
			if g.spell == spell {
				r.end(i)
			}
		})
		return
	}
}

// decide takes the ready tasks that the plan gives to a node into its queue. If there are none, all
// ready tasks go to the queues of the nodes of the plan (listing 2).
func (r *adage) decide(g *giver) {
	var rest []int32
	found := false
	for _, i := range r.fresh {
		if r.owner[i] != g.index {
			rest = append(rest, i)
			continue
		}
		found = true
		r.insert(g, i)
	}
	if r.fresh = rest; found {
		return
	}
	r.fresh = nil
	for _, i := range rest {
		r.insert(r.nodes[r.owner[i]], i)
	}
}

// insert puts a task into a queue.
func (r *adage) insert(g *giver, i int32) {
	r.state[i].bound = append(r.state[i].bound, g.index)
	at := len(g.queue)
	if r.rule.Urgent {
		at, _ = slices.BinarySearchFunc(g.queue, i, func(a, b int32) int {
			return cmp.Or(cmp.Compare(r.levels[b], r.levels[a]), -1)
		})
	}
	if g.queue = slices.Insert(g.queue, at, i); r.rule.Prompt && g.running < 0 {
		r.After(0, func() { r.execute(g) })
	}
}

// end notes the end of a task, and stops its other copies.
func (r *adage) end(i int32) {
	for _, g := range r.nodes {
		if g.running == i {
			g.running = -1
			g.spell++
		}
	}
	r.state[i].ended = true
	r.left--
	for _, c := range r.children[i] {
		if r.waits[c]--; r.waits[c] == 0 {
			r.fresh = append(r.fresh, c)
		}
	}
	r.pass()
}

// load is the length of all tasks of a queue.
func (r *adage) load(g *giver) (sum time.Duration) {
	for _, i := range g.queue {
		sum += r.lengths[i]
	}
	return sum
}

// balance is the load balancer of a node (listing 4, and the code).
func (r *adage) balance(g *giver) {
	if len(g.queue) > 1 && r.give(g) {
		g.wait = r.rule.First
	} else if g.wait < r.rule.Most {
		g.wait *= 2
	}
	r.After(g.wait, func() { r.balance(g) })
}

// give gives copies of tasks to the least loaded of some nodes, and reports whether a task was
// given.
func (r *adage) give(g *giver) bool {
	var best *giver
	for _, n := range r.neighbors() {
		if n == g.index {
			continue
		}
		o := r.nodes[n]
		if r.asked++; r.load(o) > r.load(g) {
			return false
		}
		if best == nil || r.load(o) < r.load(best) {
			best = o
		}
	}
	if best == nil {
		return false
	}
	given := 0
	for k := len(g.queue) - 1; k >= 0 && given < max(len(g.queue)/2, 1); k-- {
		i := g.queue[k]
		if s := &r.state[i]; r.owner[i] == g.index && len(s.bound) < copiesMax && !slices.Contains(s.bound, best.index) {
			r.insert(best, i)
			given++
		}
	}
	r.copies += given
	return given > 0
}

// neighbors draws the square root of the nodes.
func (r *adage) neighbors() (list []int) {
	for range int(math.Sqrt(float64(len(r.nodes)))) {
		n := r.dice.N(len(r.nodes))
		for slices.Contains(list, n) {
			n = r.dice.N(len(r.nodes))
		}
		list = append(list, n)
	}
	return list
}

// validate drops the ended tasks of a queue (listing 5).
func (r *adage) validate(g *giver) {
	g.queue = slices.DeleteFunc(g.queue, func(i int32) bool { return r.state[i].ended })
	r.After(validateEvery, func() { r.validate(g) })
}

// List is the makespan on the nodes if a free node takes the first ready task of an order: the
// longest chain first, or, as min-min does where nodes are alike, the shortest task first.
func (f *Flow) List(shortest bool) (makespan time.Duration) {
	first := func(a, b int32) int { return cmp.Or(cmp.Compare(f.levels[b], f.levels[a]), cmp.Compare(a, b)) }
	if shortest {
		first = func(a, b int32) int { return cmp.Or(cmp.Compare(f.lengths[a], f.lengths[b]), cmp.Compare(a, b)) }
	}
	var ready []int32
	waits := make([]int, len(f.lengths))
	add := func(i int32) {
		at, _ := slices.BinarySearchFunc(ready, i, first)
		ready = slices.Insert(ready, at, i)
	}
	for i := range waits {
		if waits[i] = len(f.Graph.Tasks[i].Parents); waits[i] == 0 {
			add(int32(i))
		}
	}
	var ends filch.Timeline[int32]
	for {
		for ends.Len() < f.Nodes && len(ready) > 0 {
			ends.Push(makespan+f.lengths[ready[0]], ready[0])
			ready = ready[1:]
		}
		if ends.Len() == 0 {
			return makespan
		}
		for makespan = ends.Next(); ends.Len() > 0 && ends.Next() == makespan; {
			_, i := ends.Pop()
			for _, c := range f.children[i] {
				if waits[c]--; waits[c] == 0 {
					add(c)
				}
			}
		}
	}
}
