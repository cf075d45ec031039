package baseline

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Gangs are jobs that need whole nodes, all submitted at the begin.
type Gangs struct {
	Name  string
	Nodes int
	Sizes []int         // nodes of each job
	Runs  time.Duration // of each job
	Seed  uint64
}

// Between is jobs of low to high nodes, drawn evenly.
func Between(nodes, jobs, low, high int, runs time.Duration) Gangs {
	g := Gangs{Name: fmt.Sprintf("%d jobs of %d-%d nodes", jobs, low, high), Nodes: nodes, Runs: runs, Seed: 1}
	d := engine.NewDice(g.Seed, 9)
	for range jobs {
		g.Sizes = append(g.Sizes, low+d.N(high-low+1))
	}
	return g
}

// Ideal is the makespan of no scheduler: the work by the nodes.
func (g *Gangs) Ideal() time.Duration {
	sum := time.Duration(0)
	for _, n := range g.Sizes {
		sum += time.Duration(n) * g.Runs
	}
	return sum / time.Duration(g.Nodes)
}

// Launched is the result of gangs.
type Launched struct {
	Jobs     int // that ended
	Makespan time.Duration
	Rate     float64 // jobs a second
	Messages float64 // by job
	Store    float64 // of these, to and from a store of free nodes
	Events   uint64
}

// Efficiency is the part of the nodes that jobs used until the makespan.
func (g *Gangs) Efficiency(l *Launched) float64 {
	part := float64(l.Jobs) / float64(len(g.Sizes)) // as if the jobs that ended were like all
	return part * float64(g.Ideal()) / float64(max(l.Makespan, 1))
}

// newGangs makes the controllers of gangs.
func newGangs(g *Gangs, controllers int) *world {
	w := newWorld(&Bag{Name: g.Name, Nodes: controllers, Seed: g.Seed}, 0)
	w.left = len(g.Sizes)
	return w
}

// launched runs gangs until all jobs ended, or until a moment.
func (w *world) launched(g *Gangs, until time.Duration) (Launched, error) {
	w.RunUntil(until, func() bool { return w.left == 0 })
	if broken := w.Broken(); len(broken) > 0 {
		return Launched{}, fmt.Errorf("cannot run %s on %d nodes: %v", g.Name, g.Nodes, broken)
	}
	l := Launched{Jobs: len(g.Sizes) - w.left, Makespan: w.makespan, Events: w.Steps()}
	l.Rate = float64(l.Jobs) / max(l.Makespan.Seconds(), 1e-9)
	l.Messages = float64(w.messages) / float64(len(g.Sizes))
	return l, nil
}

// over notes the end of a job.
func (w *world) over() {
	w.left--
	w.makespan = w.Now()
}

// Controller is a central controller that starts jobs in the order of submission, one at a time.
type Controller struct {
	Job  time.Duration // of the controller for a job
	Node time.Duration // more for each node of the job
}

// Slurmctld is Slurm with 900 nodes: fitted to 46 jobs a second of a node, 7.5 of 1-50 nodes and
// 2.25 of 50-100 nodes (DJL and SLURM++), with the least greatest deviation.
var Slurmctld = Controller{Job: 17 * time.Millisecond, Node: 5200 * time.Microsecond}

// Run runs gangs.
func (c Controller) Run(g *Gangs) (Launched, error) {
	w := newGangs(g, 1)
	next, free := 0, g.Nodes
	var start func()
	start = func() {
		if next == len(g.Sizes) || g.Sizes[next] > free {
			return
		}
		n := g.Sizes[next]
		next++
		free -= n
		w.messages += 2 * uint64(n) // launch and end
		w.nodes[0].work(c.Job+time.Duration(n)*c.Node, func() {
			w.After(g.Runs, func() {
				free += n
				w.over()
				w.nodes[0].Do(start)
			})
			w.nodes[0].Do(start)
		})
	}
	w.nodes[0].Do(start)
	return w.launched(g, untilMax)
}
