package mtc

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// touches reports whether p does kind to a task of block 0 for a node.
func touches(t *testing.T, p *record.Proposal, kind record.BlockOpKind, node filch.NodeName, off uint8) bool {
	t.Helper()
	if p.Op != record.OpMerge || p.Kind != record.RecordBlock {
		return false
	}
	ops, _, err := record.DecodeBlockOps(p.Delta)
	if err != nil {
		t.Fatal(err)
	}
	for i := range ops {
		if ops[i].Kind == kind && ops[i].Off == off && ops[i].Owner.Node == node {
			return true
		}
	}
	return false
}

// hold keeps the first operation of that kind from the store, until it is let go.
func (r *rig) hold(kind record.BlockOpKind, node filch.NodeName, off uint8) (held func() bool, letGo func()) {
	var first *record.Proposal
	r.store.mute = func(p record.Proposal) bool {
		if first != nil || !touches(r.t, &p, kind, node, off) {
			return false
		}
		first = &p
		return true
	}
	return func() bool { return first != nil }, func() {
		r.propose(r.node(node), *first)
	}
}

// until goes on until something is so, a minute at most.
func (r *rig) until(what string, so func() bool) {
	r.t.Helper()
	limit := r.now + time.Minute
	for !so() {
		if !r.step(limit) {
			r.t.Fatalf("after a minute: not %s", what)
		}
	}
}

// The store may take in the end of a task long after the node that recorded it
// died. Nobody tells the leader of that end, and the tasks behind it begin all
// the same.
func TestEndRecordedAfterItsNodeDied(t *testing.T) {
	for _, moment := range []string{"before it is taken", "before it starts again", "before it moves on"} {
		t.Run(moment, func(t *testing.T) {
			r := newRig(t, 3, 1, policy.Policy{})
			home, leader, dead := r.nodes[0], r.nodes[1], r.nodes[2]
			r.length = slow(time.Second)
			r.submit(1, submit.Job{Job: 1, Nodes: workflow(nil, nil, nil, []int32{0, 1, 2})})
			r.until("all began", func() bool { return len(r.started) == 3 })
			var task uint8 // the one that runs on the node which dies
			for i := range int32(3) {
				if r.task(1, i).Owner.Node == dead.cfg.Self {
					task = uint8(i)
				}
			}
			ended, keep := r.hold(record.BlockEnd, dead.cfg.Self, task)
			r.until("ended", ended)
			r.idle(100 * time.Millisecond)
			dead.down, dead.running, dead.mail = true, nil, nil
			hear := func(d *rigNode) {
				d.SetMember(r.now, filch.Member{Name: dead.cfg.Self, Incarnation: 1, Standing: filch.Dead}, &d.out)
				r.act(d)
				r.step(r.now)
			}
			hear(leader)
			switch moment {
			case "before it is taken":
				keep()
				hear(home)
			case "before it starts again":
				began, start := r.hold(record.BlockStart, home.cfg.Self, task)
				hear(home)
				r.until("taken and begun", began)
				keep()
				start()
			case "before it moves on":
				home.SetRoom(r.now, filch.Room{}, &home.out)
				moved, move := r.hold(record.BlockMove, leader.cfg.Self, task)
				hear(home)
				r.until("stolen", moved)
				keep()
				move()
			}
			if got := r.run(1, 10*time.Second).Tally(); got.OK != 4 {
				t.Errorf("tally %+v, want 4 ok", got)
			}
			if n := len(r.started); n != 4 {
				t.Errorf("%d starts, want one of each of 4 tasks", n)
			}
		})
	}
}
