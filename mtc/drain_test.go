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

// drain has a node drain, or take work again, and all others hear of it.
func (r *rig) drain(i int, on bool) {
	d := r.nodes[i]
	d.Drain(r.now, on, &d.out)
	r.act(d)
	m := filch.Member{Name: d.cfg.Self, Incarnation: 1}
	if on {
		m.Standing = filch.Draining
	}
	for _, o := range r.nodes {
		if o != d {
			o.SetMember(r.now, m, &o.out)
			r.act(o)
		}
	}
}

// queued is all that waits on a node.
func (d *rigNode) queued() int64 {
	q := d.Queues()
	return q.Shared + q.Dedicated + q.Frozen
}

// TestDrainedNodeSubmits submits a bag on a node that drains: it starts elsewhere
// at once.
func TestDrainedNodeSubmits(t *testing.T) {
	r := newRig(t, 4, 1, policy.Policy{})
	r.idle(time.Minute) // the thieves rest
	r.drain(0, true)
	r.idle(time.Minute)
	r.submit(0, submit.Job{Job: 1, Total: 3})
	began := r.now
	j := r.run(1, 10*time.Second)
	if took := r.now - began; j.Tally().OK != 3 || r.byNode["n1"] != 0 || took > time.Second {
		t.Errorf("%+v after %v, starts %v: want 3 ok within a second and none on n1", j.Tally(), took, r.byNode)
	}
}

// TestDrainEmptiesQueue drains the node where a bag was submitted while all
// nodes are busy: what is queued leaves at once, though nobody is hungry, and
// what runs goes on to its end.
func TestDrainEmptiesQueue(t *testing.T) {
	for _, kind := range []string{"range", "once", "capped", "lines", "graph"} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t, 4, 2, policy.Policy{})
			r.length = slow(10 * time.Second)
			s := submit.Job{Job: 1, Total: 100}
			switch kind {
			case "once":
				s.Spec.Once = true
			case "capped":
				s.Spec.Cap = 3
			case "lines":
				s.Spec.Payloads = true
				for range 100 {
					s.Lines = append(s.Lines, []byte("x"))
				}
			case "graph":
				s.Total = 0
				for i := range 100 {
					n := record.GraphNode{Name: fmt.Sprint(i)}
					if i > 50 {
						n.Parents = []int32{0}
					}
					s.Nodes = append(s.Nodes, n)
				}
			}
			r.submit(0, s)
			r.idle(5 * time.Second)
			ran := len(r.nodes[0].running)
			if ran == 0 && kind != "capped" || r.nodes[0].queued() == 0 {
				t.Fatalf("before the drain %d tasks run on n1 and %d are queued", ran, r.nodes[0].queued())
			}
			r.drain(0, true)
			starts := r.byNode["n1"]
			r.idle(100 * time.Millisecond)
			if n := r.nodes[0].queued(); n > 0 {
				t.Errorf("%d tasks are queued on n1 0.1 s after its drain", n)
			}
			if got := len(r.nodes[0].running); got != ran {
				t.Errorf("%d of %d tasks run on after the drain", got, ran)
			}
			j := r.run(1, time.Hour)
			if j.Tally().OK != 100 || len(r.started) != 100 {
				t.Errorf("%+v after %d starts, want 100 of both", j.Tally(), len(r.started))
			}
			if n := r.byNode["n1"] - starts; n > 0 {
				t.Errorf("%d tasks began on n1 after its drain", n)
			}
		})
	}
}

// TestDrainSharesDedicated drains a node that has tasks which only it may run,
// as their data are there.
func TestDrainSharesDedicated(t *testing.T) {
	r := newRig(t, 3, 1, policy.Policy{Kind: policy.MDL})
	r.length = slow(time.Second)
	r.result = func(s Start) End { return End{Run: s.Run, State: filch.OK, Bytes: 1 << 30} }
	s := submit.Job{Job: 1, Nodes: []record.GraphNode{{Name: "a"}}}
	for i := range 20 {
		s.Nodes = append(s.Nodes, record.GraphNode{Name: fmt.Sprint(i), Parents: []int32{0}})
	}
	r.submit(0, s)
	r.idle(2500 * time.Millisecond)
	at := 0
	for i, d := range r.nodes {
		if d.Queues().Dedicated > 0 {
			at = i
		}
	}
	if r.nodes[at].Queues().Dedicated == 0 {
		t.Fatal("no node has tasks of its own")
	}
	r.drain(at, true)
	r.idle(100 * time.Millisecond)
	if n := r.nodes[at].queued(); n > 0 {
		t.Errorf("%d tasks are left on n%d", n, at+1)
	}
	if j := r.run(1, time.Minute); j.Tally().OK != 21 {
		t.Errorf("%+v, want 21 ok", j.Tally())
	}
}

