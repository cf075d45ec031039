package baseline

import "time"

// Central is a dispatcher that hears of each end, and then sends the next task.
type Central struct {
	Cost time.Duration // of the dispatcher for a task
}

// Slurm starts 46 jobs of a node a second on 900 nodes (DJL and SLURM++).
var Slurm = Central{Cost: time.Second / 46}

// Falkon dispatches 487 tasks a second (Falkon, 2007).
var Falkon = Central{Cost: time.Second / 487}

// Run runs a bag.
func (c Central) Run(b *Bag) (Took, error) {
	w := newWorld(b, 1)
	master := w.nodes[b.Nodes]
	next := int32(0)
	var give func(n *node)
	give = func(n *node) {
		if int(next) == len(b.Lengths) {
			return
		}
		task := next
		next++
		master.work(c.Cost, func() {
			w.send(master, n, 0, func() {
				n.start(task, func() { w.send(n, master, 0, func() { give(n) }) })
			})
		})
	}
	// The dispatcher fills the nodes one after another, a slot of each at a time.
	master.Do(func() {
		for range b.Slots {
			for _, n := range w.nodes[:b.Nodes] {
				master.Input(0, func() { give(n) })
			}
		}
	})
	return w.took()
}
