package report

import (
	"fmt"
	"slices"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
)

// A diamond: 0 before 1 and 2, both before 3; 1 took long.
func TestGraphKnowsStatesAndTheCriticalPath(t *testing.T) {
	f := newFlow(4)
	for i, name := range []string{"split", "slow", "quick", "join"} {
		f.named(int32(i), name)
	}
	done := func(i int32, us int64, s filch.State) {
		f.ended(i, &record.Task{State: s, TookUS: us, Began: 1, By: record.Owner{Node: "n1"}})
	}
	done(0, 1e6, filch.OK)
	done(2, 2e6, filch.OK)
	f.running(&launcher.RunningTask{Index: 1, Node: "n2", Took: 5})
	f.ended(9, &record.Task{State: filch.OK}) // outside of the job
	g := f.graph([][]int32{{}, {0}, {0}, {1, 2}})
	if g.LeftOut != 0 || g.Chain != 1+5+1.5 {
		t.Errorf("%d left out, a chain of %v s, want 7.5: the last task counts with the mean", g.LeftOut, g.Chain)
	}
	for i, v := range []graphTask{
		{0, "split", "ok", "n1", 1, 0, true, []int32{}},
		{1, "slow", "running", "n2", 5, 1, true, []int32{0}},
		{2, "quick", "ok", "n1", 2, 1, false, []int32{0}},
		{3, "join", "waiting", "", 0, 2, true, []int32{1, 2}},
	} {
		if fmt.Sprint(g.Tasks[i]) != fmt.Sprint(v) {
			t.Errorf("got %v, want %v", g.Tasks[i], v)
		}
	}
}

// A graph with more tasks than are drawn keeps the critical path and the tasks that failed.
func TestGraphIsBounded(t *testing.T) {
	const total, chain = 5000, 40
	f, parents := newFlow(total), make([][]int32, total)
	for i := range int32(total) {
		state := filch.OK
		if i >= total-3 {
			state = filch.Failed
		}
		f.ended(i, &record.Task{State: state, TookUS: 1e6, Began: 1})
		parents[i] = []int32{}
		if i >= 100 && i < 100+chain-1 {
			parents[i] = []int32{i + 1} // a parent comes later
		}
	}
	g := f.graph(parents)
	if len(g.Tasks) != maxGraph || g.LeftOut != total-maxGraph || g.Chain != chain {
		t.Fatalf("%d tasks, %d left out, a chain of %v s", len(g.Tasks), g.LeftOut, g.Chain)
	}
	critical, failed := 0, 0
	for k, v := range g.Tasks {
		if v.Critical {
			critical++
		}
		if v.State == "failed" {
			failed++
		}
		if slices.ContainsFunc(v.Parents, func(p int32) bool { return g.Tasks[p].Layer >= v.Layer }) || k > 0 && g.Tasks[k-1].Layer > v.Layer {
			t.Errorf("task %d of layer %d stands before a parent", v.Task, v.Layer)
		}
	}
	if critical != chain || failed != 3 {
		t.Errorf("%d critical and %d failed tasks, want %d and 3", critical, failed, chain)
	}
}

// Parents in a cycle, or outside of the job, end.
func TestGraphOfDamagedParents(t *testing.T) {
	f := newFlow(3)
	if g := f.graph([][]int32{{1}, {0}, {7}}); len(g.Tasks) != 3 || g.Tasks[2].Task != 2 || len(g.Tasks[2].Parents) != 0 {
		t.Errorf("got %+v", g)
	}
	var none *flow
	none.named(0, "x")
	none.ended(0, &record.Task{})
	none.running(&launcher.RunningTask{})
}
