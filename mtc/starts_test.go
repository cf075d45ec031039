package mtc

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// A node dies with hundreds of tasks below its front: those that it had begun
// are started again, and no start that may not have happened counts.
func TestUncommittedStartsAreNotCounted(t *testing.T) {
	const total = 4000
	for victim := range 3 {
		t.Run(fmt.Sprintf("node-%d", victim), func(t *testing.T) {
			r := newRig(t, 3, 4, policy.Policy{})
			r.length = slow(2 * time.Millisecond)
			r.submit(victim, submit.Job{Job: 1, Total: total, Spec: record.Spec{CrashLimit: 1}})
			r.idle(100 * time.Millisecond)
			r.kill(victim, time.Second)
			if got, want := r.run(1, time.Minute).Tally(), (record.Tally{OK: total}); got != want {
				t.Errorf("tally %+v, want %+v: one node died, and no committed start with it", got, want)
			}
			again := 0
			for i := range int32(total) {
				k, n := r.task(1, i), r.onNode[fmt.Sprintf("1.%d", i)]
				if k.Attempt != record.FirstAttempt || k.Crashes != 0 {
					t.Errorf("task %d, which was started %d times, has %d attempts and %d crashes", i, n, k.Attempt, k.Crashes)
				}
				if n > 1 {
					again++
				}
			}
			if again == 0 {
				t.Error("no task was begun when its node died: the scene shows nothing")
			}
		})
	}
}

// A task that kills its nodes is started once more than the limit of its job
// says, and no more: the first start was not committed. Where every start is, it
// is started as often as the limit says.
func TestCrashLimit(t *testing.T) {
	for _, c := range []struct {
		spec   record.Spec
		starts int
	}{
		{record.Spec{CrashLimit: 1}, 2},
		{record.Spec{CrashLimit: 3}, 4},
		{record.Spec{CrashLimit: 3, Retries: 2}, 4},
		{record.Spec{CrashLimit: 1, Sure: true}, 1},
		{record.Spec{CrashLimit: 3, Sure: true}, 3},
		{record.Spec{CrashLimit: 1, Once: true}, 1},
	} {
		t.Run(fmt.Sprintf("limit-%d/retries-%d/sure-%v", c.spec.CrashLimit, c.spec.Retries, c.spec.CommitsStarts()), func(t *testing.T) {
			r := newRig(t, 8, 1, policy.Policy{})
			r.length = func(s Start) time.Duration {
				if s.Index == 7 {
					return time.Hour
				}
				return time.Millisecond
			}
			r.submit(7, submit.Job{Job: 1, Total: 10, Spec: c.spec})
			for range c.starts {
				r.kill(r.runs(7), time.Second)
			}
			if got, want := r.run(1, time.Minute).Tally(), (record.Tally{OK: 9, Lost: 1}); got != want {
				t.Errorf("tally %+v, want %+v", got, want)
			}
			if k := r.task(1, 7); k.State != filch.Lost || k.Crashes != c.spec.CrashLimit || r.onNode["1.7"] != c.starts {
				t.Errorf("the task that killed its nodes was started %d times, and is recorded as %+v", r.onNode["1.7"], k)
			}
		})
	}
}

// runs waits until a task runs, and returns the node where it does.
func (r *rig) runs(index int32) int {
	r.t.Helper()
	for limit := r.now + time.Minute; ; {
		for i, d := range r.nodes {
			for _, u := range d.running {
				if f := d.Core.exec.list.Find(u.end.Run); f != nil && f.item.Index == index {
					return i
				}
			}
		}
		if !r.step(limit) {
			r.t.Fatalf("task %d was not started", index)
		}
	}
}
