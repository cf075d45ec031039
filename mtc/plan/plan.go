package plan

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/graph"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// Plan has the bottom levels of the tasks of a graph. At most 40 bytes a task.
type Plan struct {
	graph   *graph.Graph
	order   []int32 // parents before children
	levels  []time.Duration
	stated  []time.Duration // 0: unknown
	outputs []int64         // bytes, as stated; 0: unknown
	initial []int64         // bytes of input that no task writes
	kind    []uint16        // of each task
	kinds   kinds
	guess   time.Duration
	next    time.Duration
	pending bool // the learnt lengths, or the bandwidth, differ from those in levels
	held    held
	Coming  Coming
	Choice  policy.Choice // of the policy [policy.Auto], by the present estimates
	*policy.Estimates
}

// kinds are the names of the kinds of tasks, and the estimates in use.
type kinds struct {
	names []string
	used  []time.Duration // lengths by number
	bytes []output        // by number
	rate  float64         // the bandwidth
	n     int64           // of lengths of tasks of the graph, stated or measured
	mean  float64         // of these, in ns
}

// output is what tasks of a kind wrote in the mean.
type output struct {
	n          int64
	mean, used float64
}

// wrote takes in the output of a task of a kind, and reports whether the choice of a policy
// may change.
func (k *kinds) wrote(num uint16, bytes int64) bool {
	for len(k.bytes) < len(k.names) {
		k.bytes = append(k.bytes, output{})
	}
	b := &k.bytes[num]
	b.n++
	b.mean += (float64(bytes) - b.mean) / float64(b.n)
	return far(b.mean, b.used)
}

// held is the bytes of outputs that tasks read, by the node that has them.
type held struct {
	nodes   map[filch.NodeName]float64
	all     float64
	most    float64 // of a node
	n       int     // outputs
	crowded bool    // for the present choice
}

// add takes in an output on a node.
func (h *held) add(node filch.NodeName, bytes int64) {
	if h.nodes == nil {
		h.nodes = make(map[filch.NodeName]float64)
	}
	h.nodes[node] += float64(bytes)
	h.n, h.all, h.most = h.n+1, h.all+float64(bytes), max(h.most, h.nodes[node])
}

// crowd is the largest part of the outputs that a node has, once there are enough.
func (h *held) crowd() float64 {
	if h.n < sureEnds || h.all == 0 {
		return 0
	}
	return h.most / h.all
}

// nodesUsual are the nodes on which the readers of an output may be, for the choice of a
// policy.
const nodesUsual = 8

// kindsMax bounds the kinds; tasks of further kinds count as of none.
const kindsMax = 4096

// New makes the plan of a graph whose tasks are nodes. An unknown length is the length of
// the task's kind by the estimates, which the plan adds to, else the mean of all known
// lengths, else guess; a second if guess is 0.
func New(g *graph.Graph, nodes func(i int32) *record.GraphNode, e *policy.Estimates, guess time.Duration) *Plan {
	n := g.Len()
	order, _ := g.Order()
	if guess <= 0 {
		guess = time.Second
	}
	p := &Plan{
		graph: g, order: order, levels: make([]time.Duration, n), stated: make([]time.Duration, n), outputs: make([]int64, n), initial: make([]int64, n),
		kind: make([]uint16, n), kinds: kinds{names: []string{""}}, guess: guess, Estimates: e,
	}
	numbers := map[string]uint16{"": 0}
	for i := range int32(n) {
		node := nodes(i)
		p.stated[i], p.outputs[i], p.initial[i] = node.Length, node.Output, node.Bytes
		if node.Length > 0 {
			p.kinds.know(node.Length)
		}
		num, ok := numbers[node.Kind]
		if !ok && len(p.kinds.names) < kindsMax {
			num = uint16(len(p.kinds.names))
			numbers[node.Kind] = num
			p.kinds.names = append(p.kinds.names, node.Kind)
		}
		p.kind[i] = num
	}
	p.compute()
	return p
}

// know takes in the length of a task.
func (k *kinds) know(d time.Duration) {
	k.n++
	k.mean += (float64(d) - k.mean) / float64(k.n)
}

// Length is the estimated length of a task on a usual node.
func (p *Plan) Length(i int32) time.Duration {
	if p.stated[i] > 0 {
		return p.stated[i]
	}
	return p.kinds.used[p.kind[i]]
}

// output is the estimated output of a task.
func (p *Plan) output(i int32) float64 {
	if num := int(p.kind[i]); p.outputs[i] == 0 && num < len(p.kinds.bytes) {
		return p.kinds.bytes[num].mean
	}
	return float64(p.outputs[i])
}

// Initial is the bytes of a task's input that no task writes.
func (p *Plan) Initial(i int32) int64 { return p.initial[i] }

