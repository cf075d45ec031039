package mtc

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch/mtc/graph"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

func TestGraphOfAMillion(t *testing.T) {
	const n = 1_000_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	begin := time.Now()
	var two [2]int32
	g, err := graph.New(n, func(i int) []int32 {
		if i < 2 {
			return nil
		}
		two = [2]int32{int32(i) - 1 - int32(i)%2, int32(i / 2)}
		return two[:]
	})
	if err != nil {
		t.Fatal(err)
	}
	order, cycle := g.Order()
	k := graph.NewTracker(g, record.FailSkip)
	took := time.Since(begin)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if len(order) != n || cycle != nil {
		t.Fatalf("%d of %d in order, cycle %v", len(order), n, cycle)
	}
	t.Logf("figure: %d tasks, %d edges in %v, %d MiB", n, 2*(n-2), took, (after.HeapAlloc-before.HeapAlloc)>>20)
	if b := (after.HeapAlloc - before.HeapAlloc) / n; b > 200 {
		t.Errorf("%d bytes a task", b)
	}
	if took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	ready := 0
	for _, i := range order {
		if !k.Ready(i) {
			t.Fatalf("task %d is not ready in order", i)
		}
		r, _ := k.End(i, filch.OK, 0, "n1")
		ready += len(r)
		if again, _ := k.End(i, filch.OK, 0, "n1"); len(again) > 0 {
			t.Fatalf("the end of task %d counted twice", i)
		}
	}
	left := 0
	for i := range int32(n) {
		if !k.Has(i) {
			left++
		}
	}
	if left != 0 || ready < n-3 {
		t.Errorf("%d tasks left, %d became ready", left, ready)
	}
}

// nodes makes a workflow from lists of parents.
func workflow(parents ...[]int32) (nodes []record.GraphNode) {
	for i, p := range parents {
		nodes = append(nodes, record.GraphNode{Name: fmt.Sprint("t", i), Parents: p, Body: fmt.Appendf(nil, "body %d", i)})
	}
	return nodes
}

func TestWorkflowKeepsOrder(t *testing.T) {
	const n = 600
	var parents [][]int32
	for i := range int32(n) {
		switch {
		case i == 0:
			parents = append(parents, nil)
		case i%7 == 0:
			parents = append(parents, []int32{i - 1, i / 2, i / 3})
		default:
			parents = append(parents, []int32{i / 2})
		}
	}
	for _, kind := range []policy.Kind{policy.MLB, policy.MDL, policy.RLDS, policy.FLDS, policy.ADAGE, policy.Auto} {
		t.Run(kind.String(), func(t *testing.T) {
			r := newRig(t, 5, 3, policy.Policy{Kind: kind, Threshold: 1000})
			r.length = slow(3 * time.Millisecond)
			r.result = func(s Start) End {
				return End{Run: s.Run, State: filch.OK, Bytes: int64(s.Index) * 10}
			}
			ended := map[int32]bool{}
			r.submit(0, submit.Job{Job: 1, Nodes: workflow(parents...)})
			checked := 0
			limit := time.Minute
			for r.step(limit) {
				for ; checked < len(r.started); checked++ {
					s := r.started[checked]
					for _, p := range parents[s.Index] {
						if r.task(1, p).State != filch.OK {
							t.Errorf("task %d began before the end of %d was recorded", s.Index, p)
						}
					}
					node, err := record.DecodeGraphNode(s.Payload)
					if err != nil || string(node.Body) != fmt.Sprintf("body %d", s.Index) || !slices.Equal(node.Parents, parents[s.Index]) && len(node.Parents) > 0 {
						t.Errorf("task %d was given %q, %v", s.Index, s.Payload, err)
					}
					if len(s.Inputs) != len(parents[s.Index]) {
						t.Errorf("task %d has %d inputs, want %d", s.Index, len(s.Inputs), len(parents[s.Index]))
					}
					ended[s.Index] = true
				}
				if j := r.job(1); j != nil && j.Finished() {
					break
				}
			}
			if len(ended) != n || r.job(1).Tally().OK != n {
				t.Errorf("%d tasks ran, tally %+v", len(ended), r.job(1).Tally())
			}
			r.checkAttempts(1, n)
		})
	}
}

