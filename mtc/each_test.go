package mtc

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// eachOf is a bag whose tasks wait for the tasks of job 1.
func eachOf(total int32) submit.Job {
	return submit.Job{Job: 2, Total: total, Conditions: record.Conditions{After: []filch.JobID{1}, When: []record.When{record.WhenEach}}}
}

// eachRig has three nodes with two slots, and holds every start of job 2 against the end of
// the task of job 1. Every seventh task of job 1 fails.
func eachRig(t *testing.T, took time.Duration) *rig {
	t.Helper()
	r := newRig(t, 3, 2, policy.Policy{})
	fails := func(s Start) bool { return s.Job == 1 && s.Index%7 == 3 }
	r.length = func(s Start) time.Duration {
		if end := r.task(1, s.Index).State; s.Job == 2 && end != filch.OK {
			t.Errorf("task 2.%d begins, and 1.%d is %s", s.Index, s.Index, end)
		}
		return took
	}
	r.result = func(s Start) End {
		if fails(s) {
			return End{Run: s.Run, State: filch.Failed, Code: 1}
		}
		return End{Run: s.Run, State: filch.OK}
	}
	return r
}

// checkEach holds the ends of job 2 against those of job 1.
func (r *rig) checkEach(total int32) {
	r.t.Helper()
	for i := range total {
		want, got := filch.Skipped, r.task(2, i)
		if r.task(1, i).State == filch.OK {
			want = filch.OK
		}
		if got.State != want || got.Extra > 0 || want == filch.OK && r.onNode[fmt.Sprintf("2.%d", i)] != 1 {
			r.t.Errorf("task 2.%d is %s, want %s; %d starts, %d further ends", i, got.State, want, r.onNode[fmt.Sprintf("2.%d", i)], got.Extra)
		}
	}
}

func TestTasksBeginOneByOne(t *testing.T) {
	r := eachRig(t, 50*time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: 600})
	r.submit(1, eachOf(600))
	r.idle(5 * time.Second)
	if n := r.job(2).Tally().OK; n == 0 || r.job(1).Finished() {
		t.Errorf("%d tasks ended well before all of the other bag did", n)
	}
	j := r.run(2, time.Minute)
	if got := j.Tally(); got.Skipped != 86 || got.OK != 514 || j.State() != filch.Failed {
		t.Errorf("tally %+v, %s", got, j.State())
	}
	r.checkEach(600)
	stolen := 0
	for _, d := range r.nodes {
		if r.byNode[d.cfg.Self] > 100 {
			stolen++
		}
	}
	if stolen != 3 {
		t.Errorf("%d nodes ran tasks: %v", stolen, r.byNode)
	}
}

func TestTasksWithoutACounterpart(t *testing.T) {
	r := eachRig(t, 10*time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: 2})
	r.submit(1, eachOf(300))
	if got := r.run(2, time.Minute).Tally(); got.OK != 2 || got.Skipped != 298 {
		t.Errorf("tally %+v", got)
	}
}

// The leader of the waiting bag dies; tasks are ready, running, stolen, or wait.
func TestTasksBeginOneByOneAfterADeath(t *testing.T) {
	for _, at := range []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second, 5 * time.Second} {
		for _, once := range []bool{false, true} { // of two running and two ended tasks no end may be recorded
			r := eachRig(t, 50*time.Millisecond)
			s := eachOf(300)
			s.Spec.Once = once
			r.submit(0, submit.Job{Job: 1, Total: 300})
			r.submit(1, s)
			r.idle(at)
			r.kill(1, 3*time.Second)
			got := r.run(2, 5*time.Minute).Tally()
			if got.Sum() != 300 || got.Skipped < 42 || got.Lost > 4 || !once && got.Lost > 0 {
				t.Errorf("at %s, once %t: tally %+v", at, once, got)
			}
		}
	}
}

func TestCancelledWhileTheyWait(t *testing.T) {
	for _, orphan := range []bool{false, true} {
		r := eachRig(t, time.Second)
		r.submit(0, submit.Job{Job: 1, Total: 20_000})
		r.submit(1, eachOf(20_000))
		r.idle(1500 * time.Millisecond)
		d := r.nodes[0]
		d.Order(r.now, 2, record.Orders{Cancels: []record.Pick{{From: 15_000, Count: 3}}}, &d.out)
		r.act(d)
		r.idle(time.Second)
		if got := r.task(2, 15_001).State; got != filch.Cancelled {
			t.Errorf("orphan %t: a cancelled task that waits is %s", orphan, got)
		}
		if orphan {
			r.kill(1, 3*time.Second)
		}
		d.Cancel(r.now, 2, "", &d.out)
		r.act(d)
		if j := r.run(2, time.Minute); j.Tally().Sum() != 20_000 || j.State() != filch.Cancelled {
			t.Errorf("orphan %t: tally %+v, %s", orphan, j.Tally(), j.State())
		}
	}
}

func TestEachOfACancelledBag(t *testing.T) {
	r := eachRig(t, time.Second)
	r.submit(0, submit.Job{Job: 1, Total: 70_000})
	r.submit(1, eachOf(70_000))
	r.idle(1500 * time.Millisecond)
	d := r.nodes[0]
	d.Cancel(r.now, 1, "", &d.out)
	r.act(d)
	if got := r.run(2, 5*time.Minute).Tally(); got.Sum() != 70_000 || got.Skipped < 69_900 {
		t.Errorf("tally %+v", got)
	}
}

// A million tasks that wait one by one cost a few bits each.
func TestAMillionTasksWaitOneByOne(t *testing.T) {
	r := newRig(t, 1, 2, policy.Policy{})
	r.length = slow(time.Hour)
	r.submit(0, submit.Job{Job: 1, Total: 1_000_000})
	r.idle(time.Second)
	var m0, m1 runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m0)
	r.submit(0, eachOf(1_000_000))
	r.idle(10 * time.Second)
	runtime.GC()
	runtime.ReadMemStats(&m1)
	if used := int64(m1.HeapAlloc) - int64(m0.HeapAlloc); used > 1_000_000 {
		t.Errorf("a million waiting tasks take %d bytes", used)
	}
	if q := r.nodes[0].Queues(); q.Waiting != 1_000_000 {
		t.Errorf("%+v, want a million waiting", q)
	}
}

// Another instance goes on with both bags, by the mirror of all records.
func TestTasksBeginOneByOneInTheNextInstance(t *testing.T) {
	for _, at := range []time.Duration{100 * time.Millisecond, time.Second, 2500 * time.Millisecond} {
		r := eachRig(t, 50*time.Millisecond)
		r.submit(0, submit.Job{Job: 1, Total: 300})
		r.submit(1, eachOf(300))
		r.idle(at)
		m := &mirrorRig{t: t, mirrors: make([][]byte, 1), said: []*queue.Mirror{queue.NewMirror()}}
		m.mirror(r)
		left := recoveredFrom(t, m.mirrors[0])
		for _, j := range left.Jobs() {
			j.Settle()
		}
		r = eachRig(t, 50*time.Millisecond)
		restore(t, r, left)
		if got := r.run(2, time.Minute).Tally(); got != (record.Tally{OK: 257, Skipped: 43}) {
			t.Errorf("at %s: tally %+v", at, got)
		}
	}
}
