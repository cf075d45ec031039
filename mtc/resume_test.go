package mtc

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// The nodes of an instance end one after the other. Those that live last may skip a
// workflow's tasks for a task that failed only since other nodes had ended; and the
// mirror that tells of the failure may be behind the one that tells of the skipping.
func TestResumeJudgesSkippedTasksAnew(t *testing.T) {
	ok := record.Task{State: filch.OK, Attempt: 1, Started: true, By: na}
	runs := record.Task{Attempt: 1, Started: true, Owner: na}
	failed := record.Task{State: filch.Failed, Code: 1, Attempt: 1, Started: true, By: na}
	noInput := record.Task{State: filch.Failed, Code: filch.ExitOurs, Attempt: 2, Started: true, By: na}
	skipped := record.Task{State: filch.Skipped, Attempt: 1, By: na}
	for _, c := range []struct {
		name   string
		anew   bool          // what tasks wrote was on the nodes
		tasks  []record.Task // of the chain a, b, c
		begin  []int32
		want   filch.State
		forgot int32
	}{
		{"failure in no mirror", false, []record.Task{ok, runs}, []int32{1, 2}, filch.OK, 0},
		{"failure in no mirror, one skipped", false, []record.Task{ok, runs, skipped}, []int32{1, 2}, filch.OK, 0},
		{"failure in no mirror, anew", true, []record.Task{ok, runs, skipped}, []int32{0, 1, 2}, filch.OK, 1},
		{"inputs gone with their node, anew", true, []record.Task{ok, noInput}, []int32{0, 1, 2}, filch.OK, 1},
		{"failed", false, []record.Task{ok, failed}, nil, filch.Failed, 0},
		{"failed, anew", true, []record.Task{ok, failed}, nil, filch.Failed, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b []byte
			b = queue.AppendLine(b, record.KeyJob(4), (&record.Job{Total: 3, Closed: true, Graph: true, Void: filch.Skipped}).Encode())
			b = queue.AppendLine(b, record.KeySpec(4), (&record.Spec{OnFail: record.FailStop, Payloads: true}).Encode())
			var p record.Payload
			for i, n := range []record.GraphNode{{Name: "a"}, {Name: "b", Parents: []int32{0}}, {Name: "c", Parents: []int32{1}}} {
				p.Offs, p.Lines = append(p.Offs, uint8(i)), append(p.Lines, n.Encode())
			}
			b = queue.AppendLine(b, record.KeyPayload(4, 0), p.Encode())
			blk := record.Block{Tasks: c.tasks}
			for i := range c.tasks {
				blk.Offs = append(blk.Offs, uint8(i))
			}
			b = queue.AppendLine(b, record.KeyBlock(4, 0), blk.Encode())
			left := recoveredFrom(t, b)
			j := left.Jobs()[0]
			if c.anew {
				if got := j.Forget(); got != c.forgot {
					t.Errorf("%d tasks that had ended well are done again, want %d", got, c.forgot)
				}
			}
			j.Settle()
			r := newRig(t, 2, 2, policy.Policy{})
			restore(t, r, left)
			r.act(r.nodes[0])
			end := r.run(4, time.Minute)
			if end.State() != c.want {
				t.Errorf("the workflow is %v (%+v), want %v", end.State(), end.Tally(), c.want)
			}
			var began []int32
			for _, s := range r.started {
				began = append(began, s.Index)
			}
			if !slices.Equal(began, c.begin) {
				t.Errorf("tasks %v were started, want %v", began, c.begin)
			}
		})
	}
}
