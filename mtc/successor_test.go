package mtc

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// successors counts the starts that waited for the end of a task.
func (r *rig) successors() (n int) {
	for _, s := range r.started {
		if s.Succeeds != 0 {
			n++
		}
	}
	return n
}

// The tasks of a bag that end within milliseconds begin one behind the other, never more at a
// time than there are slots. Tasks that a record of their start, a cap, or their length keeps
// from it do not.
func TestBriefTasksHaveSuccessors(t *testing.T) {
	const slots, total = 2, 200
	for _, c := range []struct {
		name string
		spec record.Spec
		last time.Duration
		want bool
	}{
		{"brief", record.Spec{}, time.Millisecond, true},
		{"as long as may be", record.Spec{}, policy.BriefMax, true},
		{"longer", record.Spec{}, policy.BriefMax + time.Millisecond, false},
		{"once", record.Spec{Once: true}, time.Millisecond, false},
		{"sure", record.Spec{Sure: true}, time.Millisecond, false},
		{"with a cap", record.Spec{Cap: 3}, time.Millisecond, false},
		{"with copies", record.Spec{Replicas: 1}, time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 1, slots, policy.Policy{})
			r.length = slow(c.last)
			r.submit(0, submit.Job{Job: 1, Total: total, Spec: c.spec})
			if got, want := r.run(1, time.Minute).Tally(), (record.Tally{OK: total}); got != want {
				t.Errorf("tally %+v, want %+v", got, want)
			}
			if r.peak > slots {
				t.Errorf("%d tasks ran at a time on %d slots", r.peak, slots)
			}
			if n := r.successors(); n > 0 != c.want || c.want && n < total/2 {
				t.Errorf("%d of %d tasks waited for the end of another, want some: %t", n, total, c.want)
			}
			for i, s := range r.started[:min(policy.BriefKnown, len(r.started))] {
				if s.Succeeds != 0 {
					t.Errorf("start %d waits for the end of another, before the length of the tasks is known", i)
				}
			}
		})
	}
}

// firstSuccessor goes on until a start waits for the end of another, and returns it.
func (r *rig) firstSuccessor() Start {
	r.t.Helper()
	for r.step(r.now + time.Second) {
		if w := r.nodes[0].waiting; len(w) > 0 {
			return w[0]
		}
	}
	r.t.Fatal("no task is the successor of another")
	return Start{}
}

// A task runs on, and its successor goes back: another slot takes the task, with no attempt
// more than it had.
func TestSuccessorGoesBack(t *testing.T) {
	r := newRig(t, 1, 2, policy.Policy{})
	r.length = slow(time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: 100})
	s := r.firstSuccessor()
	d := r.nodes[0]
	i := slices.IndexFunc(d.running, func(u rigRun) bool { return u.end.Run == s.Succeeds })
	d.running[i].at += time.Minute
	d.waiting = slices.DeleteFunc(d.waiting, func(w Start) bool { return w.Run == s.Run })
	d.Ended(r.now, End{Run: s.Run, State: filch.Killed, Code: filch.ExitCancelled, Unstarted: true}, &d.out)
	r.act(d)
	r.idle(10 * time.Second)
	if k := r.task(1, s.Index); k.State != filch.OK || k.Attempt != record.FirstAttempt {
		t.Errorf("task %d is %v after %d attempts while the task before it runs, want ok after the first", s.Index, k.State, k.Attempt)
	}
	if got, want := r.run(1, 2*time.Minute).Tally(), (record.Tally{OK: 100}); got != want {
		t.Errorf("tally %+v, want %+v", got, want)
	}
}

// A job is cancelled while a task of it waits for the end of another: it ends unrun.
func TestCancelOfSuccessor(t *testing.T) {
	r := newRig(t, 1, 1, policy.Policy{})
	r.length = slow(time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: 100})
	s := r.firstSuccessor()
	d, began := r.nodes[0], r.began
	d.Cancel(r.now, 1, "", &d.out)
	r.act(d)
	j := r.run(1, time.Minute)
	if k := r.task(1, s.Index); j.Tally().Cancelled == 0 || k.State != filch.Cancelled || r.began != began {
		t.Errorf("task %d is %v and %d tasks began after the cancel, want cancelled and 0: %+v", s.Index, k.State, r.began-began, j.Tally())
	}
}

// A draining node hands out no successors.
func TestDrainingNodeStartsNoSuccessor(t *testing.T) {
	r := newRig(t, 2, 1, policy.Policy{})
	r.length = slow(time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: 2000})
	r.firstSuccessor()
	d := r.nodes[0]
	d.Drain(r.now, true, &d.out)
	r.act(d)
	n := r.byNode[d.cfg.Self]
	if r.run(1, time.Minute); r.byNode[d.cfg.Self] != n {
		t.Errorf("%d tasks began on a draining node", r.byNode[d.cfg.Self]-n)
	}
}
