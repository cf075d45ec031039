package baseline

import (
	"testing"
	"time"
)

// carried runs a pile and fails the test if the run does not end.
func carried(t *testing.T, p Pile, d Diffusion) (Took, int64) {
	t.Helper()
	r, moved, err := d.Run(&p)
	if err != nil {
		t.Fatal(err)
	}
	return r, moved
}

// TestMatrixAllPairs: efficiency with 200 cores, 250,000 tasks of 100 ms (MATRIX v2, figure 7): 91 % with
// active storage, to which the overhead is fitted, 75 % with data diffusion, less than 20 % with the parallel
// file system.
func TestMatrixAllPairs(t *testing.T) {
	nodes, files := 100, 500
	if testing.Short() {
		nodes, files = 20, 100
	}
	p := AllPairs(nodes, 2, files, 100*time.Millisecond)
	active, _ := carried(t, p, ActiveStorage)
	near(t, "efficiency, active storage", active.Efficiency, 0.91, 0.01)
	diffusing, moved := carried(t, p, DataDiffusion)
	if !testing.Short() {
		near(t, "efficiency, data diffusion", diffusing.Efficiency, 0.75, 0.15)
	}
	shared, all := carried(t, p, ParallelFS)
	if shared.Efficiency >= 0.2 || diffusing.Efficiency <= shared.Efficiency || moved >= all {
		t.Errorf("efficiency %.3f and %d bytes with data diffusion, %.3f and %d with the parallel file system", diffusing.Efficiency, moved, shared.Efficiency, all)
	}
}

// TestStacking: with data diffusion the time of a task falls with the locality, from far above 158 ms to
// near that; with the file system it stays (MATRIX v2, figure 4, 128 cores).
func TestStacking(t *testing.T) {
	var last time.Duration
	for _, locality := range []float64{1, 1.38, 2, 3, 4, 5, 10, 20, 30} {
		p := Stacking(64, 2, 50, locality)
		r, _ := carried(t, p, DataDiffusion)
		each := p.PerTask(r)
		t.Logf("figure: locality %v: %v a task", locality, each)
		if last > 0 && each > last+last/100 {
			t.Errorf("%v a task with locality %v, %v with less", each, locality, last)
		}
		if last = each; locality == 1 && each < 200*time.Millisecond {
			t.Errorf("%v a task with locality 1", each)
		}
	}
	near(t, "seconds of a task, locality 30", last.Seconds(), 0.158, 0.12)
	one, _ := carried(t, Stacking(64, 2, 50, 1), ParallelFS)
	if thirty, _ := carried(t, Stacking(64, 2, 50, 30), ParallelFS); thirty.Makespan != one.Makespan {
		t.Errorf("with the file system %v with locality 1, %v with 30", one.Makespan, thirty.Makespan)
	}
}

func TestPileSeedRepeats(t *testing.T) {
	a, _ := carried(t, Stacking(8, 2, 20, 2), DataDiffusion)
	if b, _ := carried(t, Stacking(8, 2, 20, 2), DataDiffusion); a != b {
		t.Errorf("two runs of a seed took %v and %v", a, b)
	}
}
