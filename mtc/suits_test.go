package mtc

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// kind tells all nodes the labels and the whole room of node i.
func (r *rig) kind(i int, labels filch.Labels, total filch.Room) {
	for _, o := range r.nodes {
		o.SetMember(r.now, filch.Member{Name: nodeName(i), Incarnation: 1, Labels: labels, Total: total}, &o.out)
		r.act(o)
	}
}

var bigMemory = filch.Room{Slots: 1, MemBytes: 64 << 30}

// TestTasksRunOnSuitableNodes submits bags on a node that does not suit them, while thieves
// of both kinds look for work.
func TestTasksRunOnSuitableNodes(t *testing.T) {
	for name, spec := range map[string]record.Spec{
		"labels":    {Nodes: &filch.Nodes{Labels: "a100&!slow"}},
		"named":     {Nodes: &filch.Nodes{Only: []filch.NodeName{"n3", "n4"}}},
		"excluded":  {Nodes: &filch.Nodes{Exclude: []filch.NodeName{"n1", "n2", "n5", "n6"}}},
		"memory":    {Each: bigMemory},
		"resources": {Each: filch.Room{Slots: 1, Named: "license=1"}},
		"graph":     {Nodes: &filch.Nodes{Labels: "a100,!slow"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 6, 1, policy.Policy{})
			wrong := 0
			r.length = func(s Start) time.Duration {
				if s.Job == 1 && r.on != "n3" && r.on != "n4" {
					wrong++
				}
				return time.Second
			}
			for i := range r.nodes {
				labels, total := filch.Labels(""), filch.Room{Slots: 1, MemBytes: 1 << 30}
				if i == 2 || i == 3 {
					labels, total = "a100", filch.Room{Slots: 1, MemBytes: 128 << 30, Named: "license=1"}
				}
				if i == 5 {
					labels = "a100,slow"
				}
				r.kind(i, labels, total)
				r.nodes[i].SetRoom(r.now, total, &r.nodes[i].out)
				r.act(r.nodes[i])
			}
			r.idle(time.Minute)
			s := submit.Job{Job: 1, Total: 20, Spec: spec}
			if name == "graph" {
				s.Total = 0
				for range 20 {
					s.Nodes = append(s.Nodes, record.GraphNode{})
				}
			}
			r.submit(0, s)
			r.submit(0, submit.Job{Job: 2, Total: 20}) // behind the first, for every node
			began := r.now
			j := r.run(1, time.Minute)
			if took := r.now - began; j.Tally().OK != 20 || took > 16*time.Second {
				t.Errorf("%+v after %v: want 20 ok on two nodes within 16s", j.Tally(), took)
			}
			if k := r.run(2, time.Minute); k.Tally().OK != 20 {
				t.Errorf("the bag behind: %+v", k.Tally())
			}
			if wrong > 0 {
				t.Errorf("%d tasks started on nodes that do not suit them", wrong)
			}
		})
	}
}

// TestTasksWaitForASuitableNode submits a bag that suits no node, until a node of the kind
// joins. Meanwhile the bag keeps no other from the slots.
func TestTasksWaitForASuitableNode(t *testing.T) {
	r := newRig(t, 4, 1, policy.Policy{})
	r.kind(3, "", filch.Room{Slots: 1})
	r.submit(0, submit.Job{Job: 1, Total: 5, Spec: record.Spec{Nodes: &filch.Nodes{Labels: "v100"}}})
	r.submit(0, submit.Job{Job: 2, Total: 50})
	if k := r.run(2, time.Minute); k.Tally().OK != 50 {
		t.Fatalf("the bag behind: %+v", k.Tally())
	}
	r.idle(5 * time.Minute)
	if len(r.started) != 50 {
		t.Fatalf("%d tasks started, want 50", len(r.started))
	}
	r.kind(3, "v100", filch.Room{Slots: 1})
	if j := r.run(1, 10*time.Second); j.Tally().OK != 5 || r.byNode["n4"] < 5 {
		t.Errorf("%+v, starts %v: want 5 ok on n4", j.Tally(), r.byNode)
	}
}

// differ submits a job whose task i has the need of the i-th number, as a bag or a graph.
func (r *rig) differ(node int, id filch.JobID, graph bool, spec record.Spec, needs []byte) {
	for _, d := range r.nodes {
		d.cfg.Need = func(line []byte) int { return int(line[0]) }
	}
	s := submit.Job{Job: id, Spec: spec}
	for _, n := range needs {
		if graph {
			s.Nodes = append(s.Nodes, record.GraphNode{Body: []byte{n}})
			continue
		}
		s.Total++
		s.Spec.Payloads = true
		s.Lines = append(s.Lines, []byte{n})
	}
	r.submit(node, s)
}

