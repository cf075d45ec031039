package baseline

import (
	"testing"
	"time"
)

// held runs a bag and fails the test if the run does not end.
func held(t *testing.T, b Bag, run func(*Bag) (Took, error)) Took {
	t.Helper()
	r, err := run(&b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// near fails the test if a figure differs from the paper's by more than a part.
func near(t *testing.T, what string, got, paper, part float64) {
	t.Helper()
	t.Logf("figure: %s: %.4g, the paper has %.4g", what, got, paper)
	if got < paper*(1-part) || got > paper*(1+part) {
		t.Errorf("%s: %.4g, want %.4g within %.0f %%", what, got, paper, 100*part)
	}
}

func TestSeedRepeats(t *testing.T) {
	for _, s := range Bags() {
		b := Equal(16, 4, 20, 64*time.Millisecond)
		if x, y := held(t, b, s.Run), held(t, b, s.Run); x != y {
			t.Errorf("%s: two runs of a seed took %v and %v", s.Name, x, y)
		}
	}
}

// TestFalkonThroughput: 487 tasks of no length a second (Falkon, 2007).
func TestFalkonThroughput(t *testing.T) {
	near(t, "tasks a second", held(t, Equal(64, 4, 20, 0), Falkon.Run).Rate, 487, 0.02)
}

// TestSlurmOneNodeJobs: 46 jobs of a node a second (DJL and SLURM++, 900 nodes).
func TestSlurmOneNodeJobs(t *testing.T) {
	near(t, "jobs a second", held(t, Equal(900, 1, 1, 0), Slurm.Run).Rate, 46, 0.02)
}

// TestMatrixLongTasks: the efficiency with tasks of a second that start at a node (MATRIX v1,
// 4.2.2 and 4.2.3): 97 % with 256 cores, 92 % with 2,048, 88 % with 4,096.
func TestMatrixLongTasks(t *testing.T) {
	for _, x := range []struct {
		nodes int
		paper float64
	}{{64, 0.97}, {512, 0.92}, {1024, 0.88}} {
		if testing.Short() && x.nodes > 64 {
			continue
		}
		r := held(t, Equal(x.nodes, 4, 1000, time.Second), Matrix.Run)
		near(t, "efficiency", r.Efficiency, x.paper, 0.04)
		if t.Logf("figure: variation %.4f, %.2f messages a task, %d events", r.Variation, r.Messages, r.Events); r.Variation >= 0.05 {
			t.Errorf("the tasks of nodes vary by %.3f, the paper has less than 0.05", r.Variation)
		}
	}
}

// TestMatrixShortTasks: more than 85 % with tasks of 64 ms (MATRIX v1, abstract).
func TestMatrixShortTasks(t *testing.T) {
	nodes := 1024
	if testing.Short() {
		nodes = 64
	}
	b := Equal(nodes, 4, 100, 64*time.Millisecond)
	b.Spread = true
	if r := held(t, b, Matrix.Run); r.Efficiency < 0.85 {
		t.Errorf("efficiency %.3f, the paper has at least 0.85", r.Efficiency)
	}
}