// Level is the bottom level of a task, at least 1 ns: the length of the task and of the
// longest chain behind the task, with the transfers between the tasks of the chain.
func (p *Plan) Level(i int32) time.Duration { return p.levels[i] }

// Urgent sorts tasks that became ready together, the highest level first: the first tasks get
// the slots beside their input, and the others the slots that cost a transfer.
func (p *Plan) Urgent(list []int32) []int32 {
	if !mutantInOrder {
		slices.SortStableFunc(list, func(a, b int32) int { return cmp.Compare(p.levels[b], p.levels[a]) })
	}
	return list
}

// Ended takes in the end of a task on a node, how long the task took if it ended well, 0 is
// not known, and how much the task
// wrote. The levels change with the next [Plan.Update].
func (p *Plan) Ended(i int32, s filch.State, node filch.NodeName, took time.Duration, bytes int64) {
	if s != filch.OK || took <= 0 {
		return
	}
	k := &p.kinds
	num := p.kind[i]
	p.pending = k.wrote(num, bytes) && p.outputs[i] == 0 || p.pending
	if len(p.graph.Readers(i)) > 0 {
		p.held.add(node, bytes)
		p.pending = p.pending || policy.Crowded(p.held.crowd()) != p.held.crowded
	}
	p.Add(k.names[num], node, took)
	k.know(took)
	mean := p.Mean(k.names[num])
	if num == 0 {
		mean = time.Duration(k.mean)
	}
	if far(float64(mean), float64(k.used[num])) && p.stated[i] == 0 || far(p.Bandwidth(), k.rate) {
		p.pending = true
	}
}

// far reports whether an estimate is so far from the estimate in use that an order by
// lengths may change: by a quarter.
func far(now, used float64) bool { return math.Abs(now-used) > 0.25*used || mutantFlips && now != used }

// The levels are computed again at most once per updateEach for each updateTasks tasks: a
// million tasks take some hundred milliseconds.
const (
	updateEach  = time.Second
	updateTasks = 50_000
)

// Due is when [Plan.Update] has something to do.
func (p *Plan) Due() time.Duration {
	if !p.pending {
		return filch.Never
	}
	return p.next
}

// Update computes the levels anew if the estimates have changed by much, and reports whether
// the levels changed.
func (p *Plan) Update(now time.Duration) bool {
	if now < p.Due() {
		return false
	}
	p.pending = false
	p.next = now + updateEach*time.Duration(1+len(p.levels)/updateTasks)
	p.compute()
	return true
}

func (p *Plan) compute() {
	k := &p.kinds
	rest := p.guess
	if k.n > 0 {
		rest = time.Duration(k.mean)
	}
	k.used, k.rate = k.used[:0], p.Bandwidth()
	for _, name := range k.names {
		d := p.Mean(name)
		if d == 0 {
			d = rest
		}
		k.used = append(k.used, d)
	}
	for num := range k.bytes {
		k.bytes[num].used = k.bytes[num].mean
	}
	f := policy.Profile{Tasks: len(p.order), Rate: p.Known(), Crowd: p.held.crowd()}
	p.held.crowded = policy.Crowded(f.Crowd)
	unsure := float64(max(sureEnds-k.n, 0)) / sureEnds
	for at := len(p.order) - 1; at >= 0; at-- {
		i := p.order[at]
		length := p.Length(i)
		if unsure > 0 && p.stated[i] == 0 {
			length = time.Duration(unsure*float64(min(p.guess, guessShort)) + (1-unsure)*float64(length))
		}
		readers := p.graph.Readers(i)
		f.Read(p.output(i), len(readers), nodesUsual)
		f.Read(float64(p.initial[i]), 1, 1)
		f.Initial += float64(p.initial[i])
		f.Work = add(f.Work, length)
		if len(p.graph.Parents(i)) == 0 {
			f.Roots++
		}
		var behind time.Duration
		for at, c := range p.graph.Children(i) {
			level := p.levels[c]
			if at < len(readers) {
				level = add(level, policy.TransferTime(p.outputs[i], k.rate))
			}
			behind = max(behind, level)
		}
		if mutantAlone {
			behind = 0
		}
		p.levels[i] = add(max(p.Length(i), 1), behind)
	}
	if !mutantStays || p.Choice.Why == "" {
		p.Choice = f.Choose()
	}
}

// sureEnds is how many known lengths the choice of a policy trusts. With fewer, a task counts in
// part as guessShort long: with longer guesses a workflow with data would begin as if the data
// were little, and later tasks run where the first ones ran.
const (
	sureEnds   = 16
	guessShort = 100 * time.Millisecond
)

// add is a+b, or the greatest time if the sum is greater: files may state any length.
func add(a, b time.Duration) time.Duration {
	if a > math.MaxInt64/2-b {
		return math.MaxInt64 / 2
	}
	return a + b
}
