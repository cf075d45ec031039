package node_test

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// A gang that no nodes can hold is refused with the words that refuse a run of the same shape.
func TestAGangIsRefusedAsARunIs(t *testing.T) {
	for _, x := range []struct {
		name   string
		shape  launcher.Shape
		gang   record.Gang
		refuse string
	}{
		{"more ranks than two nodes hold", launcher.Shape{Ranks: 4, MinNodes: 2, MaxNodes: 2}, record.Gang{Ranks: 4, Nodes: 2, Most: 2}, "cannot run 4 ranks of 1 slot"},
		{"one rank too many", launcher.Shape{Ranks: 3, MinNodes: 2, MaxNodes: 2}, record.Gang{Ranks: 3, Nodes: 2, Most: 2}, "cannot run 3 ranks of 1 slot"},
		{"two ranks on each node", launcher.Shape{Ranks: 4, MinNodes: 2, MaxNodes: 2, PerNode: 2}, record.Gang{Ranks: 4, Nodes: 2, Most: 2, PerNode: 2}, "cannot run 4 ranks of 1 slot"},
		{"a range of nodes", launcher.Shape{Ranks: 4, MinNodes: 1, MaxNodes: 3}, record.Gang{Ranks: 4, Nodes: 1, Most: 3}, "cannot run 4 ranks of 1 slot"},
		{"GPUs of a node", launcher.Shape{Ranks: 2, MinNodes: 2, NodeGPUs: filch.GPU}, record.Gang{Ranks: 2, Nodes: 2, NodeGPUs: filch.GPU}, "1 GPU for its node"},
		{"four nodes", launcher.Shape{Ranks: 4, MinNodes: 2, MaxNodes: 4}, record.Gang{Ranks: 4, Nodes: 2, Most: 4}, ""},
		{"two ranks on two nodes", launcher.Shape{Ranks: 2, MinNodes: 2, MaxNodes: 2}, record.Gang{Ranks: 2, Nodes: 2, Most: 2}, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newNet(t, 4, 1)
			n1 := w.nodes["n1"]
			x.shape.PerRank = filch.Room{Slots: 1}
			var run *filch.Error
			n1.input(func(out *launcher.Outbox) {
				n1.node.Submit(w.Now(), 1, launcher.Request{Shape: x.shape}, 0, out)
				for _, r := range out.Replies {
					if no, is := r.Event.(launcher.Refused); is && no.Code == filch.ExitOurs {
						run = &no.Err
					}
				}
			})
			var task *filch.Error
			number := int32(-1)
			n1.input(func(out *launcher.Outbox) {
				one := record.Need{Each: filch.Room{Slots: 1}, Gang: x.gang}
				s := submit.Job{Total: 1, Spec: record.Spec{Each: one.Each, Needs: []record.Need{one}, CrashLimit: record.CrashLimit, Body: []byte{launcher.BodyOrder}}}
				n1.node.SubmitTasks(w.Now(), 2, s, 0, out)
				for _, r := range out.Replies {
					if no, is := r.Event.(launcher.TaskNews); is && no.What == launcher.TasksRefused {
						task, number = no.Err, no.Base-1
					}
				}
			})
			switch {
			case x.refuse == "":
				if run != nil || task != nil {
					t.Errorf("the run was refused with %v and the gang with %v, want neither", run, task)
				}
			case run == nil || task == nil || !strings.Contains(run.Text, x.refuse) || run.Text != task.Text || run.Hint != task.Hint || number != 1:
				t.Errorf("the run was refused with %v and the gang of need %d with %v, want %q for both and the need 1", run, number, task, x.refuse)
			}
		})
	}
}

// Gangs that lack nodes hold no place among the gangs that gather: not of a bag that came later,
// nor after the nodes are back.
func TestGangsThatLackNodesHoldNoPlace(t *testing.T) {
	w := newNet(t, 4, 1)
	w.behave = func(k *keeper) { k.at = 100 * ms }
	large := w.bag("n1", 1, 60, ofGangs(4, 4))
	w.run(2 * sec)
	w.crash("n4", true)
	w.declare("n4", filch.Dead)
	w.run(15 * sec)
	small := w.bag("n1", 2, 60, ofGangs(2, 2))
	if got := w.tally(small, 60*sec); got.OK != 60 {
		t.Errorf("the gangs that fit ended as %+v, want 60 ok", got)
	}
	w.restart("n4")
	w.declare("n4", filch.Up)
	if got := w.tally(large, 120*sec); got.OK != 60 {
		t.Errorf("the gangs that lacked a node ended as %+v, want 60 ok", got)
	}
}

// The gangs of a bag wait for a place among the gangs that gather, or lack nodes while gangs of
// another bag have the places: the bag says so.
func TestABagSaysWhyNoneOfItsGangsGathers(t *testing.T) {
	w := newNet(t, 3, 1)
	w.behave = func(k *keeper) { k.at = 60 * sec }
	w.submit("n3", 1, gang(3))
	w.run(sec)
	first := w.bag("n1", 2, 9, ofGangs(2, 2))
	w.run(sec)
	waits, lacks := w.bag("n1", 3, 9, ofGangs(2, 2)), w.bag("n1", 4, 9, ofGangs(3, 3))
	w.declare("n2", filch.Dead)
	w.run(sec)
	for id, want := range map[filch.JobID]string{
		waits: "on n1 at most 4 gangs gather slots at a time, and gangs of job " + first.String() + " do",
		lacks: "filch cannot use 3 nodes: 2 could take part; this ends when more nodes are there",
	} {
		if h := w.nodes["n1"].node.TasksHere(id); h.Gathers != 0 || h.Lacks != want {
			t.Errorf("job %d: %d gangs gather, and the others wait: %q, want %q", id, h.Gathers, h.Lacks, want)
		}
	}
}
