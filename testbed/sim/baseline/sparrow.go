package baseline

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Sparrow has a scheduler on each node, which sends probes for the tasks of a job to random
// nodes. A probe waits in the queue of the node. The node then asks the scheduler for a task, and
// gets one if tasks are left (batch sampling with late binding).
type Sparrow struct {
	Ratio float64       // probes by task
	Cost  time.Duration // of a scheduler for a probe, and for the request of a task
	// Early binds a probe to a task when the scheduler sends the probe, to a random node: what is
	// left of Sparrow without late binding, with a probe a task.
	Early bool
}

// Probe ratios: the default, and the default of constrained jobs.
var (
	Sparrow105 = Sparrow{Ratio: 1.05}
	Sparrow2   = Sparrow{Ratio: 2}
)

// Arrival is a job of independent tasks, submitted to the scheduler of a node.
type Arrival struct {
	At    time.Duration
	Node  int
	Tasks []int32
}

// request is a job at its scheduler.
type request struct {
	at   time.Duration
	home *node
	next []int32 // tasks without a node
	left int
	took time.Duration
}

// sparrow is a run.
type sparrow struct {
	*world
	s      Sparrow
	probes [][]*request // by node, in order
}

// Run runs a bag: a job for each scheduler.
func (s Sparrow) Run(b *Bag) (Took, error) {
	jobs := make([]Arrival, b.Nodes)
	for i := range b.Lengths {
		j := &jobs[i%b.Nodes]
		j.Node, j.Tasks = i%b.Nodes, append(j.Tasks, int32(i))
	}
	took, _, err := s.Stream(b, jobs)
	return took, err
}

// Stream runs jobs of tasks of a bag, and returns how long each job takes from its arrival.
func (s Sparrow) Stream(b *Bag, jobs []Arrival) (Took, []time.Duration, error) {
	r := &sparrow{world: newWorld(b, 0), s: s, probes: make([][]*request, b.Nodes)}
	list := make([]*request, len(jobs))
	for i, j := range jobs {
		list[i] = &request{at: j.At, home: r.nodes[j.Node], next: j.Tasks, left: len(j.Tasks)}
		r.At(j.At, func() { list[i].home.Do(func() { r.place(list[i]) }) })
	}
	took, err := r.took()
	responses := make([]time.Duration, len(list))
	for i, q := range list {
		responses[i] = q.took
	}
	return took, responses, err
}

// place sends the probes of a job. No node gets a second one before all nodes have one.
func (r *sparrow) place(q *request) {
	var order []int
	for range int(math.Ceil(r.s.Ratio * float64(len(q.next)))) {
		if len(order) == 0 {
			order = r.shuffled()
		}
		n := r.nodes[order[0]]
		if order = order[1:]; r.s.Early {
			n = r.nodes[r.dice.N(len(r.nodes))]
		}
		q.home.Work(r.s.Cost)
		r.send(q.home, n, 0, func() {
			r.probes[n.index] = append(r.probes[n.index], q)
			r.pull(n)
		})
	}
}

// shuffled is all nodes in a random order.
func (r *sparrow) shuffled() []int {
	order := make([]int, len(r.nodes))
	for i := range order {
		j := r.dice.N(i + 1)
		order[i] = order[j]
		order[j] = i
	}
	return order
}

// pull asks for a task in each free slot of a node. The slot waits for the answer.
func (r *sparrow) pull(n *node) {
	for n.free > 0 && len(r.probes[n.index]) > 0 {
		q := r.probes[n.index][0]
		r.probes[n.index] = r.probes[n.index][1:]
		n.free--
		r.send(n, q.home, r.s.Cost, func() {
			if len(q.next) == 0 {
				r.send(q.home, n, 0, func() {
					n.free++
					r.pull(n)
				})
				return
			}
			task := q.next[0]
			q.next = q.next[1:]
			r.send(q.home, n, 0, func() {
				n.free++
				n.start(task, func() { r.ended(n, q) })
			})
		})
	}
}

func (r *sparrow) ended(n *node, q *request) {
	if q.left--; q.left == 0 {
		q.took = r.Now() - q.at
	}
	r.pull(n)
}

// Stream makes jobs of so many tasks of one length that load the slots to a part, as a Poisson
// process, each at a random scheduler; and the bag of all these tasks.
func Stream(nodes, slots, jobs, tasks int, length time.Duration, load float64, seed uint64) (Bag, []Arrival) {
	b := Equal(1, 1, jobs*tasks, length)
	b.Name, b.Nodes, b.Slots, b.Seed = fmt.Sprintf("jobs of %d tasks of %v, load %.2f", tasks, length, load), nodes, slots, seed
	d := b.draws()
	gap, at := time.Duration(float64(length)*float64(tasks)/(load*float64(nodes*slots))), time.Duration(0)
	list := make([]Arrival, jobs)
	for i := range list {
		at += d.Exp(gap)
		list[i] = Arrival{At: at, Node: d.N(nodes)}
		for k := range tasks {
			list[i].Tasks = append(list[i].Tasks, int32(i*tasks+k))
		}
	}
	return b, list
}

// IdealResponses is how long jobs take if each task starts in the first free slot of all, in the
// order of arrival.
func IdealResponses(b *Bag, jobs []Arrival) []time.Duration {
	var ends filch.Timeline[int]
	took := make([]time.Duration, len(jobs))
	for i, j := range jobs {
		for _, task := range j.Tasks {
			at := j.At
			if ends.Len() == b.Nodes*b.Slots {
				end, _ := ends.Pop()
				at = max(at, end)
			}
			ends.Push(at+b.Lengths[task], i)
			took[i] = max(took[i], at+b.Lengths[task]-j.At)
		}
	}
	return took
}

// Median is the value in the middle.
func Median(list []time.Duration) time.Duration {
	list = slices.Clone(list)
	slices.Sort(list)
	return list[len(list)/2]
}
