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

// A bag that does not fit on its node goes down a tree of nodes, each part once, and all nodes have
// their parts before a thief gets any: no task waits for a slot elsewhere (MATRIX v2's ideal, the
// time of a slot's tasks, is missed by the way down the tree alone).
func TestBagGoesDownATree(t *testing.T) {
	const nodes, slots, each = 40, 2, 5
	r := newRig(t, nodes, slots, policy.Policy{})
	r.length = slow(50 * time.Millisecond)
	gifts, early := map[filch.NodeName]int{}, 0
	r.hear = func(from, to filch.NodeName, m message.Message) {
		if m, is := m.(*message.Offer); is && len(m.Ranges) > 0 {
			if m.Last != "" {
				gifts[to]++
			} else if r.now < 25*time.Millisecond {
				early++
			}
		}
	}
	r.submit(0, submit.Job{Job: 1, Total: nodes * slots * each})
	if got, want := r.run(1, time.Minute).Tally(), (record.Tally{OK: nodes * slots * each}); got != want {
		t.Errorf("tally %+v, want %+v", got, want)
	}
	if len(gifts) != nodes-1 || early > 0 {
		t.Errorf("%d of %d other nodes got a part by the tree, and thieves %d meanwhile", len(gifts), nodes-1, early)
	}
	for n, k := range gifts {
		if k != 1 {
			t.Errorf("%s got %d parts, want 1", n, k)
		}
	}
	for i := range nodes {
		if n := r.byNode[nodeName(i)]; n != slots*each {
			t.Errorf("%s ran %d tasks, want %d", nodeName(i), n, slots*each)
		}
	}
}

// A part whose offer is lost goes back to the node before it in the tree.
func TestLostPartOfATreeComesBack(t *testing.T) {
	const nodes, total = 40, 400
	r := newRig(t, nodes, 2, policy.Policy{})
	r.length = slow(20 * time.Millisecond)
	lost := 0
	r.lose = func(m message.Message) bool {
		o, is := m.(*message.Offer)
		if is = is && o.Last != "" && lost < 2; is {
			lost++
		}
		return is
	}
	r.submit(0, submit.Job{Job: 1, Total: total})
	if got, want := r.run(1, time.Minute).Tally(), (record.Tally{OK: total}); got != want || lost < 2 {
		t.Errorf("tally %+v after %d lost offers, want %+v", got, lost, want)
	}
}
