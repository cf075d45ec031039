package instance

import (
	"os"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// TestScenarios holds gathering against an ideal central queue, at a small
// size; FILCH_PROOF=1 is the full one.
func TestScenarios(t *testing.T) {
	hosts, slotsEach, halves := 128, 16, 20
	if os.Getenv("FILCH_PROOF") != "" {
		hosts, halves = 1024, 100
	}
	var results []*Result
	for _, s := range Scenarios(hosts, slotsEach, halves) {
		t.Run(s.Name, func(t *testing.T) {
			began := time.Now()
			r := s.Run()
			took := time.Since(began)
			results = append(results, r)
			t.Logf("%d events in %v, %.0f events/s", r.Events, took.Round(time.Millisecond), float64(r.Events)/took.Seconds())
			t.Logf("figure: %s: %d of %d started, makespan %.4f x FIFO, %.1f messages per node and job", s.Name, r.Started, r.Count, r.Ratio(), r.PerNode)
			for _, line := range r.Short() {
				t.Error(line)
			}
		})
	}
	Table(os.Stdout, results)
}

// TestRoundOneIsModest traces 64 nodes: the first round asks few, each lends
// at most half of its free room, and who fits at home asks nobody.
func TestRoundOneIsModest(t *testing.T) {
	for _, line := range RoundOne(engine.EachInput()) {
		t.Error(line)
	}
}

func TestNeverFits(t *testing.T) {
	w := NewWorld(Options{Seed: 1, Hosts: 8, Slots: 4, Links: engine.Quiet(), Calm: true})
	j := plain(&job{demand: demand{Submit: 1, Slots: 33, Runs: time.Second}}, 0)
	w.add(j)
	w.Run(time.Minute)
	if !j.refused || j.code != 125 {
		t.Errorf("33 ranks on 8 x 4 slots: refused %v with %d, want a refusal with 125", j.refused, j.code)
	}
	if j.endedAt > 50*time.Millisecond {
		t.Errorf("refused after %v, want at once", j.endedAt)
	}
}
