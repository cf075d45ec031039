package instance

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// fillRun has few nodes without faults run a bag of gangs, of which many fit on a node at
// a time, as small runs come and go.
func fillRun(seed uint64, looks engine.Looks) *World {
	d := engine.NewDice(seed, streamPlan)
	w := NewWorld(Options{Seed: seed, Hosts: 1 + d.N(3), Slots: int32(12 + d.N(5)), Links: engine.Quiet(), Looks: looks, Words: true, MaxSteps: 2e6})
	b := &bag{index: len(w.bags), submit: time.Millisecond, shortest: time.Second, longest: 3 * time.Second}
	s := &b.request
	s.Name, s.Follow, s.Total = "gangs", true, int32(8*len(w.hosts))*w.opt.Slots
	s.Spec = record.Spec{Body: taskBody(0), Each: filch.Room{Slots: 1}, CrashLimit: 100, Gang: record.Gang{Ranks: int32(1 + d.N(2))}}
	b.grow(s.Total)
	w.bags = append(w.bags, b)
	w.At(b.submit, func() { w.submitBag(b) })
	for i := range 4 {
		j := w.drawJob(d, i)
		j.request.Shape.PerRank, j.request.Shape.Ranks = filch.Room{Slots: 1}, 1
		j.Slots, j.Runs = 1, min(j.Runs, time.Second)
		j.trim()
		w.add(j)
	}
	w.At(idleEvery, w.checkIdle)
	w.Run(3 * time.Minute)
	if len(w.Broken()) == 0 {
		w.checkQuiet()
	}
	if len(w.Broken()) == 0 {
		w.checkBags()
	}
	return w
}

// TestGangsFillTheirNodes: no slot is idle while a gang waits that fits.
func TestGangsFillTheirNodes(t *testing.T) {
	for seed := range uint64(seedsWanted(t, 20)) {
		if seed == 20 {
			break
		}
		for _, v := range fillRun(seed+1, engine.LooksOf(seed+1)).Broken() {
			t.Errorf("seed %d: %v", seed+1, v)
		}
	}
}
