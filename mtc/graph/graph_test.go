package graph_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/graph"
	"github.com/filch-hpc/filch/mtc/record"
)

func TestGraphNamesTheCycle(t *testing.T) {
	names := []string{"fetch", "clean", "join", "plot", "free"}
	parents := [][]int32{{3}, {0}, {1, 4}, {2}, nil}
	g, err := graph.New(5, func(i int) []int32 { return parents[i] })
	if err != nil {
		t.Fatal(err)
	}
	order, cycle := g.Order()
	if order != nil || len(cycle) != 4 {
		t.Fatalf("order %v, cycle %v, want a cycle of 4", order, cycle)
	}
	text := graph.CycleError(cycle, func(i int32) string { return names[i] }).Error()
	for _, n := range names[:4] {
		if !strings.Contains(text, n) {
			t.Errorf("%q does not name %s", text, n)
		}
	}
	if strings.Contains(text, "free") {
		t.Errorf("%q names a task that is in no cycle", text)
	}
	if _, err := graph.New(1, func(int) []int32 { return []int32{1} }); err == nil {
		t.Error("a parent that does not exist was taken")
	}
}

// TestAfterCarriesNothing: of the parents of a task, the last ones only come before the task, and write
// no input. Their outputs are no inputs, and where the task ran there is no copy of them.
func TestAfterCarriesNothing(t *testing.T) {
	nodes := []record.GraphNode{{}, {Parents: []int32{0}, After: 1}, {Parents: []int32{0, 1}, After: 1}, {Parents: []int32{0, 0, 1}, After: 1}, {Parents: []int32{0}}}
	g, err := graph.Of(nodes)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := g.Readers(0), []int32{2, 3, 4}; !slices.Equal(got, want) || len(g.Children(0)) != 4 || len(g.Readers(1)) != 0 || len(g.Children(1)) != 2 {
		t.Errorf("task 0 has the readers %v, want %v; its children are %v, those of task 1 %v", got, want, g.Children(0), g.Children(1))
	}
	tr := graph.NewTracker(g, record.FailOn)
	if ready, _ := tr.End(0, filch.OK, 100, "n1"); !slices.Equal(ready, []int32{4, 1}) && !slices.Equal(ready, []int32{1, 4}) {
		t.Errorf("after task 0, tasks %v are ready", ready)
	}
	if tr.Read(1) != 0 || len(tr.Inputs(1)) != 0 {
		t.Errorf("task 1 reads %d bytes: %v", tr.Read(1), tr.Inputs(1))
	}
	tr.End(1, filch.OK, 7, "n2")
	for _, i := range []int32{2, 3} {
		if in := tr.Inputs(i); tr.Read(i) != 100 || len(in) != 1 || in[0].Node != "n1" || len(in[0].Copies) != 0 {
			t.Errorf("task %d reads %d bytes: %+v, want 100 at n1 alone", i, tr.Read(i), in)
		}
	}
}

// TestCopiesOfOutputs: a node where a child ran well has the outputs of the child's parents.
func TestCopiesOfOutputs(t *testing.T) {
	parents := [][]int32{nil, {0}, {0}, {0}, {0}, {0}}
	g, err := graph.New(len(parents), func(i int) []int32 { return parents[i] })
	if err != nil {
		t.Fatal(err)
	}
	tr := graph.NewTracker(g, record.FailOn)
	tr.End(0, filch.OK, 100, "n1")
	tr.End(1, filch.OK, 0, "n1")
	tr.End(2, filch.OK, 0, "n2")
	tr.End(3, filch.OK, 0, "n2")
	tr.End(4, filch.Failed, 0, "n3")
	in := tr.Inputs(5)
	if len(in) != 1 || in[0].Node != "n1" || !slices.Equal(in[0].Copies, []filch.NodeName{"n2"}) {
		t.Errorf("the inputs of the last task are %+v, want 100 bytes at n1 and a copy at n2", in)
	}
}
