package baseline

import (
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Albatross binds tasks late: a node with nothing to do pulls a ready task from the queue that all share,
// and sends the task to the node with most of its input, unless that node is overloaded. A task of a
// node's own queue is sent there, too, when its turn comes, if the node is not overloaded by then
// (ADAGE, II).
type Albatross struct {
	Most int // tasks in the queue of a node that is not overloaded
}

// LateBinding takes a node for overloaded if a task waits there.
var LateBinding = Albatross{Most: 1}

// late is a run.
type late struct {
	*engine.Engine
	*Flow
	rule   Albatross
	shared []int32   // ready tasks, the first ready first
	queues [][]int32 // of nodes
	busy   []bool
	ran    []int // the node of each task
	waits  []int
	left   int
	sent   int
}

// Run runs a workflow. Copies of the result is how many tasks went to another node.
func (a Albatross) Run(f *Flow) (Flown, error) {
	r := &late{
		Engine: engine.New(engine.Options{Seed: f.Seed, Hosts: f.Nodes, Steps: eventsMax}), Flow: f, rule: a, queues: make([][]int32, f.Nodes),
		busy: make([]bool, f.Nodes), ran: make([]int, len(f.lengths)), waits: make([]int, len(f.lengths)), left: len(f.lengths),
	}
	for i := range r.waits {
		if r.waits[i] = len(f.Graph.Tasks[i].Parents); r.waits[i] == 0 {
			r.shared = append(r.shared, int32(i))
		}
	}
	r.At(0, r.pull)
	if !r.RunUntil(filch.Never, func() bool { return r.left == 0 }) {
		return Flown{}, fmt.Errorf("cannot run %s on %d nodes: %d tasks left, %v", f.Graph.Name, f.Nodes, r.left, r.Broken())
	}
	return Flown{Makespan: r.Now(), Copies: r.sent}, nil
}

// best is the node with most of the input of a task, and whether a node has any.
func (r *late) best(i int32) (node int, found bool) {
	bytes, most := map[int]int64{}, int64(0)
	for _, file := range r.Graph.Tasks[i].Inputs {
		if w := r.Graph.Files[file].Writer; w >= 0 {
			n := r.ran[w]
			if bytes[n] += max(r.Graph.Files[file].Size, 0); bytes[n] > most {
				node, most, found = n, bytes[n], true
			}
		}
	}
	return node, found
}

// send sends a task to the node with most of its input. It reports false if the task stays.
func (r *late) send(i int32, from int) bool {
	to, found := r.best(i)
	if !found || to == from || len(r.queues[to]) >= r.rule.Most {
		return false
	}
	r.queues[to] = append(r.queues[to], i)
	r.sent++
	return true
}

// pull lets the idle nodes take tasks, of their own queues first, until no task can start.
func (r *late) pull() {
	for again := true; again; {
		again = false
		for n := range r.busy {
			for !r.busy[n] && len(r.queues[n])+len(r.shared) > 0 {
				again = true
				list := &r.shared
				if len(r.queues[n]) > 0 {
					list = &r.queues[n]
				}
				i := (*list)[0]
				if *list = (*list)[1:]; !r.send(i, n) {
					r.start(n, i)
				}
			}
		}
	}
}

// start runs a task.
func (r *late) start(n int, i int32) {
	r.busy[n], r.ran[i] = true, n
	r.After(r.lengths[i], func() {
		r.busy[n] = false
		r.left--
		for _, c := range r.children[i] {
			if r.waits[c]--; r.waits[c] == 0 {
				r.shared = append(r.shared, c)
			}
		}
		r.pull()
	})
}
