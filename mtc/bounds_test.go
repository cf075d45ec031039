package mtc

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/ends"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// TestBundleOfAnOffer: no offer has more single tasks than the node's bound, and all tasks
// run; without the bound offers are larger.
func TestBundleOfAnOffer(t *testing.T) {
	for _, bound := range []int{0, 3} {
		r := newRig(t, 3, 2, policy.Policy{Kind: policy.MLB})
		for _, d := range r.nodes {
			d.cfg.Bounds = policy.Bounds{Offer: bound}.Defaulted()
		}
		r.length = slow(10 * time.Millisecond)
		most := 0
		r.hear = func(_, _ filch.NodeName, m message.Message) {
			if o, is := m.(*message.Offer); is {
				most = max(most, len(o.Tasks))
			}
		}
		r.submit(0, submit.Job{Job: 1, Nodes: workflow(make([][]int32, 300)...)})
		if j := r.run(1, time.Minute); j.Tally().OK != 300 {
			t.Fatalf("bound %d: tally %+v", bound, j.Tally())
		}
		if (most <= 3) != (bound == 3) {
			t.Errorf("bound %d: an offer has %d tasks", bound, most)
		}
	}
}

// TestWaitOfAThief: a thief that has heard of work, and finds none, doubles its wait up to the
// node's bound, and then rests.
func TestWaitOfAThief(t *testing.T) {
	for _, c := range []struct {
		bound time.Duration
		tries int // waits of 1, 2, 4 ms ...
	}{{4 * time.Millisecond, 3}, {0, 11}} {
		r := newRig(t, 2, 1, policy.Policy{})
		for _, d := range r.nodes {
			d.cfg.Bounds = policy.Bounds{StealWait: c.bound}.Defaulted()
		}
		thief := r.nodes[1]
		thief.Message(r.now, nodeName(0), &message.News{Load: 1}, &thief.out)
		r.act(thief)
		r.idle(policy.PollRest / 2)
		if n := r.sent[message.KindLoadAsk]; n != c.tries {
			t.Errorf("with a bound of %v the thief asks %d times, want %d", c.bound, n, c.tries)
		}
	}
}

// TestBundleOfEnds: ends of tasks, one each 10 ms, go to the record together with the ends that
// come within the node's bound of their wait, and not more than the node's bound in one change.
func TestBundleOfEnds(t *testing.T) {
	for _, c := range []struct {
		bounds      policy.Bounds
		least, most int // ends in the largest change
	}{
		{policy.Bounds{}, 4, 8},
		{policy.Bounds{EndsWait: 200 * time.Millisecond}, 9, 12}, // half of the mean length counts
		{policy.Bounds{EndsWait: 5 * time.Millisecond}, 1, 1},
		{policy.Bounds{Ends: 3}, 3, 3},
	} {
		r := newRig(t, 1, 20, policy.Policy{})
		d := r.nodes[0]
		d.recorder = ends.New(node{d.Core}, c.bounds.Defaulted())
		r.length = func(s Start) time.Duration {
			if s.Index < 20 {
				return time.Duration(s.Index+1) * 10 * time.Millisecond
			}
			return 200 * time.Millisecond
		}
		most := 0
		r.store.mute = func(p record.Proposal) bool {
			if p.Op == record.OpMerge && p.Kind == record.RecordBlock && r.now > 200*time.Millisecond && r.now < 1900*time.Millisecond {
				ops, _, err := record.DecodeBlockOps(p.Delta)
				if err != nil {
					t.Fatal(err)
				}
				most = max(most, len(ops))
			}
			return false
		}
		r.submit(0, submit.Job{Job: 1, Total: 200})
		if j := r.run(1, time.Minute); j.Tally().OK != 200 {
			t.Fatalf("%+v: tally %+v", c.bounds, j.Tally())
		}
		if most < c.least || most > c.most {
			t.Errorf("%+v: up to %d ends in a change, want %d to %d", c.bounds, most, c.least, c.most)
		}
	}
}