func TestFailedTaskSkipsDependents(t *testing.T) {
	for _, mode := range []record.FailMode{record.FailSkip, record.FailStop, record.FailOn} {
		r := newRig(t, 2, 1, policy.Policy{})
		r.length = slow(time.Millisecond)
		r.result = func(s Start) End {
			if s.Index == 1 {
				return End{Run: s.Run, State: filch.Failed, Code: 7}
			}
			return End{Run: s.Run, State: filch.OK}
		}
		// 0 -> 1 -> 3 -> 4, 0 -> 2 -> 4, and a long tail behind 2.
		r.submit(0, submit.Job{Job: 1, Spec: record.Spec{OnFail: mode}, Nodes: workflow(
			nil, []int32{0}, []int32{0}, []int32{1}, []int32{2, 3}, []int32{2}, []int32{5}, []int32{6})})
		got := r.run(1, time.Minute).Tally()
		switch mode {
		case record.FailSkip:
			if want := (record.Tally{OK: 5, Failed: 1, Skipped: 2}); got != want {
				t.Errorf("skip: %+v, want %+v", got, want)
			}
		case record.FailStop:
			if got.Failed != 1 || got.Skipped < 4 || got.Sum() != 8 {
				t.Errorf("stop: %+v, want 1 failed and what had not begun skipped", got)
			}
		case record.FailOn:
			if want := (record.Tally{OK: 7, Failed: 1}); got != want {
				t.Errorf("go on: %+v, want %+v", got, want)
			}
		}
		r.checkAttempts(1, 8)
	}
}

func TestWorkflowOutlivesItsNodes(t *testing.T) {
	var parents [][]int32
	for i := range int32(300) {
		switch {
		case i < 10:
			parents = append(parents, nil)
		case i%11 == 0:
			parents = append(parents, []int32{i - 10, i - 7, i - 3})
		default:
			parents = append(parents, []int32{i - 10})
		}
	}
	for victim := range 4 {
		for _, once := range []bool{false, true} {
			t.Run(fmt.Sprintf("node-%d/once-%v", victim, once), func(t *testing.T) {
				r := newRig(t, 4, 2, policy.Policy{})
				r.length = slow(20 * time.Millisecond)
				r.submit(0, submit.Job{Job: 1, Spec: record.Spec{Once: once}, Nodes: workflow(parents...)})
				r.idle(300 * time.Millisecond)
				r.kill(victim, time.Second)
				got := r.run(1, time.Minute).Tally()
				if !once && got.OK != 300 {
					t.Errorf("tally %+v, want 300 ok", got)
				}
				if once && (got.Sum() != 300 || got.Lost > 4) {
					t.Errorf("tally %+v, want 300 ends, few lost", got)
				}
				r.checkAttempts(1, 300)
			})
		}
	}
}

func TestCancelWorkflow(t *testing.T) {
	var parents [][]int32
	for i := range int32(1000) {
		if i == 0 {
			parents = append(parents, nil)
		} else {
			parents = append(parents, []int32{(i - 1) / 3})
		}
	}
	r := newRig(t, 3, 2, policy.Policy{})
	r.length = slow(20 * time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Nodes: workflow(parents...)})
	r.idle(200 * time.Millisecond)
	d := r.nodes[1]
	d.Cancel(r.now, 1, "", &d.out)
	r.act(d)
	j := r.run(1, 10*time.Second)
	if j.State() != filch.Cancelled || j.Tally().Sum() != 1000 {
		t.Errorf("%v %+v, want 1000 ends and cancelled", j.State(), j.Tally())
	}
}

