package needs

import (
	"reflect"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// TestNumbersOfNeeds: tasks with the same need share a number, and a value of a task's own
// stands in place of the job's.
func TestNumbersOfNeeds(t *testing.T) {
	job := &record.Spec{
		Each:  filch.Room{Slots: 2, MemBytes: 1 << 30, Named: "scratch=5"},
		Nodes: &filch.Nodes{Exclude: []filch.NodeName{"n9"}},
	}
	table := New(job)
	for i, c := range []struct {
		own  workflow.Need
		want int
		need record.Need
	}{
		{workflow.Need{CPUs: 1}, 0, record.Need{Each: filch.Room{Slots: 1, MemBytes: 1 << 30, Named: "scratch=5"}, Nodes: job.Nodes}},
		{workflow.Need{}, 1, record.Need{Each: job.Each, Nodes: job.Nodes}},
		{workflow.Need{CPUs: 2}, 1, record.Need{Each: job.Each, Nodes: job.Nodes}},
		{
			workflow.Need{GPUs: "a100:0.5", Constraint: "big|huge", Exclude: "n[1-2]", Resource: "license=2"},
			2,
			record.Need{
				Each:  filch.Room{Slots: 2, MemBytes: 1 << 30, GPUs: 500, Named: "license=2,scratch=5"},
				Nodes: &filch.Nodes{Exclude: []filch.NodeName{"n1", "n2"}, Labels: "(big|huge)&(a100)"},
			},
		},
		{
			workflow.Need{Nodelist: "n3", Resource: "scratch=7"},
			3,
			record.Need{Each: filch.Room{Slots: 2, MemBytes: 1 << 30, Named: "scratch=7"}, Nodes: &filch.Nodes{Only: []filch.NodeName{"n3"}, Exclude: []filch.NodeName{"n9"}}},
		},
	} {
		got, err := table.Number(&c.own, nil, "")
		if err != nil || got != c.want {
			t.Fatalf("task %d has the need %d (%v), want %d", i, got, err, c.want)
		}
		sp := *job
		if table.Fill(&sp); !reflect.DeepEqual(sp.Need(got), c.need) {
			t.Errorf("task %d takes %+v, want %+v", i, sp.Need(got), c.need)
		}
	}
	if len(job.Nodes.Exclude) != 1 || job.Nodes.Labels != "" {
		t.Errorf("the job's own nodes are %+v now", job.Nodes)
	}
}

func TestTooManyNeeds(t *testing.T) {
	table := New(&record.Spec{})
	for i := range record.MaxNeeds + 1 {
		if _, err := table.Number(&workflow.Need{CPUs: int32(i + 1)}, nil, ""); err != nil {
			t.Fatalf("need %d: %v", i, err)
		}
	}
	if _, err := table.Number(&workflow.Need{CPUs: 5000}, nil, ""); err == nil || !strings.Contains(err.Error(), "1025 different") {
		t.Errorf("one more is refused with %v", err)
	}
	if n, err := table.Number(&workflow.Need{CPUs: 3}, nil, ""); n != 2 || err != nil {
		t.Errorf("a known need is %d (%v), want 2", n, err)
	}
}

// TestNamed finds a key at every place around the end of a buffer.
func TestNamed(t *testing.T) {
	for at := 64<<10 - 20; at < 64<<10+20; at++ {
		for _, key := range keys {
			if is, err := Named(strings.NewReader(strings.Repeat(" ", at) + key)); !is || err != nil {
				t.Fatalf("%s at byte %d is not found (%v)", key, at, err)
			}
		}
	}
	if is, err := Named(strings.NewReader(strings.Repeat(`{"run": "some cpus"}`, 1e5))); is || err != nil {
		t.Errorf("a key is found where there is none (%v)", err)
	}
}

// TestGangsAmongNeeds: the least number of nodes of a gang is what its shape or its list of
// nodes asks for, and a gang shares no number with processes of the same room.
func TestGangsAmongNeeds(t *testing.T) {
	sp := &record.Spec{Each: filch.Room{Slots: 1}}
	table := New(sp)
	for i, c := range []struct {
		own   workflow.Need
		shape *launcher.Shape
		want  int
		gang  record.Gang
	}{
		{workflow.Need{}, nil, 0, record.Gang{}},
		{workflow.Need{}, &launcher.Shape{Ranks: 4}, 1, record.Gang{Ranks: 4}},
		{workflow.Need{}, &launcher.Shape{Ranks: 5, PerNode: 2, MinNodes: 2}, 2, record.Gang{Ranks: 5, Nodes: 3, PerNode: 2}},
		{workflow.Need{Nodelist: "n1,n3"}, &launcher.Shape{Ranks: 4}, 3, record.Gang{Ranks: 4, Nodes: 2}},
		{workflow.Need{}, &launcher.Shape{Ranks: 4, MaxNodes: 4}, 4, record.Gang{Ranks: 4, Most: 4}},
		{workflow.Need{}, &launcher.Shape{Ranks: 4, NodeGPUs: 2000, Spare: 1}, 5, record.Gang{Ranks: 4, NodeGPUs: 2000, Spare: 1}},
	} {
		got, err := table.Number(&c.own, c.shape, "")
		if table.Fill(sp); err != nil || got != c.want || sp.Need(got).Gang != c.gang {
			t.Errorf("task %d: got the need %d with %+v, %v, want %d with %+v", i, got, sp.Need(got).Gang, err, c.want, c.gang)
		}
	}
	for _, c := range []struct {
		shape launcher.Shape
		want  string
	}{
		{launcher.Shape{Ranks: 2}, "nodelist names 3 nodes for 2 ranks"},
		{launcher.Shape{Ranks: 8, MinNodes: 4, MaxNodes: 4}, "nodelist names 3 nodes, all of which a gang uses"},
		{launcher.Shape{Ranks: 8, MinNodes: 1, MaxNodes: 2}, "nodelist names 3 nodes, all of which a gang uses"},
	} {
		if _, err := table.Number(&workflow.Need{Nodelist: "n[1-3]"}, &c.shape, ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %s", c.shape, err, c.want)
		}
	}
}
