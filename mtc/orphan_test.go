package mtc

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// A job that waits for another one, and whose leader died meanwhile, ends when
// it is cancelled, and when what it waits for does not end well.
func TestAnOrphanThatWaitsEnds(t *testing.T) {
	for _, graph := range []bool{false, true} {
		for _, cancel := range []bool{false, true} {
			t.Run(fmt.Sprintf("graph-%v/cancel-%v", graph, cancel), func(t *testing.T) {
				r := newRig(t, 3, 2, policy.Policy{})
				r.length = slow(10 * time.Second)
				r.result = func(s Start) End { return End{Run: s.Run, State: filch.Failed, Code: 1} }
				r.submit(0, submit.Job{Job: 1, Total: 3})
				s := submit.Job{Job: 2, Total: 20, Conditions: record.Conditions{After: []filch.JobID{1}}}
				if graph {
					s.Nodes = []record.GraphNode{{Name: "a"}, {Name: "b", Parents: []int32{0}}}
				}
				r.submit(1, s)
				r.idle(time.Second)
				r.kill(1, 3*time.Second)
				want := filch.Skipped
				if cancel {
					want = filch.Cancelled
					d := r.nodes[2]
					d.Cancel(r.now, 2, "", &d.out)
					r.act(d)
				}
				j := r.run(2, time.Minute)
				if got := j.Tally(); j.Void != want || got.Sum() != j.Total || got.OK > 0 {
					t.Errorf("void %v, tally %+v of %d, want %v", j.Void, got, j.Total, want)
				}
			})
		}
	}
}

// A leader that died and is back knows nothing of its job: it does not
// acknowledge what only the one after it can use.
func TestOnlyTheLeaderAcknowledges(t *testing.T) {
	r := newRig(t, 3, 1, policy.Policy{})
	r.length = slow(time.Second)
	r.submit(0, submit.Job{Job: 1, Nodes: []record.GraphNode{{Name: "a"}, {Name: "b", Parents: []int32{0}}}})
	r.idle(100 * time.Millisecond)
	d := r.nodes[2]
	d.Message(r.now, nodeName(1), &message.Told{Job: 1, Serial: 7, Ends: []message.ToldEnd{{Index: 0, State: filch.OK, Bytes: 0, By: nodeName(1)}}}, &d.out)
	for _, s := range d.out.Sends {
		if _, ack := s.Message.(*message.ToldAck); ack {
			t.Error("a node that does not keep the job going acknowledges the end of a task")
		}
	}
	r.act(d)
	if j := r.run(1, time.Minute); j.Tally().OK != 2 {
		t.Errorf("tally %+v, want 2 ok", j.Tally())
	}
}

// An owner whose node was never seen here is dead when that comes in another
// life, or after a while in which it does not.
func TestAnOwnerThatWasNeverSeenIsGone(t *testing.T) {
	rec := &record.Job{Name: "a", Leader: record.Owner{Node: "n9", Incarnation: 1}, Total: 3, Closed: true}
	for _, comes := range []bool{false, true} {
		c := New(Config{Self: "n1", Incarnation: 1, Seed: 1})
		out := Out{}
		asked := func(now time.Duration) bool {
			out.Reset()
			if c.Homed(now, []record.Stored{{Key: record.KeyJob(1), Value: rec.Encode()}}, &out); len(out.Proposals) > 1 {
				t.Fatalf("%d proposals", len(out.Proposals))
			}
			return len(out.Proposals) == 1
		}
		if asked(time.Second) {
			t.Error("a node that was not seen yet is dead at once")
		}
		want := 16 * time.Second
		if comes {
			want = 3 * time.Second
			c.SetMember(want, filch.Member{Name: "n9", Incarnation: 2}, &out)
			want += 100 * time.Millisecond
		}
		if got := c.Deadline(); got != want {
			t.Errorf("comes %v: due at %v, want %v", comes, got, want)
		}
		if out.Reset(); !asked(want) {
			t.Errorf("comes %v: the job is not taken over", comes)
		}
	}
}

// A life of a node that was over when its home heard of it leaves nothing behind.
func TestALifeThatWasOverWhenHeardOf(t *testing.T) {
	r := newRig(t, 3, 1, policy.Policy{})
	r.length = slow(time.Second)
	r.submit(1, submit.Job{Job: 1, Total: 40})
	r.idle(100 * time.Millisecond)
	r.kill(2, 3*time.Second)
	r.idle(5 * time.Second)
	again := &rigNode{Core: New(Config{Self: "n3", Incarnation: 2, Seed: 9})}
	r.nodes[2] = again
	for i := range 2 {
		again.SetMember(r.now, filch.Member{Name: nodeName(i), Incarnation: 1}, &again.out)
	}
	n2 := r.nodes[1]
	n2.SetMember(r.now, filch.Member{Name: "n3", Incarnation: 2}, &n2.out)
	r.act(n2)
	again.SetRoom(r.now, filch.Room{Slots: 1, MemBytes: 1 << 30}, &again.out)
	r.act(again)
	r.idle(3 * time.Second)
	if len(again.running) == 0 {
		t.Fatal("the new life got no work")
	}
	again.down, again.running, again.mail = true, nil, nil
	r.idle(20 * time.Second)
	for _, o := range r.nodes[:2] {
		o.SetMember(r.now, filch.Member{Name: "n3", Incarnation: 2, Standing: filch.Dead}, &o.out)
		r.act(o)
	}
	if got := r.run(1, 2*time.Minute).Tally(); got.OK != 40 {
		t.Errorf("%+v, want 40 ok", got)
	}
}

// What waits for an answer of the store is not asked for again and again.
func TestNoLookupsPileUp(t *testing.T) {
	for _, graph := range []bool{false, true} {
		t.Run(fmt.Sprintf("graph-%v", graph), func(t *testing.T) {
			r := newRig(t, 2, 1, policy.Policy{Kind: policy.MDL})
			r.length = slow(time.Second)
			s := submit.Job{Job: 1, Total: 1000}
			if graph {
				s = submit.Job{Job: 1, Nodes: fanOut(40)}
				r.lose = func(m message.Message) bool { return m.Kind() == message.KindToldAck }
			}
			r.submit(0, s)
			r.submit(1, submit.Job{Job: 2, Total: 1, Conditions: record.Conditions{After: []filch.JobID{1}}})
			r.idle(5 * time.Second)
			r.store.mute = func(p record.Proposal) bool { return p.Op == record.OpLookup && p.Kind == record.RecordJob }
			r.idle(30 * time.Second)
			if n := r.nodes[1].commits.Open(); n > 20 {
				t.Errorf("%d operations wait for the store after half a minute", n)
			}
		})
	}
}
