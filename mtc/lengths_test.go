package mtc

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/before"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// lengthOfTask are lengths of which no two of the first 10,007 are the same.
func lengthOfTask(i int32) time.Duration {
	return time.Duration(1+int64(i)*7919%10_007) * 100 * time.Microsecond
}

// stated is a bag with stated lengths.
func stated(total int32) submit.Job {
	var all []time.Duration
	for i := range total {
		all = append(all, lengthOfTask(i))
	}
	return submit.Job{Job: 1, Total: total, Long: record.NewLengths(all)}
}

// checkOrder fails where a first start is further than slack from its place in the order of the
// lengths.
func (r *rig) checkOrder(starts []Start, slack int) {
	r.t.Helper()
	var got []time.Duration
	for _, s := range starts {
		if s.Attempt == record.FirstAttempt {
			got = append(got, lengthOfTask(s.Index))
		}
	}
	want := slices.Sorted(slices.Values(got))
	slices.Reverse(want)
	for at, d := range got {
		if place := slices.Index(want, d); place > at+slack || place < at-slack {
			r.t.Fatalf("start %d of %d takes %v, and is number %d by its length", at, len(got), d, place)
		}
	}
}

// TestLongestTaskStartsFirst: a node starts the tasks by their lengths, also where the bag has
// more tasks than the queue of the leader.
func TestLongestTaskStartsFirst(t *testing.T) {
	for _, total := range []int32{5, 300, before.Window + 1000} {
		r := newRig(t, 1, 1, policy.Policy{})
		r.length = slow(50 * time.Microsecond)
		r.submit(0, stated(total))
		if got := r.run(1, time.Hour).Tally(); got.OK != total {
			t.Errorf("tally %+v", got)
		}
		r.checkOrder(r.started, 12) // lengths that differ by less than a thousandth go by number
	}
}

// TestLongestTaskStartsFirstOnAllNodes: thieves take what they start soon, so that the order
// holds over the instance.
func TestLongestTaskStartsFirstOnAllNodes(t *testing.T) {
	r := newRig(t, 4, 2, policy.Policy{})
	r.length = func(s Start) time.Duration { return lengthOfTask(s.Index) }
	r.submit(0, stated(400))
	if got := r.run(1, time.Hour).Tally(); got.OK != 400 {
		t.Errorf("tally %+v", got)
	}
	if r.byNode[nodeName(1)] < 50 || r.byNode[nodeName(3)] < 50 {
		t.Errorf("starts by node: %v", r.byNode)
	}
	r.checkOrder(r.started, 16)
}

// TestLongestFirstAfterADeath: the next leader reads the lengths and the ends, and goes on in the
// order of the lengths.
func TestLongestFirstAfterADeath(t *testing.T) {
	for _, total := range []int32{300, before.Window + 1000} {
		r := newRig(t, 3, 2, policy.Policy{})
		r.length = func(s Start) time.Duration { return lengthOfTask(s.Index) * 300 / time.Duration(total) }
		r.submit(0, stated(total))
		r.idle(600 * time.Millisecond)
		r.kill(0, 3*time.Second)
		r.idle(500 * time.Millisecond)
		from := len(r.started)
		if got := r.run(1, time.Hour).Tally(); got.OK != total {
			t.Errorf("tally %+v", got)
		}
		if n := len(r.started) - from; n < int(total)/3 {
			t.Fatalf("%d starts after the death", n)
		}
		r.checkOrder(r.started[from:], 16)
		r.checkAttempts(1, total)
	}
}

// TestRestoredLengths: a bag of an earlier instance goes on in the order of its lengths; a task
// that was tried keeps its place.
func TestRestoredLengths(t *testing.T) {
	s := stated(6)
	left := &queue.RecoveredJob{
		ID: 1, Job: &record.Job{Total: 6, Closed: true, Long: 1, Ticket: filch.Ticket{Job: 1}}, Spec: &record.Spec{Each: filch.Room{Slots: 1}},
		Long: map[int32][]byte{0: s.Long[0]}, Blocks: map[int32]*record.Block{0: {}},
	}
	*left.Blocks[0].At(1) = record.Task{State: filch.OK, Attempt: 1, Began: 1, TookUS: 1, By: record.Owner{Node: "n9", Incarnation: 1}}
	*left.Blocks[0].At(2) = record.Task{Attempt: 2}
	r := newRig(t, 1, 1, policy.Policy{})
	r.length = slow(time.Millisecond)
	if err := r.nodes[0].Restore(0, left, &r.nodes[0].out); err != nil {
		t.Fatal(err)
	}
	r.act(r.nodes[0])
	if got := r.run(1, time.Minute).Tally(); got.OK != 6 {
		t.Errorf("tally %+v", got)
	}
	var got []int32
	for _, s := range r.started {
		got = append(got, s.Index)
	}
	if want := []int32{5, 2, 3, 4, 0}; !slices.Equal(got, want) {
		t.Errorf("started %v, want %v", got, want)
	}
}

