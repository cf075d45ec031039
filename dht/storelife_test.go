package dht

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
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

// TestStoreWatchWaitsOnce lets a watch ask again and again at a home that waits
// for a replica: one question is enough.
func TestStoreWatchWaitsOnce(t *testing.T) {
	l := newLab(t, 34)
	l.cluster(3)
	key := Key("waits")
	id, c := l.nodes[0].s.roster.homeOf(key)
	home, n := l.at[c.primary().Name], l.at[c.replicas[1].Name]
	third := l.at[c.replicas[2].Name]
	l.cut = func(from, to *labNode) bool { return from == third || to == third }
	for _, x := range l.nodes {
		x.s.stew.at = filch.Never - 1 // nobody changes the roster
	}
	n.do(func(out *StoreOut) { n.s.Watch(n.clock(), 7, key, Version{}, out) })
	l.run(time.Minute)
	if sh := home.s.hold.shards[id]; len(sh.readers) > 2 {
		t.Errorf("after a minute %d questions of one watch wait", len(sh.readers))
	}
}

// TestStoreCallersGaveUp asks a home that waits for a replica, for long, and gives
// each operation up: they do not wait there for ever.
func TestStoreCallersGaveUp(t *testing.T) {
	l := newLab(t, 42)
	l.cluster(3)
	key := Key("waits")
	id, c := l.nodes[0].s.roster.homeOf(key)
	home, n := l.at[c.primary().Name], l.at[c.replicas[1].Name]
	third := l.at[c.replicas[2].Name]
	l.cut = func(from, to *labNode) bool { return from == third || to == third }
	for _, x := range l.nodes {
		x.s.stew.at = filch.Never - 1 // nobody changes the roster
	}
	for range 2000 {
		n.askFor(2*time.Second, Op{Code: OpLookup, Key: key, Consistent: true}, Op{Code: OpAppend, Key: key, Value: []byte("x")})
		l.run(100 * time.Millisecond)
	}
	sh := home.s.hold.shards[id]
	if len(sh.readers) > 2*sweepFrom || len(sh.turns[key].queue) > 2*sweepFrom {
		t.Errorf("%d lookups and %d changes wait, of a caller that waits for %d", len(sh.readers), len(sh.turns[key].queue), n.s.Status().Pending)
	}
}
