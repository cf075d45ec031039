package needs

import (
	"reflect"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
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
		got, err := table.Number(&c.own)
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
		if _, err := table.Number(&workflow.Need{CPUs: int32(i + 1)}); err != nil {
			t.Fatalf("need %d: %v", i, err)
		}
	}
	if _, err := table.Number(&workflow.Need{CPUs: 5000}); err == nil || !strings.Contains(err.Error(), "1025 different") {
		t.Errorf("one more is refused with %v", err)
	}
	if n, err := table.Number(&workflow.Need{CPUs: 3}); n != 2 || err != nil {
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