// TestCancelOfAnOrderedBag ends the tasks that wait for their turn.
func TestCancelOfAnOrderedBag(t *testing.T) {
	for _, dies := range []bool{false, true} {
		const total = before.Window + 3000
		r := newRig(t, 3, 2, policy.Policy{})
		r.length = slow(time.Second)
		r.submit(0, stated(total))
		r.idle(1500 * time.Millisecond)
		if dies {
			r.kill(0, 3*time.Second)
		}
		r.nodes[1].Cancel(r.now, 1, "", &r.nodes[1].out)
		r.act(r.nodes[1])
		if j := r.run(1, time.Minute); j.Tally().Sum() != total || j.State() != filch.Cancelled {
			t.Errorf("leader dies %t: tally %+v, %s", dies, j.Tally(), j.State())
		}
	}
}

// TestCancelOfAnOrderedBagGoesInParts: a node that leads a large bag alone serves others while the
// waiting tasks of the bag end, whether the job is cancelled or all of its tasks are.
func TestCancelOfAnOrderedBagGoesInParts(t *testing.T) {
	for _, tasks := range []bool{false, true} {
		const total = 8 * before.Window
		r := newRig(t, 1, 1, policy.Policy{})
		r.length = slow(time.Hour)
		r.submit(0, stated(total))
		r.idle(time.Second)
		ends := map[time.Duration]int{}
		r.store.mute = func(p record.Proposal) bool {
			if p.Op == record.OpMerge && p.Kind == record.RecordBlock {
				ops, _, err := record.DecodeBlockOps(p.Delta)
				if err != nil {
					t.Fatal(err)
				}
				ends[r.now] += len(ops)
			}
			return false
		}
		if d := r.nodes[0]; tasks {
			r.order(0, 1, cancels(record.Pick{Count: total}))
		} else {
			d.Cancel(r.now, 1, "", &d.out)
			r.act(d)
		}
		if got := r.run(1, time.Minute).Tally(); got.Cancelled+got.Killed != total {
			t.Errorf("tasks %t: tally %+v", tasks, got)
		}
		for at, n := range ends {
			if n > 3*before.Window { // the queue, a part of the others, and the running task
				t.Errorf("tasks %t: %d of %d tasks end at once, at %v", tasks, n, total, at)
			}
		}
	}
}

// TestBagThatIsSubmittedInParts: the lengths come with the first part.
func TestBagThatIsSubmittedInParts(t *testing.T) {
	r := newRig(t, 1, 1, policy.Policy{})
	r.length = slow(10 * time.Millisecond)
	s := stated(90)
	s.Total, s.Open, s.Partial = 30, true, true
	r.submit(0, s)
	r.idle(15 * time.Millisecond)
	d := r.nodes[0]
	if err := d.Add(r.now, 1, 7, 60, nil, &d.out); err != nil {
		t.Fatal(err)
	}
	r.act(d)
	d.Close(r.now, 1, &d.out)
	r.act(d)
	r.idle(100 * time.Millisecond)
	from := len(r.started)
	if got := r.run(1, time.Minute).Tally(); got.OK != 90 {
		t.Errorf("tally %+v", got)
	}
	r.checkOrder(r.started[from:], 0)
}

// TestOrderedBagIsSmall measures what a million tasks with lengths cost their leader.
func TestOrderedBagIsSmall(t *testing.T) {
	const total = 1_000_000
	all := make([]time.Duration, total)
	for i := range all {
		all[i] = time.Duration(1+i*7919%1_000_003) * time.Millisecond
	}
	r := newRig(t, 1, 1, policy.Policy{})
	r.length = slow(time.Hour)
	s := submit.Job{Job: 1, Total: total, Long: record.NewLengths(all)}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := r.now
	r.submit(0, s)
	r.idle(time.Second)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if len(r.started) == 0 || r.started[0].Index < 0 {
		t.Fatalf("nothing started in %v", r.now-began)
	}
	each := float64(after.HeapAlloc-before.HeapAlloc+2*total) / total
	t.Logf("figure: %.1f bytes a task with a length: 4 for the order, 2 for the length, and a queue of %d tasks", each, int(r.nodes[0].jobs[1].queue.Shareable()))
	if each > 16 {
		t.Errorf("%.1f bytes a task", each)
	}
	runtime.KeepAlive(s)
}

// TestGrownBagIsSkipped: tasks that were added while the bag waited are skipped with the others.
func TestGrownBagIsSkipped(t *testing.T) {
	for _, when := range [][]record.When{{record.WhenOK}, {record.WhenOK, record.WhenEach}} {
		r := newRig(t, 1, 1, policy.Policy{})
		r.length = slow(time.Second)
		r.result = func(s Start) End { return End{Run: s.Run, State: filch.Failed, Code: 1} }
		r.submit(0, submit.Job{Job: 7, Total: 1})
		r.submit(0, submit.Job{Job: 8, Total: 1})
		s := stated(3)
		if len(when) > 1 {
			s.Long = nil
		}
		s.Open, s.After, s.When = true, []filch.JobID{7, 8}[:len(when)], when
		r.submit(0, s)
		r.idle(20 * time.Millisecond)
		d := r.nodes[0]
		if err := d.Add(r.now, 1, 7, 34, nil, &d.out); err != nil {
			t.Fatal(err)
		}
		r.act(d)
		r.idle(20 * time.Millisecond)
		d.Close(r.now, 1, &d.out)
		r.act(d)
		if got := r.run(1, time.Minute).Tally(); got.Skipped != 37 {
			t.Errorf("%v: tally %+v", when, got)
		}
	}
}