// TestTasksTakeTheirOwnRoom runs tasks of one slot and a task of four slots on a node of
// four slots: the small tasks run side by side.
func TestTasksTakeTheirOwnRoom(t *testing.T) {
	r := newRig(t, 1, 4, policy.Policy{})
	r.length = func(s Start) time.Duration {
		if s.Room().Slots != map[byte]int32{0: 1, 1: 4}[s.Payload[0]] {
			t.Errorf("task %d takes %d slots", s.Index, s.Room().Slots)
		}
		return time.Second
	}
	spec := record.Spec{Each: filch.Room{Slots: 1}, Needs: []record.Need{{Each: filch.Room{Slots: 4}}}}
	r.differ(0, 1, false, spec, []byte{0, 0, 0, 1, 0, 0, 0})
	began := r.now
	// The large task runs alone: before it and behind it, three small ones.
	j := r.run(1, time.Minute)
	if took := r.now - began; j.Tally().OK != 7 || took < 3*time.Second || took > 3200*time.Millisecond {
		t.Errorf("%+v after %v: want 7 ok in 3 s", j.Tally(), took)
	}
}

// TestTasksOfOneJobRunOnNodesOfTheirKind submits a job on a node that suits some of the
// tasks. Other tasks suit other nodes, which other jobs keep busy for a while.
func TestTasksOfOneJobRunOnNodesOfTheirKind(t *testing.T) {
	for _, graph := range []bool{false, true} {
		t.Run(fmt.Sprintf("graph-%v", graph), func(t *testing.T) {
			r := newRig(t, 5, 2, policy.Policy{})
			for i, m := range []filch.Member{{}, {}, {Labels: "a100"}, {Labels: "v100"}, {}} {
				total := filch.Room{Slots: 2, MemBytes: 1 << 30}
				if i == 4 {
					total.Named = "license=1"
				}
				r.kind(i, m.Labels, total)
				r.nodes[i].SetRoom(r.now, total, &r.nodes[i].out)
				r.act(r.nodes[i])
			}
			r.submit(3, submit.Job{Job: 2, Total: 10})
			spec := record.Spec{Each: filch.Room{Slots: 1}, Needs: []record.Need{
				{Each: filch.Room{Slots: 2}},
				{Each: filch.Room{Slots: 1}, Nodes: &filch.Nodes{Labels: "a100"}},
				{Each: filch.Room{Slots: 1}, Nodes: &filch.Nodes{Labels: "v100"}},
				{Each: filch.Room{Slots: 1, Named: "license=1"}},
				{Each: filch.Room{Slots: 1}, Nodes: &filch.Nodes{Only: []filch.NodeName{"n1", "n2"}}},
			}}
			where := []string{"n1 n2 n3 n4 n5", "n1 n2 n3 n4 n5", "n3", "n4", "n5", "n1 n2"}
			r.length = func(s Start) time.Duration {
				if s.Job == 1 {
					line := s.Payload
					if graph {
						n, err := record.DecodeGraphNode(line)
						if err != nil {
							t.Fatal(err)
						}
						line = n.Body
					}
					if !slices.Contains(strings.Fields(where[line[0]]), string(r.on)) || s.Room() != spec.Need(int(line[0])).Each {
						t.Errorf("task %d with the need %d started on %s with %+v", s.Index, line[0], r.on, s.Room())
					}
				}
				return time.Second
			}
			var needs []byte
			for i := range 60 {
				needs = append(needs, byte(i%6))
			}
			r.differ(0, 1, graph, spec, needs)
			began := r.now
			// Ten tasks run on the node with the license, one at a time.
			if j := r.run(1, time.Minute); j.Tally().OK != 60 || r.now-began > 25*time.Second {
				t.Errorf("%+v after %v: want 60 ok within 25 s", j.Tally(), r.now-began)
			}
		})
	}
}

// TestUnfitTasksHaveTheirEnds cancels a job with tasks that no node may run, and one such
// task alone.
func TestUnfitTasksHaveTheirEnds(t *testing.T) {
	r := newRig(t, 3, 1, policy.Policy{})
	spec := record.Spec{Each: filch.Room{Slots: 1}, Needs: []record.Need{{Nodes: &filch.Nodes{Labels: "v100"}}}}
	r.differ(0, 1, false, spec, []byte{1, 0, 1, 0, 1})
	r.idle(10 * time.Second)
	if len(r.started) != 2 {
		t.Fatalf("%d tasks started, want 2", len(r.started))
	}
	d := r.nodes[1]
	d.Order(r.now, 1, record.Orders{Cancels: []record.Pick{{From: 2, Count: 1}}}, &d.out)
	r.act(d)
	r.idle(10 * time.Second)
	if got := r.task(1, 2).State; got != filch.Cancelled {
		t.Errorf("the cancelled task is %v", got)
	}
	d.Cancel(r.now, 1, "", &d.out)
	r.act(d)
	if j := r.run(1, 10*time.Second); j.Tally().OK != 2 || j.Tally().Cancelled != 3 {
		t.Errorf("%+v: want 2 ok, 3 cancelled", j.Tally())
	}
}
