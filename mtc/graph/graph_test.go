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