// An open bag whose leader dies takes more tasks, and ends when it is closed.
func TestOpenBagOutlivesItsLeader(t *testing.T) {
	r := newRig(t, 3, 2, policy.Policy{})
	r.length = slow(5 * time.Millisecond)
	lines := func(n int) (l [][]byte) {
		for i := range n {
			l = append(l, fmt.Appendf(nil, "line %d", i))
		}
		return l
	}
	r.submit(0, submit.Job{Job: 1, Total: 40, Open: true, Lines: lines(40), Spec: record.Spec{Payloads: true}})
	r.idle(20 * time.Millisecond)
	r.kill(0, 3*time.Second)
	r.idle(time.Second)
	for token := range int32(2) {
		d := r.nodes[1+token]
		if err := d.Add(r.now, 1, token+1, 30, lines(30), &d.out); err != nil {
			t.Fatal(err)
		}
		r.act(d)
		r.idle(2 * time.Second)
	}
	if j := r.job(1); j.Tally().OK != 100 || j.Finished() {
		t.Errorf("before it is closed: %+v of %d, finished %v; want 100 ok, not finished", j.Tally(), j.Total, j.Finished())
	}
	d := r.nodes[2]
	d.Close(r.now, 1, &d.out)
	r.act(d)
	if j := r.run(1, time.Minute); j.Tally().OK != 100 || j.Ended == 0 {
		t.Errorf("%+v, ended at %d; want 100 ok", j.Tally(), j.Ended)
	}
	r.checkAttempts(1, 100)
}

// TestCriticalPathBeforeFillers: a chain of ten tasks of 0.8 s beside 160 tasks of 0.4 s
// with more input, on 2 x 4 slots. In the order of MATRIX v2, most input first, the chain
// starts after the fillers, and all take 16 s. Lengths are stated, or learnt from the ends
// of their kinds. At best all take 9 s.
func TestCriticalPathBeforeFillers(t *testing.T) {
	for _, stated := range []bool{true, false} {
		nodes := []record.GraphNode{{Name: "large", Kind: "source"}, {Name: "small", Kind: "source"}}
		add := func(kind string, length time.Duration, parent int32) {
			n := record.GraphNode{Name: fmt.Sprint(kind, len(nodes)), Kind: kind, Parents: []int32{parent}}
			if stated {
				n.Length = length
			}
			nodes = append(nodes, n)
		}
		for range 160 {
			add("filler", 400*time.Millisecond, 0)
		}
		add("link", 800*time.Millisecond, 1)
		for range 9 {
			add("link", 800*time.Millisecond, int32(len(nodes)-1))
		}
		lengths := map[string]time.Duration{"filler": 400 * time.Millisecond, "link": 800 * time.Millisecond, "source": time.Millisecond}
		r := newRig(t, 2, 4, policy.Policy{})
		r.length = func(s Start) time.Duration { return lengths[nodes[s.Index].Kind] }
		r.result = func(s Start) End {
			return End{Run: s.Run, State: filch.OK, Bytes: map[int32]int64{0: 1 << 20}[s.Index]}
		}
		r.submit(0, submit.Job{Job: 1, Nodes: nodes})
		if j := r.run(1, time.Minute); j == nil || !j.Finished() {
			t.Fatal("the workflow did not end")
		}
		if took := r.now; took > 11*time.Second {
			t.Errorf("stated %v: the workflow took %v", stated, took)
		}
	}
}

