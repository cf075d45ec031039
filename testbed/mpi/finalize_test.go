//go:build root

package mpi_test

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/rig"
)

// TestStraightToFinalize launches 2+2 ranks that go straight to MPI_Finalize,
// over TCP, many times in a row: mpiexec.hydra hangs in 6 of 10.
func TestStraightToFinalize(t *testing.T) {
	launches := 20
	if rig.Full() {
		launches = 200
	}
	c := up(t, 2, 2)
	var longest time.Duration
	start := time.Now()
	for i := range launches {
		r := c.run(20*time.Second, "-n", "4", "-N", "2", program(t, "straight"))
		if r.code != 0 || r.stderr != "" {
			t.Fatalf("launch %d: %v", i+1, r)
		}
		longest = max(longest, r.took)
	}
	t.Logf("figure: %d launches of 2+2 ranks, 0 hangs: %v each, at most %v", launches, (time.Since(start) / time.Duration(launches)).Round(time.Millisecond), longest)
	c.gone(2*time.Second, 0, 1)
	c.whole(5*time.Second, 2)
}

// TestLate has rank 0 come to MPI_Finalize long after the others, who were let
// go meanwhile: no harm is done.
func TestLate(t *testing.T) {
	c := up(t, 2, 2)
	for _, what := range []string{"all", "split", "pair", "mute"} {
		t.Run(what, func(t *testing.T) {
			r := c.as(t).run(40*time.Second, "-n", "4", "-N", "2", program(t, "late"), "3", what)
			if r.code != 0 || r.stderr != "" {
				t.Error(r)
			}
		})
	}
}
