package mtc

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// stuckRig is four nodes with four slots each. An early bag is stuck on the first node: one
// of its tasks has the only license of the node for 11 s at a time, and the others wait.
func stuckRig(t *testing.T) *rig {
	r := newRig(t, 4, 4, policy.Policy{})
	for i := range r.nodes {
		total := filch.Room{Slots: 4, MemBytes: 1 << 30, Named: "disk=4"}
		if i == 0 {
			total.Named = "disk=4,license=1"
		}
		r.kind(i, "", total)
		r.nodes[i].SetRoom(r.now, total, &r.nodes[i].out)
		r.act(r.nodes[i])
	}
	r.length = func(s Start) time.Duration {
		if s.Job == 1 {
			return 11 * time.Second
		}
		return time.Second
	}
	return r
}

func (r *rig) stick() {
	r.submit(0, submit.Job{Job: 1, Total: 3, Spec: record.Spec{
		Each: filch.Room{Slots: 1, Named: "license=1"}, Nodes: &filch.Nodes{Only: []filch.NodeName{"n1"}},
	}})
	r.idle(100 * time.Millisecond)
}

// TestBagBehindAStuckBag submits a bag on a node on which an earlier bag waits for a
// resource that is in use. Other nodes have free slots for the later bag.
func TestBagBehindAStuckBag(t *testing.T) {
	license := record.License{Name: "seat", Each: 1}
	for name, c := range map[string]struct {
		spec record.Spec
		// before is another bag, from that node, with a part of its tasks under way when
		// the early bag is stuck.
		before *record.Spec
		node   int
		wait   time.Duration
	}{
		"slots":              {},
		"memory":             {spec: record.Spec{Each: filch.Room{Slots: 1, MemBytes: 200 << 20}}},
		"resource":           {spec: record.Spec{Each: filch.Room{Slots: 1, Named: "disk=2"}}},
		"license":            {spec: record.Spec{License: license}},
		"license-known":      {spec: record.Spec{License: license}, before: &record.Spec{License: license}, wait: 20 * time.Second},
		"license-held":       {spec: record.Spec{License: license}, before: &record.Spec{License: license}, wait: 1001 * time.Millisecond},
		"license-in-use":     {spec: record.Spec{License: license}, before: &record.Spec{License: license}},
		"license-in-use-far": {spec: record.Spec{License: license}, before: &record.Spec{License: license}, node: 2},
		"capped":             {spec: record.Spec{Cap: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			r := stuckRig(t)
			r.license("seat", 3)
			if c.before != nil {
				r.submit(c.node, submit.Job{Job: 2, Total: 3, Spec: *c.before})
				r.idle(10 * time.Millisecond)
				r.idle(c.wait)
			}
			r.stick()
			began := r.now
			r.submit(0, submit.Job{Job: 3, Total: 3, Spec: c.spec})
			j := r.run(3, time.Minute)
			if took := r.now - began; took > 3500*time.Millisecond || j.Tally().OK != 3 {
				t.Errorf("%+v after %v: want 3 ok within 3.5s", j.Tally(), took)
			}
		})
	}
}

// TestBagThatDiffersBehindAStuckBag submits a bag whose tasks differ.
func TestBagThatDiffersBehindAStuckBag(t *testing.T) {
	r := stuckRig(t)
	r.stick()
	began := r.now
	spec := record.Spec{Each: filch.Room{Slots: 1}, Needs: []record.Need{{Each: filch.Room{Slots: 2}}, {Each: filch.Room{Slots: 1, Named: "disk=1"}}}}
	r.differ(0, 3, false, spec, []byte{0, 1, 2})
	j := r.run(3, time.Minute)
	if took := r.now - began; took > 3500*time.Millisecond || j.Tally().OK != 3 {
		t.Errorf("%+v after %v: want 3 ok within 3.5s", j.Tally(), took)
	}
}

// TestStuckTaskGoesToRoom submits a task where its memory is in use. Another node has
// memory.
func TestStuckTaskGoesToRoom(t *testing.T) {
	r := stuckRig(t)
	big := record.Spec{Each: filch.Room{Slots: 1, MemBytes: 600 << 20}}
	r.submit(0, submit.Job{Job: 1, Total: 1, Spec: big})
	r.idle(100 * time.Millisecond)
	began := r.now
	r.submit(0, submit.Job{Job: 2, Total: 2, Spec: big})
	j := r.run(2, time.Minute)
	if took := r.now - began; took > 2500*time.Millisecond || j.Tally().OK != 2 {
		t.Errorf("%+v after %v: want 2 ok within 2.5s", j.Tally(), took)
	}
}

// TestStuckTasksRest has tasks for which no node has room, beside free slots on all nodes.
// The nodes must not pass the tasks around.
func TestStuckTasksRest(t *testing.T) {
	r := stuckRig(t)
	big := record.Spec{Each: filch.Room{Slots: 1, MemBytes: 600 << 20}}
	r.length = slow(time.Hour)
	r.submit(0, submit.Job{Job: 1, Total: 4, Spec: big})
	r.idle(5 * time.Second)
	if n := len(r.started); n != 4 {
		t.Fatalf("%d tasks started, want 4", n)
	}
	r.submit(1, submit.Job{Job: 2, Total: 3, Spec: big})
	r.submit(1, submit.Job{Job: 3, Total: 3, Spec: record.Spec{Each: filch.Room{Slots: 1, Named: "disk=4", MemBytes: 500 << 20}}})
	r.idle(5 * time.Second)
	clear(r.sent)
	merges := r.merges
	r.idle(time.Minute)
	if n := r.sent[message.KindOffer]; n > 0 {
		t.Errorf("%d offers in a minute, and %d commits", n, r.merges-merges)
	}
}

// TestThiefWithATokenTakesMore lets the only other node run one task with a seat. The other
// tasks wait on a node without a free slot, and there are seats for them.
func TestThiefWithATokenTakesMore(t *testing.T) {
	for name, spec := range map[string]record.Spec{"license": {License: record.License{Name: "seat", Each: 1}}, "cap": {Cap: 3}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 2, 4, policy.Policy{})
			r.license("seat", 3)
			r.length = func(s Start) time.Duration {
				if s.Job == 1 {
					return 30 * time.Second
				}
				return 10 * time.Second
			}
			r.submit(0, submit.Job{Job: 1, Total: 4, Spec: record.Spec{Nodes: &filch.Nodes{Only: []filch.NodeName{"n1"}}}})
			r.idle(time.Second)
			began := r.now
			r.submit(0, submit.Job{Job: 2, Total: 3, Spec: spec})
			j := r.run(2, time.Minute)
			if took := r.now - began; took > 12*time.Second || j.Tally().OK != 3 {
				t.Errorf("%+v after %v: want 3 ok within 12s", j.Tally(), took)
			}
		})
	}
}
