package mtc

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// The inputs of a workflow lie on the node of its submission. Under adage tasks stay there
// whose inputs take longer to move than the tasks wait, and tasks with small inputs spread
// (ADAGE, III).
func TestInitialInputsHoldTasks(t *testing.T) {
	const tasks, slots = 24, 2
	here := map[int64]int{}
	for _, bytes := range []int64{1 << 10, 20 << 30} {
		r := newRig(t, 4, slots, policy.Policy{Kind: policy.ADAGE, Victims: policy.NoStealing})
		r.length = slow(50 * time.Millisecond)
		var parents [][]int32
		for range tasks {
			parents = append(parents, nil)
		}
		nodes := workflow(parents...)
		for i := range nodes {
			nodes[i].Bytes, nodes[i].Length = bytes, 50*time.Millisecond
		}
		r.submit(1, submit.Job{Job: 1, Nodes: nodes})
		if got, want := r.run(1, time.Minute).Tally(), (record.Tally{OK: tasks}); got != want {
			t.Errorf("inputs of %d bytes: tally %+v, want %+v", bytes, got, want)
		}
		here[bytes] = r.byNode[filch.NodeName("n2")]
	}
	if small, large := here[1<<10], here[20<<30]; small > tasks*3/4 || large < tasks {
		t.Errorf("with small inputs %d of %d tasks ran where they were submitted, with large ones %d; want at most three of four, and all", small, tasks, large)
	}
}
