package baseline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/filch-hpc/filch/mtc/workflow"
)

// data has the workflow files, which are no part of the repository.
const data = "../../../../shared/data/dax"

func flow(t *testing.T, name string, nodes int) *Flow {
	t.Helper()
	f, err := os.Open(filepath.Join(data, name+".xml"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%v: the workflow files of Pegasus are absent", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g, err := workflow.Load(f, workflow.Options{Name: name + ".xml"})
	if err != nil {
		t.Fatal(err)
	}
	return NewFlow(g, nodes, 1)
}

// TestAdageCode: seconds of the authors' program in its own simulator (WorkflowSim, seed fixed) with
// 16, 64 and 256 nodes that run a task at a time. Nothing is fitted.
func TestAdageCode(t *testing.T) {
	for _, x := range []struct {
		name  string
		paper [3]float64
	}{
		{"CyberShake_1000", [3]float64{922, 307, 183}},
		{"Epigenomics_997", [3]float64{133709, 45564, 31221}},
		{"Inspiral_1000", [3]float64{7482, 2612, 1121}},
		{"Montage_1000", [3]float64{635, 316, 217}},
		{"Sipht_100", [3]float64{3421, 3421, 3421}},
	} {
		for k, n := range []int{16, 64, 256} {
			f := flow(t, x.name, n)
			r, err := AdageCode.Run(f)
			if err != nil {
				t.Fatal(err)
			}
			near(t, fmt.Sprintf("%s, %d nodes", x.name, n), r.Makespan.Seconds(), x.paper[k], 0.18)
			if least := f.List(true); r.Makespan < least*95/100 {
				t.Errorf("%s, %d nodes: %v, min-min takes %v: the paper's rule is behind", x.name, n, r.Makespan, least)
			}
		}
	}
}

// TestAdagePlanAlone: the same without work giving.
func TestAdagePlanAlone(t *testing.T) {
	alone := AdageCode
	alone.Gives = false
	for k, n := range []int{16, 64, 256} {
		r, err := alone.Run(flow(t, "CyberShake_1000", n))
		if err != nil {
			t.Fatal(err)
		}
		near(t, fmt.Sprintf("CyberShake_1000, %d nodes", n), r.Makespan.Seconds(), []float64{1541, 380, 187}[k], 0.16)
	}
}

// TestMinMinOfWorkflowSim: what min-min takes in the same simulator; transfers are the rest.
func TestMinMinOfWorkflowSim(t *testing.T) {
	for _, x := range []struct {
		name  string
		paper [3]float64
	}{
		{"CyberShake_1000", [3]float64{801, 271, 150}},
		{"Epigenomics_997", [3]float64{131016, 40499, 17029}},
		{"Inspiral_1000", [3]float64{7481, 1985, 707}},
		{"Montage_1000", [3]float64{519, 263, 196}},
		{"Sipht_100", [3]float64{2241, 2238, 2238}},
	} {
		for k, n := range []int{16, 64, 256} {
			near(t, fmt.Sprintf("%s, %d nodes", x.name, n), flow(t, x.name, n).List(true).Seconds(), x.paper[k], 0.15)
		}
	}
}

// TestFlowSeedRepeats: a chain of three tasks and twenty tasks beside it.
func TestFlowSeedRepeats(t *testing.T) {
	g := &workflow.Graph{Name: "chain"}
	for i := range int32(23) {
		task := workflow.Task{Cost: time.Duration(1+i%5) * time.Second}
		if i == 1 || i == 2 {
			task.Parents = []int32{i - 1}
		}
		g.Tasks = append(g.Tasks, task)
	}
	for _, a := range []Adage{AdageCode, AdagePrinted} {
		x, err := a.Run(NewFlow(g, 4, 1))
		if y, _ := a.Run(NewFlow(g, 4, 1)); x != y || err != nil || x.Makespan < NewFlow(g, 4, 1).Bound() {
			t.Errorf("%s: two runs of a seed took %v and %v, the bound is %v: %v", a.Name, x, y, NewFlow(g, 4, 1).Bound(), err)
		}
	}
}
