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
