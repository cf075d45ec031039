package dht

import (
	"slices"
	"testing"
	"time"
)

// TestStoreSickLate lets the word that a disk takes nothing come to the steward
// once more, late, when the disk takes again.
func TestStoreSickLate(t *testing.T) {
	l := newLab(t, 31)
	l.cluster(4)
	steward, n := l.nodes[0], l.nodes[3]
	m := &msgAsk{changes: []change{{what: changeSick, who: n.s.self}}}
	m.from, m.roster = n.inc, n.s.roster.epoch
	steward.do(func(out *StoreOut) { steward.s.Message(steward.clock(), n.name, m, out) })
	l.until("the roster says that the disk is well, and the node has shards", 30*time.Second, func() bool {
		x := n.s.roster.member(n.name)
		return x != nil && !x.sick && n.s.roster.epoch > m.roster && n.s.Status().Replicas > 0
	})
}

// TestStoreSickFromTheStart lets a disk fail before its node is a member.
func TestStoreSickFromTheStart(t *testing.T) {
	l := newLab(t, 32)
	l.cluster(3)
	n := l.start("n3", false)
	n.broken = true
	n.do(func(out *StoreOut) { n.s.DiskFailed(n.clock(), "no space left", out) })
	l.until("the roster says that the disk is sick", 10*time.Second, func() bool {
		x := l.nodes[0].s.roster.member(n.name)
		return x != nil && x.sick
	})
}

// TestStoreFoundsNotOverDamage starts the first node of an instance on a damaged
// disk which still has records, but nothing that says of which shards.
func TestStoreFoundsNotOverDamage(t *testing.T) {
	l := newLab(t, 33)
	l.cluster(1)
	n := l.nodes[0]
	l.fill(n, "a", 20, true)
	l.run(time.Second)
	n.down = true
	n.disk = slices.DeleteFunc(n.disk, func(e LogEntry) bool { return strings.HasPrefix(e.Key, "m/") })
	n.damaged = true
	l.start(n.name, true)
	l.run(20 * time.Second)
	n.do(func(out *StoreOut) { n.s.AcceptLoss(n.clock(), 1<<40, nil, out) })
	l.run(20 * time.Second)
	n.do(func(out *StoreOut) { n.s.AcceptLoss(n.clock(), 1<<40+1, nil, out) })
	l.run(40 * time.Second)
	l.expect(n, "a", 20, Done)
}