// TestDrainOfAll drains every node: the work waits, and goes on where a drain is
// undone first.
func TestDrainOfAll(t *testing.T) {
	r := newRig(t, 3, 2, policy.Policy{})
	for i := range r.nodes {
		r.drain(i, true)
	}
	r.submit(0, submit.Job{Job: 1, Total: 50})
	r.idle(time.Minute)
	if len(r.started) > 0 {
		t.Errorf("%d tasks began although every node drains", len(r.started))
	}
	r.drain(2, false)
	if j := r.run(1, time.Minute); j.Tally().OK != 50 || r.byNode["n3"] != 50 {
		t.Errorf("%+v, starts %v: want 50 ok on n3", j.Tally(), r.byNode)
	}
	for i := range 2 {
		r.drain(i, false)
	}
	r.length = slow(time.Second)
	r.submit(2, submit.Job{Job: 2, Total: 50})
	r.run(2, time.Minute)
	if r.byNode["n1"] == 0 || r.byNode["n2"] == 0 {
		t.Errorf("starts %v: want some on every node after all drains are undone", r.byNode)
	}
}

// TestThievesAskDrained loses what a node that drains hands out: the others come
// and take it.
func TestThievesAskDrained(t *testing.T) {
	r := newRig(t, 4, 1, policy.Policy{})
	r.drain(1, true)
	r.lose = func(m message.Message) bool {
		o, ok := m.(*message.Offer)
		return ok && o.Ask == 0
	}
	r.submit(1, submit.Job{Job: 1, Total: 60})
	r.length = slow(100 * time.Millisecond)
	if j := r.run(1, 5*time.Minute); j.Tally().OK != 60 || r.byNode["n2"] != 0 {
		t.Errorf("%+v, starts %v: want 60 ok and none on n2", j.Tally(), r.byNode)
	}
}

// TestDrainedRefusesGifts gives work to a node that has begun to drain, of which
// the giver has not heard: the task stays whole, and the two do not spin.
func TestDrainedRefusesGifts(t *testing.T) {
	r := newRig(t, 2, 1, policy.Policy{})
	for _, d := range r.nodes { // neither hears of the other's drain
		d.Drain(r.now, true, &d.out)
		r.act(d)
	}
	r.submit(0, submit.Job{Job: 1, Total: 10})
	r.idle(10 * time.Second)
	if n := r.sent[message.KindOffer]; n == 0 || n > 200 {
		t.Errorf("%d offers in 10 s, want some and few", n)
	}
	if len(r.started) > 0 {
		t.Errorf("%d tasks began on nodes that drain", len(r.started))
	}
	r.drain(1, false)
	if j := r.run(1, time.Minute); j.Tally().OK != 10 || len(r.started) != 10 {
		t.Errorf("%+v after %d starts, want 10 of both", j.Tally(), len(r.started))
	}
}

// TestDrainedGivesTokensBack drains a node whose tasks of a capped job run on: what
// it holds beyond them goes to others.
func TestDrainedGivesTokensBack(t *testing.T) {
	r := newRig(t, 2, 4, policy.Policy{})
	r.length = func(s Start) time.Duration {
		if r.on == "n1" {
			return time.Hour
		}
		return 10 * time.Millisecond
	}
	r.submit(0, submit.Job{Job: 1, Total: 100, Spec: record.Spec{Cap: 4, Each: filch.Room{Slots: 2}}})
	r.idle(time.Second)
	r.drain(0, true)
	r.idle(20 * time.Second)
	j, _ := r.nodes[0].Job(1)
	if left := r.job(1).Tally().OK; left < 98 || j.Here.Running != 2 {
		t.Errorf("%d of 98 ended well beside the %d that n1 runs", left, j.Here.Running)
	}
}

// TestDeadNodeDrains stops a node until the others have declared it dead, and drains
// it then: those to whom it gives its queue have it already, and start none of it
// twice.
func TestDeadNodeDrains(t *testing.T) {
	const total = 400
	r := newRig(t, 3, 2, policy.Policy{})
	r.away = r.nodes[0]
	r.length = slow(50 * time.Millisecond)
	nth := map[string]bool{}
	r.submit(0, submit.Job{Job: 1, Total: total})
	r.idle(500 * time.Millisecond)
	d := r.nodes[0]
	if d.queued() == 0 {
		t.Fatal("nothing is queued on n1")
	}
	d.down = true
	r.tell(0, filch.Member{Standing: filch.Dead})
	r.idle(1500 * time.Millisecond)
	d.down = false
	d.Drain(r.now, true, &d.out)
	r.act(d)
	r.run(1, time.Minute)
	for _, s := range r.started {
		k := fmt.Sprintf("start %d of task %d", s.Nth, s.Index)
		if nth[k] {
			t.Errorf("%s happened twice", k)
		}
		nth[k] = true
	}
	r.checkAttempts(1, total)
}