// TestLinkOfAChainKeepsItsSlot: where the store takes 20 ms, and a slot that a link of a chain
// gave back went to a filler meanwhile, each link would wait for the end of a filler.
func TestLinkOfAChainKeepsItsSlot(t *testing.T) {
	const link, filler, answer = 800 * time.Millisecond, 500 * time.Millisecond, 20 * time.Millisecond
	var nodes []record.GraphNode
	for i := range int32(10) {
		n := record.GraphNode{Name: fmt.Sprint("link", i), Length: link}
		if i > 0 {
			n.Parents = []int32{i - 1}
		}
		nodes = append(nodes, n)
	}
	for i := range 60 {
		nodes = append(nodes, record.GraphNode{Name: fmt.Sprint("filler", i), Length: filler})
	}
	r := newRig(t, 1, 4, policy.Policy{})
	r.store.slow = func(p record.Proposal) time.Duration {
		if p.Op == record.OpMerge && p.Kind == record.RecordBlock {
			return answer
		}
		return 0
	}
	chain := time.Duration(0)
	r.length = func(s Start) time.Duration {
		if s.Index < 10 {
			chain = r.now + link
			return link
		}
		return filler
	}
	r.submit(0, submit.Job{Job: 1, Nodes: nodes})
	r.run(1, time.Minute)
	if best := 10 * (link + 2*answer); chain > best+answer {
		t.Errorf("the chain ended after %v, at best after %v; all after %v", chain, best, r.now)
	}
	// The store is away: the slot stays empty for a moment only.
	r = newRig(t, 1, 1, policy.Policy{})
	r.length = slow(filler)
	r.store.mute = func(p record.Proposal) bool {
		ops, _, err := record.DecodeBlockOps(p.Delta)
		return p.Kind == record.RecordBlock && err == nil && len(ops) > 0 && ops[0].Kind == record.BlockEnd
	}
	r.submit(0, submit.Job{Job: 1, Nodes: nodes})
	if r.idle(2 * filler); len(r.started) != 2 {
		t.Errorf("%d tasks began beside an end that is not recorded, want 2", len(r.started))
	}
}

// TestLevelsFollowEstimates: the order of the queue changes when tasks of a kind took longer
// than was expected, though no other task ends meanwhile; and a restored workflow begins
// with what its recorded ends tell.
func TestLevelsFollowEstimates(t *testing.T) {
	var nodes []record.GraphNode
	for _, kind := range []string{"short", "long", "short", "short", "short", "long"} {
		nodes = append(nodes, record.GraphNode{Name: fmt.Sprint(kind, len(nodes)), Kind: kind})
	}
	r := newRig(t, 1, 1, policy.Policy{})
	r.length = func(s Start) time.Duration {
		return []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Minute}[min(s.Index, 2)]
	}
	r.submit(0, submit.Job{Job: 1, Nodes: nodes})
	r.idle(3 * time.Second)
	if it, _ := r.nodes[0].jobs[1].queue.FirstSingle(); it.Index != 5 {
		t.Errorf("after a long task of 0.3 s and a short one of 0.1 s task %d is next, want the long task 5", it.Index)
	}
	left := &queue.RecoveredJob{ID: 1, Job: &record.Job{Total: 6, Graph: true, Lines: true, Closed: true, Ticket: filch.Ticket{Job: 1}}, Spec: &record.Spec{Each: filch.Room{Slots: 1}, Payloads: true}}
	left.Blocks = map[int32]*record.Block{0: {}}
	for i, took := range []int64{100_000, 300_000} {
		*left.Blocks[0].At(uint8(i)) = record.Task{State: filch.OK, Attempt: 1, Began: 1, TookUS: took, By: record.Owner{Node: "n9", Incarnation: 1}}
	}
	left.Lines = maps.Collect(record.Payloads(0, encoded(nodes)))
	r = newRig(t, 1, 1, policy.Policy{})
	r.length = slow(time.Minute)
	if err := r.nodes[0].Restore(0, left, &r.nodes[0].out); err != nil {
		t.Fatal(err)
	}
	r.act(r.nodes[0])
	if r.idle(time.Second); len(r.started) != 1 || r.started[0].Index != 5 {
		t.Errorf("%+v began first in the restored workflow, want the long task 5", r.started)
	}
}

func encoded(nodes []record.GraphNode) (list [][]byte) {
	for i := range nodes {
		list = append(list, nodes[i].Encode())
	}
	return list
}
