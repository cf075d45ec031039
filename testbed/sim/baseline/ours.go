package baseline

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/stealer"
	"github.com/filch-hpc/filch/testbed/sim/engine"
	"github.com/filch-hpc/filch/testbed/sim/instance"
	"github.com/filch-hpc/filch/testbed/sim/tasks"
)

// OursMax is the most nodes of a bag for the shipped cores: a larger run takes minutes.
const OursMax = 1024

// untilMax bounds the virtual time of the shipped cores.
const untilMax = 10_000 * time.Hour

// Ours runs a bag with the shipped cores; all tasks start at the first node.
func Ours(b *Bag, victims policy.Victims) (Took, error) {
	w := tasks.NewWorld(tasks.Options{Seed: b.Seed, Hosts: b.Nodes, Slots: int32(b.Slots), Links: engine.Quiet(), Shared: true, Cost: 2 * time.Microsecond, Victims: victims})
	w.Submit(0, submit.Job{Job: 1, Total: int32(len(b.Lengths))}, func(_ *engine.Dice, s mtc.Start) time.Duration { return b.Lengths[s.Index] })
	w.RunUntil(untilMax, w.AllFinished)
	if broken := w.Verdict(); len(broken) > 0 {
		return Took{}, fmt.Errorf("cannot run %s on %d nodes with the shipped cores: %v", b.Name, b.Nodes, broken)
	}
	sent := 0
	for _, n := range w.Stats.Messages { // any order
		sent += n
	}
	t := Took{Makespan: w.Stats.Finished[1], Variation: w.Spread(), Events: w.Steps()}
	t.Efficiency = float64(b.Ideal()) / float64(t.Makespan)
	t.Rate = float64(len(b.Lengths)) / t.Makespan.Seconds()
	t.Messages = float64(sent) / float64(len(b.Lengths))
	return t, nil
}

// slotsOfNode is the slots of a node that gangs take whole.
const slotsOfNode = 16

// OurGangs runs gangs with the shipped nodes: a job takes all slots of each of its nodes. A run
// with [stealer.ReleaseAll] ends after a minute.
func OurGangs(g *Gangs, p stealer.Policy) (Launched, error) {
	slots := make([]int, len(g.Sizes))
	for i, n := range g.Sizes {
		slots[i] = n * slotsOfNode
	}
	s := instance.Submitted(g.Name, g.Nodes, slotsOfNode, slots, g.Runs, g.Seed)
	if s.Policy = p; p.Kind == stealer.ReleaseAll {
		s.Until = time.Minute
	}
	r := s.Run()
	if len(r.Broken) > 0 {
		return Launched{}, fmt.Errorf("cannot run %s on %d shipped nodes: %v", g.Name, g.Nodes, r.Broken)
	}
	l := Launched{Jobs: r.Started, Makespan: r.Makespan, Events: r.Events, Messages: r.PerNode * float64(g.Nodes)}
	l.Rate = float64(l.Jobs) / max(l.Makespan.Seconds(), 1e-9)
	return l, nil
}
