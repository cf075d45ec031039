package graph_test

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch/mtc/graph"
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
