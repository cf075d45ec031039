package mtc

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

func TestHeaviestInputFirst(t *testing.T) {
	var h queue.Heap
	for _, b := range []int64{5, 900, 1, 70, 900, 0, 33} {
		h.Push(queue.Item{Index: int32(len(h)), Bytes: b})
	}
	var got []string
	for len(h) > 0 {
		it := h.Pop()
		got = append(got, fmt.Sprintf("%d:%d", it.Bytes, it.Index))
	}
	if want := []string{"900:1", "900:4", "70:3", "33:6", "5:0", "1:2", "0:5"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// fatTree is a root with large output and many children: the case in which a
// rigid policy runs everything where the root ran (MATRIX v2, III.B.3d).
func fatTree(children int) []record.GraphNode {
	parents := [][]int32{nil}
	for range children {
		parents = append(parents, []int32{0})
	}
	return workflow(parents...)
}

func TestPoliciesPlaceDifferently(t *testing.T) {
	const children = 120
	byRoot := map[policy.Kind]int{}
	for _, kind := range []policy.Kind{policy.MLB, policy.MDL, policy.RLDS, policy.FLDS} {
		r := newRig(t, 4, 2, policy.Policy{Kind: kind, Threshold: 1 << 20, LocalTime: 100 * time.Millisecond})
		r.length = slow(20 * time.Millisecond)
		r.result = func(s Start) End { return End{Run: s.Run, State: filch.OK, Bytes: 64 << 20} }
		r.submit(0, submit.Job{Job: 1, Nodes: fatTree(children)})
		r.run(1, time.Minute)
		byRoot[kind] = r.byNode[r.task(1, 0).By.Node]
	}
	t.Logf("figure: tasks where the root ran: %v", byRoot)
	if byRoot[policy.MDL] != children+1 || byRoot[policy.RLDS] != children+1 {
		t.Errorf("mdl and rlds ran %d and %d of %d tasks where their data are", byRoot[policy.MDL], byRoot[policy.RLDS], children+1)
	}
	if byRoot[policy.MLB] > 2*children/4 {
		t.Errorf("mlb ran %d of %d tasks in one place", byRoot[policy.MLB], children+1)
	}
	if byRoot[policy.FLDS] >= byRoot[policy.RLDS] {
		t.Errorf("flds ran %d tasks where the data are, as many as rlds", byRoot[policy.FLDS])
	}
}

func TestPolicyChangesWhileRunning(t *testing.T) {
	r := newRig(t, 4, 2, policy.Policy{Kind: policy.MDL})
	r.length = slow(20 * time.Millisecond)
	r.result = func(s Start) End { return End{Run: s.Run, State: filch.OK, Bytes: 64 << 20} }
	r.submit(0, submit.Job{Job: 1, Nodes: fatTree(400)})
	r.idle(500 * time.Millisecond)
	at := r.node(r.task(1, 0).By.Node)
	q := at.Queues()
	if q.Dedicated == 0 || q.Shared != 0 {
		t.Fatalf("under mdl %+v, want all dedicated", q)
	}
	at.SetPolicy(r.now, policy.Policy{Kind: policy.MLB}, &at.out)
	r.act(at)
	if q := at.Queues(); q.Dedicated != 0 {
		t.Errorf("after the change to mlb %+v, want none dedicated", q)
	}
	r.run(1, time.Minute)
	if n := r.byNode[at.cfg.Self]; n > 300 {
		t.Errorf("%d of 401 tasks ran in one place although they were shared", n)
	}
}
