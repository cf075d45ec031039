package record

import (
	"slices"
	"testing"

	"github.com/filch-hpc/filch"
)

// TestNamesOfTasksThatRunAgain keeps the names and numbers of tasks in a job that runs
// tasks of another job again.
func TestNamesOfTasksThatRunAgain(t *testing.T) {
	array := &Spec{First: 100, Step: 2}
	again := &Spec{First: 100, Step: 2, Again: []Pick{{5, 1}, {17, 3}, {40, 1}}}
	list := &Spec{Picks: []Pick{{1, 1}, {3, 1}, {5, 3}}, Again: []Pick{{2, 2}}}
	for _, c := range []struct {
		spec                *Spec
		index, name, number int32
	}{
		{array, 0, 0, 100},
		{array, 7, 7, 114},
		{again, 0, 5, 110},
		{again, 1, 17, 134},
		{again, 3, 19, 138},
		{again, 4, 40, 180},
		{list, 0, 2, 5},
		{list, 1, 3, 6},
		{&Spec{Again: []Pick{{9, 1}}}, 0, 9, 9},
	} {
		if got := c.spec.Name(c.index); got != c.name {
			t.Errorf("%+v: task %d is called %d, want %d", c.spec, c.index, got, c.name)
		}
		if got := c.spec.Number(c.index); got != c.number {
			t.Errorf("%+v: task %d has the number %d, want %d", c.spec, c.index, got, c.number)
		}
		if got, ok := c.spec.Index(c.name); got != c.index || !ok {
			t.Errorf("%+v: the name %d is task %d, %v, want %d", c.spec, c.name, got, ok, c.index)
		}
	}
	for _, name := range []int32{-1, 0, 4, 6, 16, 20, 41} {
		if i, ok := again.Index(name); ok {
			t.Errorf("no task is called %d, and it is task %d", name, i)
		}
	}
	for _, c := range []struct {
		spec        *Spec
		first, last int32
		want        []Pick
		lacks       int32
	}{
		{array, 3, 900, []Pick{{3, 898}}, -1},
		{again, 5, 5, []Pick{{0, 1}}, -1},
		{again, 17, 19, []Pick{{1, 3}}, -1},
		{again, 18, 18, []Pick{{2, 1}}, -1},
		{again, 5, 6, nil, 6},
		{again, 16, 17, nil, 16},
		{again, 18, 40, nil, 20},
	} {
		if got, lacks := c.spec.Indices(c.first, c.last); !slices.Equal(got, c.want) || lacks != c.lacks {
			t.Errorf("%d to %d are %v without %d, want %v without %d", c.first, c.last, got, lacks, c.want, c.lacks)
		}
	}
}

// TestNeedsWithGangs writes and reads a spec with tasks of both kinds.
func TestNeedsWithGangs(t *testing.T) {
	s := &Spec{Each: filch.Room{Slots: 1}, Needs: []Need{
		{Each: filch.Room{Slots: 2, MemBytes: 1 << 20}, Gang: Gang{Ranks: 4, Nodes: 2, Most: 3, PerNode: 4, NodeGPUs: 2000, Spare: 1}},
		{Each: filch.Room{Slots: 3}, Nodes: &filch.Nodes{Labels: "a100"}, Gang: Gang{Ranks: 2}},
		{Each: filch.Room{Slots: 4}, Nodes: &filch.Nodes{Labels: "a100"}},
	}}
	got, err := DecodeSpec(s.Encode())
	if err != nil {
		t.Fatal(err)
	}
	for i, slots := range []int32{1, 8, 6, 4} {
		if n := got.Need(i); n.Gang != s.Need(i).Gang || n.Room().Slots != slots || got.Room(i).Slots != slots || *got.Room(i) != n.Room() {
			t.Errorf("need %d: got %+v with the room %+v, want %+v with %d slots", i, n, got.Room(i), s.Need(i), slots)
		}
	}
	if n := got.Need(2).Nodes; n == nil || n.Labels != "a100" {
		t.Errorf("got the nodes %+v, want those with the label a100", n)
	}
}
