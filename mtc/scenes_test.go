package mtc

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/report"
	"github.com/filch-hpc/filch/mtc/submit"
)

// kill ends a node, and what runs on it; the others hear of it after a while.
func (r *rig) kill(i int, heard time.Duration) {
	d := r.nodes[i]
	d.down, d.running, d.mail = true, nil, nil
	r.idle(heard)
	for _, o := range r.nodes {
		if !o.down {
			o.SetMember(r.now, filch.Member{Name: d.cfg.Self, Incarnation: d.cfg.Incarnation, Standing: filch.Dead}, &o.out)
			r.act(o)
		}
	}
}

// checkAttempts fails where a task was started more often than its record says.
func (r *rig) checkAttempts(id filch.JobID, total int32) {
	r.t.Helper()
	for i := range total {
		k := r.task(id, i)
		if n := r.onNode[fmt.Sprintf("%d.%d", id, i)]; n > int(k.Starts()) {
			r.t.Errorf("task %d was started %d times, its record says %d at most: %+v", i, n, k.Starts(), k)
		}
	}
}

func slow(d time.Duration) func(Start) time.Duration {
	return func(Start) time.Duration { return d }
}

func TestRetriesAndExitCodes(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("nodes-%d", nodes), func(t *testing.T) {
			r := newRig(t, nodes, 2, policy.Policy{})
			r.result = func(s Start) End {
				switch {
				case s.Index == 3:
					return End{Run: s.Run, State: filch.Failed, Code: 3}
				case s.Index == 5 && s.Attempt < 3:
					return End{Run: s.Run, State: filch.Failed, Code: 9}
				}
				return End{Run: s.Run, State: filch.OK}
			}
			r.submit(0, submit.Job{Job: 1, Total: 20, Spec: record.Spec{Retries: 2}})
			j := r.run(1, time.Minute)
			if got, want := j.Tally(), (record.Tally{OK: 19, Failed: 1}); got != want {
				t.Errorf("tally %+v, want %+v", got, want)
			}
			if j.State() != filch.Failed {
				t.Errorf("state %v, want failed", j.State())
			}
			if k := r.task(1, 3); k.Code != 3 || k.Attempt != 3 {
				t.Errorf("task 3 is recorded as %+v, want code 3 at attempt 3", k)
			}
			if k := r.task(1, 5); k.State != filch.OK || k.Attempt != 3 {
				t.Errorf("task 5 is recorded as %+v, want ok at attempt 3", k)
			}
			r.checkAttempts(1, 20)
			if n := r.onNode["1.3"]; n != 3 {
				t.Errorf("task 3 was started %d times, want 3: one and two retries", n)
			}
		})
	}
}

func TestFailedTaskIsTriedElsewhere(t *testing.T) {
	r := newRig(t, 2, 1, policy.Policy{})
	where := map[filch.Attempt]filch.NodeName{}
	r.result = func(s Start) End {
		where[s.Attempt] = r.on
		return End{Run: s.Run, State: filch.Failed, Code: 1}
	}
	r.length = slow(time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: 1, Spec: record.Spec{Retries: 1}})
	r.run(1, time.Minute)
	if where[1] == where[2] {
		t.Errorf("both attempts ran on %s, with another node idle", where[1])
	}
}

// A node on which every task fails at once does not drain the queue of the others
// by that (a full disk, a file system that is not mounted); and a job that fails
// everywhere is not held up.
func TestBarrenNodeGetsFewTasks(t *testing.T) {
	const total = 4000
	for _, everywhere := range []bool{false, true} {
		r := newRig(t, 4, 2, policy.Policy{})
		fails := func() bool { return everywhere || r.on == "n4" }
		r.length = func(Start) time.Duration {
			if fails() {
				return time.Millisecond
			}
			return 20 * time.Millisecond
		}
		r.result = func(s Start) End {
			if fails() {
				return End{Run: s.Run, State: filch.Failed, Code: 1}
			}
			return End{Run: s.Run, State: filch.OK}
		}
		r.submit(0, submit.Job{Job: 1, Total: total})
		n := r.run(1, time.Hour).Tally()
		switch {
		case !everywhere && (n.Failed > total/10 || n.OK+n.Failed != total):
			t.Errorf("%+v: one of four nodes failed more than a tenth", n)
		case everywhere && (n.Failed != total || r.now > 2*time.Second):
			t.Errorf("%+v after %v, want %d failed within 2s", n, r.now, total)
		}
	}
}

