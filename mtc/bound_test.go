package mtc

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// TestFreeNodeWithTheDataTakesBoundTasks: tasks that wait on a busy node, bound to the node, go to
// the node with their data when that node is free; tasks without data there stay.
func TestFreeNodeWithTheDataTakesBoundTasks(t *testing.T) {
	for _, c := range []struct {
		kind policy.Kind
		data string
	}{{policy.ADAGE, "n2"}, {policy.ADAGE, "n3"}, {policy.Auto, "n2"}} {
		data := c.data
		r := newRig(t, 2, 1, policy.Policy{Kind: c.kind})
		r.length = func(s Start) time.Duration {
			if s.Job == 1 && r.on == "n1" {
				return 20 * time.Second
			}
			return time.Second
		}
		r.submit(0, submit.Job{Job: 1, Total: 2})
		r.idle(500 * time.Millisecond)
		r.submit(0, submit.Job{Job: 2, Nodes: make([]record.GraphNode, 4)})
		r.idle(100 * time.Millisecond)
		q := &r.nodes[0].jobs[2].queue
		bound := q.Top(4)
		if len(bound) < 2 || len(r.nodes[1].running) != 1 {
			t.Fatalf("%d tasks wait on n1 and %d run on n2, want two at least and 1", len(bound), len(r.nodes[1].running))
		}
		for _, it := range bound {
			it.Inputs = []policy.Input{{Node: nodeName(int(data[1] - '1')), Bytes: 1 << 30}}
			q.Hold(&it)
			q.Dedicated.Push(it)
		}
		r.idle(12 * time.Second)
		there, want := 0, len(bound)
		for i := range bound {
			if r.task(2, bound[i].Index).By.Node == "n2" {
				there++
			}
		}
		if data == "n3" {
			want = 0
		}
		if there != want {
			t.Errorf("%s, data on %s: n2 ran %d of the %d bound tasks, want %d", c.kind, data, there, len(bound), want)
		}
		r.run(2, time.Minute)
	}
}

// TestBoundTaskIsOfferedOnce: a bound task that came back from its offer stays.
func TestBoundTaskIsOfferedOnce(t *testing.T) {
	q, space := queue.Ready{}, 1<<20
	for i := range int32(3) {
		q.Dedicated.Push(queue.Item{Index: i, Inputs: []policy.Input{{Node: "n2", Bytes: 10}, {Node: "n3", Bytes: 9}}})
	}
	if n := q.BoundFor("n2", 1); n != 2 {
		t.Errorf("%d tasks may go beside the one that starts next, want 2", n)
	}
	if n := q.BoundFor("n3", 0); n != 0 {
		t.Errorf("%d tasks may go to a node with less than half of their input", n)
	}
	cut := q.CutBound("n2", 2, &space)
	for _, it := range cut {
		q.Dedicated.Push(it)
	}
	if n := q.BoundFor("n2", 0); len(cut) != 2 || n != 1 {
		t.Errorf("%d tasks were offered, and %d may be offered again, want 2 and the one that was not", len(cut), n)
	}
}
