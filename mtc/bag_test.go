package mtc

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

func TestBagRunsEachTaskOnce(t *testing.T) {
	r := newRig(t, 1, 4, policy.Policy{})
	r.submit(0, submit.Job{Job: 1, Total: 10000})
	j := r.run(1, time.Minute)
	if got := j.Tally(); got != (record.Tally{OK: 10000}) {
		t.Errorf("tally %+v, want 10000 ok", got)
	}
	if len(r.started) != 10000 {
		t.Errorf("%d starts, want 10000", len(r.started))
	}
	for i, s := range r.started {
		if s.Index != int32(i) {
			t.Fatalf("start %d was of task %d: not in submit order", i, s.Index)
		}
	}
	if j.State() != filch.OK {
		t.Errorf("state %v, want ok", j.State())
	}
	for i := int32(0); i < 10000; i += 997 {
		if k := r.task(1, i); k.State != filch.OK || k.Attempt != 1 || k.By.Node != "n1" {
			t.Errorf("task %d is recorded as %+v", i, k)
		}
	}
	r.idle(time.Second)
	if n := len(r.nodes[0].jobs); n != 0 {
		t.Errorf("%d jobs are remembered after their end", n)
	}
}

func TestBagIsBalanced(t *testing.T) {
	r := newRig(t, 8, 4, policy.Policy{})
	r.length = func(Start) time.Duration { return 10 * time.Millisecond }
	r.submit(0, submit.Job{Job: 1, Total: 8000})
	begin := r.now
	j := r.run(1, time.Minute)
	if j.Tally().OK != 8000 || len(r.started) != 8000 {
		t.Errorf("%d ok after %d starts, want 8000 of both", j.Tally().OK, len(r.started))
	}
	ideal := 8000 / 32 * 10 * time.Millisecond
	if took := r.now - begin; took > ideal*11/10 {
		t.Errorf("took %v, ideal is %v", took, ideal)
	}
}

// Each front is a round trip to the zone's home: with narrow ones four nodes
// that did nothing but no-ops waited for them most of the time.
func TestTasksWithoutLengthNeedFewFronts(t *testing.T) {
	const total = 20 * policy.WindowMax
	r := newRig(t, 1, 16, policy.Policy{})
	asked := 0
	r.store.mute = func(p record.Proposal) bool {
		if p.Kind == record.RecordZone {
			asked++
		}
		return false
	}
	r.submit(0, submit.Job{Job: 1, Total: total})
	r.run(1, time.Minute)
	if asked > 2*total/policy.WindowMax {
		t.Errorf("%d operations on zones for %d tasks that take no time, want at most %d", asked, total, 2*total/policy.WindowMax)
	}
}