func TestCapIsNeverExceeded(t *testing.T) {
	for _, limit := range []int32{1, 3, 10} {
		r := newRig(t, 6, 4, policy.Policy{})
		r.length = slow(5 * time.Millisecond)
		r.submit(0, submit.Job{Job: 1, Total: 300, Spec: record.Spec{Cap: limit}})
		begin := r.now
		j := r.run(1, time.Hour)
		if r.peak > int(limit) {
			t.Errorf("%d ran at a time under a cap of %d", r.peak, limit)
		}
		if j.Tally().OK != 300 {
			t.Errorf("cap %d: %+v, want 300 ok", limit, j.Tally())
		}
		ideal := 300 / time.Duration(limit) * 5 * time.Millisecond
		if took := r.now - begin; took > 2*ideal {
			t.Errorf("cap %d took %v, ideal is %v", limit, took, ideal)
		}
	}
}

func TestOnceTakesOneCommitAndOneStart(t *testing.T) {
	r := newRig(t, 3, 2, policy.Policy{})
	r.length = slow(time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: 500, Spec: record.Spec{Once: true}})
	r.run(1, time.Minute)
	for i := range int32(500) {
		if n := r.onNode[fmt.Sprintf("1.%d", i)]; n != 1 {
			t.Errorf("task %d was started %d times", i, n)
		}
	}
}

func TestNodeDeathRunsItsTasksAgain(t *testing.T) {
	for _, once := range []bool{false, true} {
		for victim := range 3 {
			t.Run(fmt.Sprintf("once-%v/node-%d", once, victim), func(t *testing.T) {
				r := newRig(t, 4, 2, policy.Policy{})
				r.length = slow(20 * time.Millisecond)
				r.submit(0, submit.Job{Job: 1, Total: 400, Spec: record.Spec{Once: once}})
				r.idle(500 * time.Millisecond)
				q := r.nodes[victim].Queues()
				began := int(q.Running + q.Complete)
				r.kill(victim, 3*time.Second)
				j := r.run(1, time.Minute)
				got := j.Tally()
				if got.Sum() != 400 {
					t.Fatalf("tally %+v, want 400 ends", got)
				}
				r.checkAttempts(1, 400)
				if !once && got.OK != 400 {
					t.Errorf("tally %+v, want 400 ok", got)
				}
				if once && (got.Lost > int32(began) || got.OK+got.Lost != 400) {
					t.Errorf("tally %+v, want at most %d lost, the others ok", got, began)
				}
				if once {
					for i := range int32(400) {
						if n := r.onNode[fmt.Sprintf("1.%d", i)]; n > 1 {
							t.Errorf("task %d that runs once was started %d times", i, n)
						}
					}
				}
			})
		}
	}
}

func TestCancelEndsEverything(t *testing.T) {
	for _, by := range []int{0, 2} {
		r := newRig(t, 4, 2, policy.Policy{})
		r.length = slow(50 * time.Millisecond)
		r.submit(0, submit.Job{Job: 1, Total: 1_000_000})
		r.idle(300 * time.Millisecond)
		d := r.nodes[by]
		d.Cancel(r.now, 1, "", &d.out)
		r.act(d)
		before := len(r.started)
		j := r.run(1, 10*time.Second)
		if j.State() != filch.Cancelled || j.Tally().Sum() != 1_000_000 {
			t.Errorf("cancelled from n%d: %v %+v", by+1, j.State(), j.Tally())
		}
		if n := len(r.started) - before; n > 16 {
			t.Errorf("%d tasks were started after the cancel", n)
		}
		r.idle(time.Second)
		if n := r.runningAll(); n != 0 {
			t.Errorf("%d tasks run after the cancel", n)
		}
	}
}

