package mtc

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/submit"
)

// Both nodes have tasks of the usual class for a minute. Tasks of a better class arrive at
// one: the other node takes half before its own tasks, also if the first news is lost.
func TestBetterClassIsStolen(t *testing.T) {
	for _, lost := range []int{0, 1} {
		r := newRig(t, 2, 1, policy.Policy{})
		r.length = slow(100 * time.Millisecond)
		r.submit(0, submit.Job{Job: 1, Total: 600})
		r.submit(1, submit.Job{Job: 2, Total: 600})
		r.idle(5 * time.Second)
		left := lost
		r.lose = func(m message.Message) bool {
			if m.Kind() != message.KindNews || left == 0 {
				return false
			}
			left--
			return true
		}
		r.submit(0, submit.Job{Job: 3, Total: 40, Ticket: filch.Ticket{Class: -1, UnixNS: int64(r.now), Job: 3}})
		first := len(r.started)
		began := r.now
		for r.job(3) == nil || !r.job(3).Finished() {
			if r.now > began+10*time.Second {
				break
			}
			r.idle(50 * time.Millisecond)
		}
		if took := r.now - began; took > 3*time.Second {
			t.Errorf("%d news lost: 40 tasks of 100 ms took %v on two nodes with older work, want about 2 s", lost, took)
		}
		others := 0
		for _, s := range r.started[first:] {
			if s.Job != 3 {
				others++
			}
		}
		if others > 12 {
			t.Errorf("%d news lost: %d other tasks started meanwhile", lost, others)
		}
	}
}

// Brief tasks that begin one behind the other leave their slots to tasks of a better class that
// wait on another node.
func TestBetterClassComesBetweenBriefTasks(t *testing.T) {
	r := newRig(t, 2, 1, policy.Policy{})
	r.length = func(s Start) time.Duration {
		if s.Job == 3 {
			return 100 * time.Millisecond
		}
		return time.Millisecond
	}
	r.submit(0, submit.Job{Job: 1, Total: 20_000})
	r.submit(1, submit.Job{Job: 2, Total: 20_000})
	r.idle(500 * time.Millisecond)
	if r.successors() == 0 {
		t.Fatal("no task is the successor of another")
	}
	r.submit(0, submit.Job{Job: 3, Total: 40, Ticket: filch.Ticket{Class: -1, UnixNS: int64(r.now), Job: 3}})
	began := r.now
	for r.job(3) == nil || !r.job(3).Finished() {
		r.idle(50 * time.Millisecond)
		if took := r.now - began; took > 3*time.Second {
			t.Fatalf("40 tasks of 100 ms took %v on two nodes with older brief tasks, want about 2 s", took)
		}
	}
}

// A node asks for tasks of a better class only after news of them, and not for ever.
func TestOneClassIsQuiet(t *testing.T) {
	r := newRig(t, 2, 1, policy.Policy{})
	r.length = slow(100 * time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: 300, Ticket: filch.Ticket{Class: -2, Job: 1}})
	r.submit(1, submit.Job{Job: 2, Total: 300, Ticket: filch.Ticket{Class: -2, UnixNS: 1, Job: 2}})
	r.idle(5 * time.Second)
	asks := r.sent[message.KindLoadAsk]
	r.idle(20 * time.Second)
	if n := r.sent[message.KindLoadAsk] - asks; n > 0 {
		t.Errorf("busy nodes with tasks of one class asked %d times", n)
	}
}
