package baseline

import "time"

// Hierarchy is Falkon with a client that sends the tasks to dispatchers in turn, each of which
// has its own nodes ("a naive hierarchical distribution of tasks", MATRIX v1, 4.2.2). A task never
// moves to another dispatcher.
type Hierarchy struct {
	Nodes  int           // of a dispatcher
	Client time.Duration // of the client for a task
	Cost   time.Duration // of a dispatcher for a task
}

// FalkonTree has a dispatcher for 64 nodes of four cores, with the cost of [Falkon]. The cost of
// the client is fitted to 18 % with 2,048 cores and tasks of a second.
var FalkonTree = Hierarchy{Nodes: 64, Client: 2700 * time.Microsecond, Cost: Falkon.Cost}

// branch is a dispatcher: its queue, and slots that wait for a task.
type branch struct {
	*node
	idle []*node
}

// Run runs a bag.
func (h Hierarchy) Run(b *Bag) (Took, error) {
	count := (b.Nodes + h.Nodes - 1) / h.Nodes
	w := newWorld(b, count+1)
	client := w.nodes[b.Nodes]
	list := make([]*branch, count)
	for i := range list {
		list[i] = &branch{node: w.nodes[b.Nodes+1+i]}
		for range b.Slots {
			list[i].idle = append(list[i].idle, w.nodes[i*h.Nodes:min((i+1)*h.Nodes, b.Nodes)]...)
		}
	}
	for i := range b.Lengths {
		client.Input(0, func() {
			client.work(h.Client, func() {
				d := list[i%count]
				w.send(client, d.node, 0, func() {
					d.queue = append(d.queue, int32(i))
					d.give(h.Cost)
				})
			})
		})
	}
	return w.took()
}

// give sends a task to a slot that waits.
func (d *branch) give(cost time.Duration) {
	if len(d.queue) == 0 || len(d.idle) == 0 {
		return
	}
	task, n := d.queue[0], d.idle[0]
	d.queue, d.idle = d.queue[1:], d.idle[1:]
	d.work(cost, func() {
		d.w.send(d.node, n, 0, func() {
			n.start(task, func() {
				d.w.send(n, d.node, 0, func() {
					d.idle = append(d.idle, n)
					d.give(cost)
				})
			})
		})
	})
}
