package baseline

import (
	"fmt"
	"math"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Bag is independent tasks, and the nodes that run the tasks.
type Bag struct {
	Name    string
	Nodes   int
	Slots   int // of each node
	Lengths []time.Duration
	Spread  bool // the tasks start at all nodes alike ("best case"); false: at the first ("worst case")
	Seed    uint64
}

// Equal is a bag with so many tasks a slot, all of one length.
func Equal(nodes, slots, each int, length time.Duration) Bag {
	b := Bag{Name: fmt.Sprintf("%d tasks of %v a slot", each, length), Nodes: nodes, Slots: slots, Lengths: make([]time.Duration, nodes*slots*each), Seed: 1}
	for i := range b.Lengths {
		b.Lengths[i] = length
	}
	return b
}

// SubSecond is a bag of tasks of 1 ms to 1 s, evenly by the logarithm of the length.
func SubSecond(nodes, slots, each int, seed uint64) Bag {
	b := Equal(nodes, slots, each, 0)
	b.Name, b.Seed = fmt.Sprintf("%d tasks of 1 ms to 1 s a slot", each), seed
	d := b.draws()
	for i := range b.Lengths {
		b.Lengths[i] = time.Duration(float64(time.Millisecond) * math.Pow(1000, d.Unit()))
	}
	return b
}

// draws are the dice that make a bag; the runs of the bag draw from other streams.
func (b *Bag) draws() *engine.Dice { return engine.NewDice(b.Seed, 9) }

// Ideal is the time in which all slots would do the work (MATRIX v1, 4.1.2).
func (b *Bag) Ideal() time.Duration {
	sum := time.Duration(0)
	for _, d := range b.Lengths {
		sum += d
	}
	return sum / time.Duration(b.Nodes*b.Slots)
}

// Took is the result of a bag.
type Took struct {
	Makespan   time.Duration
	Efficiency float64 // the ideal time by the makespan
	Rate       float64 // tasks a second
	Messages   float64 // by task
	Variation  float64 // of the tasks of a node: the standard deviation by the mean
	Events     uint64
}

// world runs a bag.
type world struct {
	*engine.Engine
	bag      *Bag
	dice     *engine.Dice
	nodes    []*node
	left     int // tasks that have not ended
	messages uint64
	makespan time.Duration
}

// node is a machine with slots.
type node struct {
	engine.Host
	w     *world
	index int
	free  int     // slots
	queue []int32 // ready tasks
	ran   int
}

// eventsMax bounds the events of a run.
const eventsMax = 500_000_000

// newWorld makes nodes, and more hosts behind these for schedulers.
func newWorld(b *Bag, more int) *world {
	w := &world{bag: b, left: len(b.Lengths)}
	n := b.Nodes + more
	w.Engine = engine.New(engine.Options{Seed: b.Seed, Hosts: n, Links: engine.Quiet(), Steps: eventsMax})
	w.dice = w.Dice(1)
	for i := range n {
		h := &node{w: w, index: i, free: b.Slots}
		w.Add(&h.Host, filch.NodeName(fmt.Sprint("n", i)))
		h.Start(0, func() {})
		w.nodes = append(w.nodes, h)
	}
	return w
}

// send sends a message. The receiver is busy with the message for the given time, and then
// calls f.
func (w *world) send(from, to *node, cost time.Duration, f func()) {
	w.messages++
	from.Send(&to.Host, func() { to.work(cost, f) })
}

// work makes a node busy for a time, then calls f.
func (n *node) work(cost time.Duration, f func()) {
	if n.Work(cost); cost == 0 {
		f()
		return
	}
	n.w.After(cost, f)
}

// start runs a task in a free slot, and calls then when the slot is free again.
func (n *node) start(task int32, then func()) {
	n.free--
	n.w.After(n.w.bag.Lengths[task], func() {
		n.free++
		n.ran++
		n.w.left--
		n.w.makespan = n.w.Now()
		then()
	})
}

// took runs the bag to its end.
func (w *world) took() (Took, error) {
	w.RunUntil(filch.Never, func() bool { return w.left == 0 })
	if broken := w.Broken(); len(broken) > 0 || w.left > 0 {
		return Took{}, fmt.Errorf("cannot run %s on %d nodes: %d tasks left, %v", w.bag.Name, w.bag.Nodes, w.left, broken)
	}
	n, sum, squares := float64(w.bag.Nodes), 0.0, 0.0
	for _, h := range w.nodes[:w.bag.Nodes] {
		sum += float64(h.ran)
		squares += float64(h.ran) * float64(h.ran)
	}
	t := Took{Makespan: w.makespan, Messages: float64(w.messages) / sum, Events: w.Steps()}
	t.Efficiency = float64(w.bag.Ideal()) / float64(w.makespan)
	t.Rate = sum / w.makespan.Seconds()
	t.Variation = math.Sqrt(max(squares/n-sum/n*sum/n, 0)) / (sum / n)
	return t, nil
}
