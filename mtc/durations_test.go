package mtc

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// A node that is taken away starts no task that cannot finish on it, as far as
// is known, and all that can.
func TestNoTaskStartsThatCannotFinish(t *testing.T) {
	const end, drain = 20 * time.Second, 6 * time.Second
	for _, c := range []struct {
		name     string
		spec     record.Spec
		walltime policy.Walltime
		length   time.Duration
		want     int // tasks that are started, on one slot
	}{
		// The first begins at 0, those after it as long as 19 s are not over.
		{"learnt", record.Spec{}, policy.Walltime{End: end, Drain: drain}, 3 * time.Second, 6},
		{"limited", record.Spec{Limit: 5 * time.Second}, policy.Walltime{End: end, Drain: drain}, 3 * time.Second, 5},
		{"limited beyond the end", record.Spec{Limit: time.Minute}, policy.Walltime{End: end, Drain: drain}, 3 * time.Second, 0},
		{"kind known", record.Spec{Expect: time.Minute}, policy.Walltime{End: end, Drain: drain}, 3 * time.Second, 0},
		{"blind", record.Spec{Expect: time.Minute}, policy.Walltime{End: end, Drain: drain, Blind: true}, 3 * time.Second, 5},
		{"blind, no drain", record.Spec{}, policy.Walltime{End: end, Blind: true}, 3 * time.Second, 40},
		{"stays", record.Spec{}, policy.Walltime{}, 3 * time.Second, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 1, 1, policy.Policy{})
			r.nodes[0].cfg.Walltime = c.walltime
			r.length = func(Start) time.Duration { return c.length }
			r.submit(0, submit.Job{Job: 1, Spec: c.spec, Total: 40})
			r.idle(2 * time.Minute)
			if got := len(r.started); got != c.want {
				t.Errorf("%d tasks of %v were started before the end at %v, want %d", got, c.length, end, c.want)
			}
			if s, ok := r.nodes[0].Job(1); ok && s.Pace.Late != (c.want < 40) {
				t.Errorf("late is %v", s.Pace.Late)
			}
		})
	}
}

// What cannot finish on the nodes of one allocation is run by those of another.
func TestTasksGoWhereTheyCanFinish(t *testing.T) {
	r := newRig(t, 4, 2, policy.Policy{})
	ends := policy.Walltime{End: 8 * time.Second, Drain: time.Second}
	for _, d := range r.nodes[:2] {
		d.cfg.Walltime = ends
	}
	r.length = func(Start) time.Duration { return 3 * time.Second }
	r.submit(0, submit.Job{Job: 1, Total: 100})
	r.run(1, 5*time.Minute)
	if j := r.job(1); j == nil || j.Tally().OK != 100 {
		t.Fatalf("not all tasks ended: %+v", j)
	}
	if n := r.byNode["n1"] + r.byNode["n2"]; n != 8 {
		t.Errorf("nodes that end at %v started %d tasks of 3 s on 4 slots, want 8", ends.End, n)
	}
	if r.now > 3*time.Second*100/4 {
		t.Errorf("it took %v with 4 slots that stay", r.now)
	}
}

// What tasks of a kind took is known to the next job of that kind, on all nodes.
func TestKindsAreLearnt(t *testing.T) {
	r := newRig(t, 2, 1, policy.Policy{})
	r.length = func(Start) time.Duration { return 3 * time.Second }
	r.submit(0, submit.Job{Job: 1, Spec: record.Spec{Like: "solve"}, Total: 1})
	r.run(1, time.Minute)
	for _, d := range r.nodes {
		d.cfg.Walltime = policy.Walltime{End: r.now + 3*time.Second}
	}
	r.submit(0, submit.Job{Job: 2, Spec: record.Spec{Like: "solve"}, Total: 10})
	r.submit(0, submit.Job{Job: 3, Spec: record.Spec{Like: "other"}, Total: 10})
	r.idle(time.Second)
	for _, s := range r.started[1:] {
		if s.Job != 3 {
			t.Fatalf("task %d.%d was started, and tasks like it took 3 s", s.Job, s.Index)
		}
	}
	if len(r.started) == 1 {
		t.Error("what is of another kind was not started")
	}
}
