package store

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
)

// TestStoreSickLate lets the word that a disk takes nothing come to the proposer
// once more, late, when the disk takes again.
func TestStoreSickLate(t *testing.T) {
	l := newLab(t, 31)
	l.cluster(4)
	proposer, n := l.nodes[0], l.nodes[3]
	m := &message.Ask{Changes: []roster.Change{{What: roster.ChangeSick, Who: n.s.self}}}
	m.From, m.Roster = n.inc, n.s.view.roster.Epoch
	proposer.do(func(out *Out) { proposer.s.Message(proposer.clock(), n.name, m, out) })
	l.until("the roster says that the disk is well, and the node has shards", 30*time.Second, func() bool {
		x := n.s.view.roster.Member(n.name)
		return x != nil && !x.Sick && n.s.view.roster.Epoch > m.Roster && n.s.Status().Replicas > 0
	})
}

// TestStoreSickFromTheStart lets a disk fail before its node is a member.
func TestStoreSickFromTheStart(t *testing.T) {
	l := newLab(t, 32)
	l.cluster(3)
	n := l.start("n3", false)
	n.broken = true
	n.do(func(out *Out) { n.s.DiskFailed(n.clock(), "no space left", out) })
	l.until("the roster says that the disk is sick", 10*time.Second, func() bool {
		x := l.nodes[0].s.view.roster.Member(n.name)
		return x != nil && x.Sick
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
	n.do(func(out *Out) { n.s.AcceptLoss(n.clock(), 1<<40, nil, out) })
	l.run(20 * time.Second)
	n.do(func(out *Out) { n.s.AcceptLoss(n.clock(), 1<<40+1, nil, out) })
	l.run(40 * time.Second)
	l.expect(n, "a", 20, dht.Done)
}

// TestStoreWatchWaitsOnce lets a watch ask again and again at a home that waits
// for a replica: one question is enough.
func TestStoreWatchWaitsOnce(t *testing.T) {
	l := newLab(t, 34)
	l.cluster(3)
	key := dht.Key("waits")
	id, c := l.nodes[0].s.view.roster.HomeOf(key)
	home, n := l.at[c.Primary().Name], l.at[c.Replicas[1].Name]
	third := l.at[c.Replicas[2].Name]
	l.cut = func(from, to *labNode) bool { return from == third || to == third }
	for _, x := range l.nodes {
		x.s.proposer.at = filch.Never - 1 // nobody changes the roster
	}
	n.do(func(out *Out) { n.s.Watch(n.clock(), 7, key, dht.Version{}, out) })
	l.run(time.Minute)
	if sh := home.s.replica.shards[id]; len(sh.readers) > 2 {
		t.Errorf("after a minute %d questions of one watch wait", len(sh.readers))
	}
}

// TestStoreDeadExcludesNobody stops a node for long while it waits for an answer:
// it was declared dead meanwhile, and its word that the home is silent counts
// for nothing.
func TestStoreDeadExcludesNobody(t *testing.T) {
	l := newLab(t, 35)
	l.cluster(4)
	proposer := l.nodes[0]
	n := l.nodes[3]
	i := slices.IndexFunc(proposer.s.view.roster.Shards, func(c *roster.Config) bool { return !c.Has(n.s.self) && c.Primary() != proposer.s.self })
	if i < 0 {
		t.Fatal("no shard")
	}
	id := proposer.s.view.roster.ShardAt(i)
	key := keyIn(id)
	l.cut = func(_, to *labNode) bool { return to == n } // the answer is lost
	n.askFor(time.Minute, dht.Op{Code: dht.OpInsert, Key: key})
	n.pause = l.Now() + 20*time.Second
	for _, o := range l.nodes[:3] {
		o.do(func(out *Out) {
			o.s.Member(o.clock(), dht.Peer{Name: n.name, Incarnation: n.inc, State: dht.PeerDead}, out)
		})
	}
	l.run(15 * time.Second)
	before := proposer.s.view.roster.Config(id)
	l.run(10 * time.Second)
	after := proposer.s.view.roster.Config(id)
	if !after.Has(before.Primary()) {
		t.Errorf("the home %v was excluded, %v are left", before.Primary(), after.Replicas)
	}
}

// wokenExcludesNobody stops a node that waits for others to change a record of a
// shard, when what they answer is lost: begun again, it blames nobody for that.
func (l *lab) wokenExcludesNobody(n *labNode, id dht.Shard, stopped time.Duration) {
	l.t.Helper()
	l.cut = func(_, to *labNode) bool { return to == n }
	tag := n.askFor(time.Minute, dht.Op{Code: dht.OpInsert, Key: keyIn(id)})
	n.pause = l.Now() + stopped
	l.run(stopped - time.Second)
	l.cut = func(*labNode, *labNode) bool { return false }
	before := l.nodes[0].s.view.roster.Config(id)
	l.until("the answer", 10*time.Second, func() bool { return l.answered(tag, 1) })
	l.run(5 * time.Second)
	if after := l.nodes[0].s.view.roster.Config(id); after.Epoch != before.Epoch {
		l.t.Errorf("%s began again after %v, and %v became %v", n.name, stopped, before.Replicas, after.Replicas)
	}
}

// TestStoreWokenExcludesNobody stops a home for longer than a silent replica gets,
// when the acknowledgments it waits for are lost.
func TestStoreWokenExcludesNobody(t *testing.T) {
	l := newLab(t, 36)
	l.cluster(4)
	home := l.nodes[1]
	i := slices.IndexFunc(home.s.view.roster.Shards, func(c *roster.Config) bool { return c.Primary() == home.s.self })
	l.wokenExcludesNobody(home, home.s.view.roster.ShardAt(i), 10*time.Second)
}

// TestStoreWokenCaller is the same for who asks a home.
func TestStoreWokenCaller(t *testing.T) {
	l := newLab(t, 37)
	l.cluster(4)
	n := l.nodes[3]
	i := slices.IndexFunc(n.s.view.roster.Shards, func(c *roster.Config) bool { return !c.Has(n.s.self) })
	l.wokenExcludesNobody(n, n.s.view.roster.ShardAt(i), 14*time.Second)
}

// TestStoreForgetsBesideWork removes a record and keeps its shard at work: the
// removed record is forgotten in its time all the same.
func TestStoreForgetsBesideWork(t *testing.T) {
	l := newLab(t, 38)
	l.cluster(3)
	key := dht.Key("gone")
	id, c := l.nodes[0].s.view.roster.HomeOf(key)
	home := l.at[c.Primary().Name]
	home.one(dht.Op{Code: dht.OpInsert, Key: key})
	home.one(dht.Op{Code: dht.OpRemove, Key: key, Keep: time.Second})
	third := l.at[c.Replicas[2].Name]
	l.cut = func(from, to *labNode) bool { return from == third && to == home }
	home.ask(dht.Op{Code: dht.OpAppend, Key: keyIn(id), Value: []byte{1}})
	l.run(1500 * time.Millisecond)
	if r := home.s.replica.shards[id].records[key]; r != nil {
		t.Errorf("after %v the removed record is still there", l.Now())
	}
}

func keyIn(id dht.Shard) dht.Key {
	key := dht.Key("in")
	for !id.Holds(dht.PointOf(key)) {
		key += "x"
	}
	return key
}

// TestStoreAcceptorAsksAgain has an acceptor whose disk is empty when it begins again: it
// cannot be one, and its disk takes nothing just when it would say so.
func TestStoreAcceptorAsksAgain(t *testing.T) {
	l := newLab(t, 39)
	l.cluster(3)
	n := l.nodes[1]
	n.down = true
	l.run(20 * time.Millisecond)
	n.disk = nil
	l.start(n.name, false)
	l.run(1500 * time.Millisecond)
	l.cut = func(from, _ *labNode) bool { return from == n }
	n.broken = true
	n.do(func(out *Out) { n.s.DiskFailed(n.clock(), "no space left", out) })
	l.run(1500 * time.Millisecond)
	l.cut = func(*labNode, *labNode) bool { return false }
	n.broken = false
	n.do(func(out *Out) { n.s.DiskBack(n.clock(), out) })
	l.until("another acceptor, or this one in another generation", 30*time.Second, func() bool {
		r := l.nodes[0].s.view.roster
		return !r.IsAcceptor(n.name) || n.s.acceptor.generation == r.Generation
	})
}

// TestStoreCallersGaveUp asks a home that waits for a replica, for long, and gives
// each operation up: they do not wait there for ever.
func TestStoreCallersGaveUp(t *testing.T) {
	l := newLab(t, 42)
	l.cluster(3)
	key := dht.Key("waits")
	id, c := l.nodes[0].s.view.roster.HomeOf(key)
	home, n := l.at[c.Primary().Name], l.at[c.Replicas[1].Name]
	third := l.at[c.Replicas[2].Name]
	l.cut = func(from, to *labNode) bool { return from == third || to == third }
	for _, x := range l.nodes {
		x.s.proposer.at = filch.Never - 1 // nobody changes the roster
	}
	for range 2000 {
		n.askFor(2*time.Second, dht.Op{Code: dht.OpLookup, Key: key, Consistent: true}, dht.Op{Code: dht.OpAppend, Key: key, Value: []byte("x")})
		l.run(100 * time.Millisecond)
	}
	sh := home.s.replica.shards[id]
	if len(sh.readers) > 2*sweepFrom || len(sh.turns[key].queue) > 2*sweepFrom {
		t.Errorf("%d lookups and %d changes wait, of a caller that waits for %d", len(sh.readers), len(sh.turns[key].queue), n.s.Status().Pending)
	}
}

// TestStoreAcceptorOfThree begins one of three nodes again, on an empty disk and before
// anybody missed it: its acceptor is lost, and there is no other node for it.
func TestStoreAcceptorOfThree(t *testing.T) {
	l := newLab(t, 43)
	l.cluster(3)
	n := l.nodes[1]
	n.down, n.disk = true, nil
	l.start(n.name, false)
	l.until("an acceptor in another generation", 30*time.Second, func() bool { return n.s.Status().Acceptor })
}