func TestAddAndClose(t *testing.T) {
	r := newRig(t, 3, 2, policy.Policy{})
	r.length = slow(time.Millisecond)
	line := func(n int) (lines [][]byte) {
		for i := range n {
			lines = append(lines, fmt.Appendf(nil, "line %d", i))
		}
		return lines
	}
	r.submit(0, submit.Job{Job: 1, Total: 5, Open: true, Lines: line(5), Spec: record.Spec{Payloads: true}})
	r.idle(100 * time.Millisecond)
	for k, node := range []int{1, 0, 2, 2} {
		d := r.nodes[node]
		token := int32(k + 1)
		if k == 3 {
			token = 3 // said again
		}
		if err := d.Add(r.now, 1, token, 70, line(70), &d.out); err != nil {
			t.Fatal(err)
		}
		r.act(d)
		r.idle(100 * time.Millisecond)
	}
	d := r.nodes[1]
	d.Close(r.now, 1, &d.out)
	r.act(d)
	j := r.run(1, time.Minute)
	if j.Total != 215 || j.Tally().OK != 215 {
		t.Errorf("total %d, tally %+v, want 215 ok", j.Total, j.Tally())
	}
	for _, s := range r.started {
		want := int(s.Index)
		if want >= 5 {
			want = (want - 5) % 70
		}
		if got := string(s.Payload); got != fmt.Sprintf("line %d", want) {
			t.Errorf("task %d was given %q", s.Index, got)
		}
	}
	if err := d.Add(r.now, 1, 9, 1, line(1), &d.out); err != nil {
		t.Fatal(err)
	}
	r.act(d)
	r.idle(time.Second)
	if last := d.tells[len(d.tells)-1]; last.What != report.TellRefused {
		t.Errorf("adding to a closed bag: %+v, want it refused", last)
	}
}

func TestPriorityAndSubmitOrder(t *testing.T) {
	r := newRig(t, 1, 1, policy.Policy{})
	r.length = slow(time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: 1, Ticket: filch.Ticket{UnixNS: 1, Job: 1}})
	r.submit(0, submit.Job{Job: 4, Total: 2, Ticket: filch.Ticket{UnixNS: 4, Job: 4}})
	r.submit(0, submit.Job{Job: 3, Total: 2, Ticket: filch.Ticket{UnixNS: 3, Job: 3}})
	r.submit(0, submit.Job{Job: 5, Total: 2, Ticket: filch.Ticket{Class: -1, UnixNS: 5, Job: 5}})
	for _, id := range []filch.JobID{1, 3, 4, 5} {
		r.run(id, time.Minute)
	}
	var order strings.Builder
	for _, s := range r.started[1:] {
		order.WriteString(fmt.Sprintf("%d.%d ", s.Job, s.Index))
	}
	if want := "5.0 5.1 3.0 3.1 4.0 4.1 "; order.String() != want {
		t.Errorf("order %q, want %q", order.String(), want)
	}
}

func TestAfterOK(t *testing.T) {
	for _, bad := range []bool{false, true} {
		r := newRig(t, 2, 2, policy.Policy{})
		r.length = slow(10 * time.Millisecond)
		r.result = func(s Start) End {
			if bad && s.Job == 1 {
				return End{Run: s.Run, State: filch.Failed, Code: 1}
			}
			return End{Run: s.Run, State: filch.OK}
		}
		r.submit(0, submit.Job{Job: 2, Total: 70000, Conditions: record.Conditions{After: []filch.JobID{1}}})
		r.submit(1, submit.Job{Job: 1, Total: 10})
		r.idle(5 * time.Millisecond)
		if bad {
			if j := r.run(2, time.Minute); j.State() != filch.Skipped || j.Tally().Skipped != 70000 {
				t.Errorf("after a failure: %v %+v, want all skipped", j.State(), j.Tally())
			}
			continue
		}
		r.run(1, time.Minute)
		for _, s := range r.started {
			if s.Job == 2 {
				t.Error("a task was started before what its job waits for had ended")
			}
		}
		r.length = slow(0)
		if j := r.run(2, time.Hour); j.State() != filch.OK {
			t.Errorf("%v, want ok", j.State())
		}
	}
}

func TestMillionsQueuedCostNothing(t *testing.T) {
	r := newRig(t, 1, 2, policy.Policy{})
	r.length = slow(time.Hour)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r.submit(0, submit.Job{Job: 1, Total: 10_000_000, Spec: record.Spec{Step: 2, First: 1}})
	r.idle(time.Second)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := int64(after.HeapAlloc) - int64(before.HeapAlloc); n > 1<<20 {
		t.Errorf("ten million queued tasks take %d bytes", n)
	}
	if r.started[1].Number != 3 {
		t.Errorf("task 1 is called %d, want 3", r.started[1].Number)
	}
	if n := r.nodes[0].Queues().Shared; n != 10_000_000-2 {
		t.Errorf("%d queued, want 9999998", n)
	}
	// Half of it moves in one message each way.
	d := r.nodes[0]
	d.Message(r.now, "n9", &message.Steal{Ask: 1}, &d.out)
	r.act(d)
	if got := d.out.Sends; len(got) != 0 {
		t.Errorf("%d messages to a thief that is no member", len(got))
	}
	d.SetMember(r.now, filch.Member{Name: "n9", Incarnation: 1}, &d.out)
	d.Message(r.now, "n9", &message.Steal{Ask: 2}, &d.out)
	for _, s := range d.out.Sends {
		o, ok := s.Message.(*message.Offer)
		if !ok {
			continue
		}
		if len(o.Ranges) != 1 || o.Ranges[0].Hi-o.Ranges[0].Lo != 4_999_999 {
			t.Errorf("the offer is %+v, want half in one range", o)
		}
		if n := len(message.Encode(o)); n > 64 {
			t.Errorf("the offer of five million tasks takes %d bytes", n)
		}
	}
}

