package instance

import (
	"os"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// TestBackfillDelaysNobody: tasks run in the slots that waiting runs hold, whatever their
// limits say, and the oldest run starts as if they did not.
func TestBackfillDelaysNobody(t *testing.T) {
	filled, halted, moved := 0, 0, 0
	for seed := range uint64(seedsWanted(t, 60)) {
		if seed == 60 {
			break
		}
		w := backfillRun(seed+1, engine.LooksOf(seed+1))
		for _, v := range w.Broken() {
			t.Errorf("seed %d: %v", seed+1, v)
		}
		filled, halted, moved = filled+w.fills.filled, halted+w.fills.halted, moved+w.fills.moved
	}
	if filled == 0 || halted == 0 || moved == 0 {
		t.Errorf("%d tasks began in held slots, %d were stopped, and %d offered to such slots: the seeds show nothing", filled, halted, moved)
	}
	t.Logf("figure: %d tasks began in held slots, %d of them were stopped; %d tasks were offered to such slots", filled, halted, moved)
}

// TestEnsemble holds gangs of half the cluster beside small tasks against an ideal central
// queue with backfill.
func TestEnsemble(t *testing.T) {
	e := Ensemble{Hosts: 64, Slots: 16, Gangs: 100, Tasks: 6250, GangRuns: 10 * time.Second, TaskRuns: time.Second, Seed: 1}
	if os.Getenv("FILCH_PROOF") != "" {
		e.Hosts, e.Tasks = 256, 25000
	}
	r := e.Run()
	t.Logf("figure: %d gangs beside %d tasks on %d nodes: makespan %.3f of an ideal queue with backfill", r.Gangs, r.Tasks, r.Hosts, r.Ratio())
	for _, line := range r.Short() {
		t.Error(line)
	}
}