// fanOut is a workflow of roots with children each; the children of root i have
// the indices that follow it.
func fanOut(children ...int) (nodes []record.GraphNode) {
	var parents [][]int32
	for _, n := range children {
		root := int32(len(parents))
		parents = append(parents, nil)
		for range n {
			parents = append(parents, []int32{root})
		}
	}
	return workflow(parents...)
}

// strayed is how many of the tasks from first up to last ran elsewhere than root.
func (r *rig) strayed(id filch.JobID, root, first, last int32) (n int) {
	home := r.task(id, root).By.Node
	for i := first; i <= last; i++ {
		if r.task(id, i).By.Node != home {
			n++
		}
	}
	return n
}

// Each scene has a placement that one policy makes and the other three do not.
func TestEachPolicyHasAPlacementOfItsOwn(t *testing.T) {
	const large, tiny = 64 << 20, 100
	scenes := map[policy.Kind]struct {
		what string
		tt   time.Duration
		seen func(r *rig) bool
	}{
		policy.MLB: {"what has a large input goes elsewhere although its own node would soon have done it", time.Hour, func(r *rig) bool {
			r.submit(0, submit.Job{Job: 1, Nodes: fanOut(40)})
			r.run(1, time.Minute)
			return r.strayed(1, 0, 1, 40) > 0
		}},
		policy.MDL: {"what has a tiny input stays with it although other nodes are idle", time.Hour, func(r *rig) bool {
			r.result = func(s Start) End { return End{Run: s.Run, State: filch.OK, Bytes: tiny} }
			r.submit(0, submit.Job{Job: 1, Nodes: fanOut(40)})
			r.run(1, time.Minute)
			return r.strayed(1, 0, 1, 40) == 0
		}},
		policy.RLDS: {"what has a large input waits for its node however long, and what has a tiny one does not", 100 * time.Millisecond, func(r *rig) bool {
			r.result = func(s Start) End {
				made := int64(large)
				if s.Index > 120 {
					made = tiny
				}
				return End{Run: s.Run, State: filch.OK, Bytes: made}
			}
			r.submit(0, submit.Job{Job: 1, Nodes: fanOut(120, 120)})
			r.run(1, time.Minute)
			return r.strayed(1, 0, 1, 120) == 0 && r.strayed(1, 121, 122, 241) > 0
		}},
		policy.FLDS: {"a few with a large input stay with it, and of many some go elsewhere", 100 * time.Millisecond, func(r *rig) bool {
			r.submit(0, submit.Job{Job: 1, Nodes: fanOut(4)})
			r.run(1, time.Minute)
			r.submit(0, submit.Job{Job: 2, Nodes: fanOut(120)})
			r.run(2, time.Minute)
			return r.strayed(1, 0, 1, 4) == 0 && r.strayed(2, 0, 1, 120) > 0
		}},
	}
	for whose, scene := range scenes {
		for _, kind := range []policy.Kind{policy.MLB, policy.MDL, policy.RLDS, policy.FLDS} {
			t.Run(fmt.Sprintf("scene-of-%s/under-%s", whose, kind), func(t *testing.T) {
				r := newRig(t, 4, 2, policy.Policy{Kind: kind, Threshold: 1 << 20, LocalTime: scene.tt})
				r.length = slow(20 * time.Millisecond)
				r.result = func(s Start) End { return End{Run: s.Run, State: filch.OK, Bytes: large} }
				if got := scene.seen(r); got != (kind == whose) {
					t.Errorf("%s: %v, want that of %s alone", scene.what, got, whose)
				}
			})
		}
	}
}
