package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
)

// TestStoreRecoverAsksAgain brings shards back of which one disk has less than
// the other, and takes the better one away while it is being asked: the worse
// one does not speak for both as long as there is time to wait.
func TestStoreRecoverAsksAgain(t *testing.T) {
	l := newLab(t, 21)
	l.cluster(2)
	worse, better := l.nodes[0], l.nodes[1]
	worse.broken = true // it does not know yet, and what is not durable does not ask
	l.fill(better, "a", 50, false)
	l.run(time.Second)
	worse.down, better.down = true, true
	worse.broken = false
	fetches := 0
	l.tap = func(m message.Message) {
		if _, ok := m.(*message.Fetch); ok {
			fetches++
			l.cut = func(from, _ *labNode) bool { return from == worse }
		}
	}
	l.start(worse.name, false)
	l.start(better.name, false)
	l.until("the better disk asked", 10*time.Second, func() bool { return fetches > 0 })
	better.kill(0)
	l.run(RecoverAfter / 2)
	if st := worse.s.Status(); st.Replicas > 0 {
		t.Errorf("%s took %d shards without waiting for %s", worse.name, st.Replicas, better.name)
	}
	l.tap, l.cut = nil, func(*labNode, *labNode) bool { return false }
	l.start(better.name, false)
	l.settle(time.Minute)
	l.expect(worse, "a", 50, dht.Done)
	l.check()
}

// TestStoreRecoverGoesOn loses one of two disks for good, after it was asked
// for: the other one will do in the end.
func TestStoreRecoverGoesOn(t *testing.T) {
	l := newLab(t, 22)
	l.cluster(2)
	first, second := l.nodes[0], l.nodes[1]
	l.fill(second, "a", 50, true)
	l.run(time.Second)
	first.down, second.down = true, true
	fetches := 0
	l.tap = func(m message.Message) {
		if _, ok := m.(*message.Fetch); ok {
			fetches++
			l.cut = func(from, _ *labNode) bool { return from == first }
		}
	}
	l.start(first.name, false)
	l.start(second.name, false)
	l.until("the second disk asked", 10*time.Second, func() bool { return fetches > 0 })
	second.kill(0)
	l.until("all back from one disk", 3*RecoverAfter, func() bool { return first.s.Status().Homes == len(first.s.view.roster.Shards) })
	l.expect(first, "a", 50, dht.Done)
	l.check()
}

// unmark damages a disk: what says that it holds a shard is gone.
func (n *labNode) unmark(id dht.Shard) {
	n.damaged = true
	n.disk = slices.DeleteFunc(n.disk, func(e LogEntry) bool { return e.Key == markerKey(id) })
}

// lightly picks a shard that only one acceptor holds, and a key of it.
func (l *lab) lightly() (id dht.Shard, c *roster.Config, k dht.Key) {
	l.t.Helper()
	r := l.nodes[0].s.view.roster
	for i := range 1000 {
		k := dht.Key(fmt.Sprintf("a%d", i))
		id, c := r.HomeOf(k)
		acceptors := 0
		for _, x := range c.Replicas {
			if r.IsAcceptor(x.Name) {
				acceptors++
			}
		}
		if acceptors <= 1 && len(c.Replicas) == roster.Replicas {
			return id, c, k
		}
	}
	l.t.Fatal("every shard is held by two acceptors")
	return 0, nil, ""
}

// TestStoreRecoverUnmarked starts everything again with damaged disks that do
// not say any more that they hold a shard. Its config does; also when everybody
// ends again before he hears of it, and the disks are no longer damaged.
func TestStoreRecoverUnmarked(t *testing.T) {
	for _, lives := range []int{1, 2} {
		t.Run(fmt.Sprintf("lives-%d", lives), func(t *testing.T) {
			l := newLab(t, 23)
			l.cluster(6)
			id, c, k := l.lightly()
			l.nodes[0].one(dht.Op{Code: dht.OpInsert, Key: k, Value: []byte("v"), Durable: true})
			l.run(time.Second)
			for _, r := range c.Replicas {
				l.at[r.Name].unmark(id)
			}
			l.cut = func(*labNode, *labNode) bool { return true }
			for life := range lives {
				for _, n := range l.nodes {
					n.down = true
				}
				if life == lives-1 {
					l.cut = func(*labNode, *labNode) bool { return false }
				}
				for _, n := range l.nodes {
					l.start(n.name, false)
				}
				l.run(100 * time.Millisecond)
			}
			l.settle(time.Minute)
			if r := l.nodes[0].one(dht.Op{Code: dht.OpLookup, Key: k, Consistent: true}); r.Outcome != dht.Done {
				t.Errorf("got %v for a record that is on three damaged disks", r.Outcome)
			}
			l.check()
		})
	}
}

// TestStoreAcceptorStaysGivenUp damages the disk of an acceptor: it may have forgotten a
// promise, and does not sit there again in a later life either.
func TestStoreAcceptorStaysGivenUp(t *testing.T) {
	l := newLab(t, 26)
	l.cluster(3)
	l.run(time.Second)
	n := l.nodes[0]
	value := n.s.acceptor.value
	if value == nil {
		t.Fatalf("%s is no acceptor", n.name)
	}
	l.cut = func(*labNode, *labNode) bool { return true }
	for life := range 2 {
		n.down = true
		n.damaged = life == 0
		l.start(n.name, false)
		l.run(time.Second)
		n.do(func(out *Out) {
			m := &message.Install{Value: value.Since(nil)}
			m.From = l.nodes[1].inc
			n.s.Message(n.clock(), l.nodes[1].name, m, out)
		})
		if g := n.s.acceptor.generation; g != 0 {
			t.Errorf("after damage, life %d: %s sits in generation %d again", life, n.name, g)
		}
	}
}

// TestStoreRecoverUnmarkedWaits starts a damaged disk long before the others of
// a shard: it may have nothing of it, and is not taken alone. What it has of
// shards that are elsewhere now is removed.
func TestStoreRecoverUnmarkedWaits(t *testing.T) {
	l := newLab(t, 24)
	l.cluster(6)
	id, c, k := l.lightly()
	l.nodes[0].one(dht.Op{Code: dht.OpInsert, Key: k, Value: []byte("v"), Durable: true})
	l.run(time.Second)
	for _, n := range l.nodes {
		n.down = true
	}
	worse := l.at[c.Replicas[2].Name]
	for _, r := range c.Replicas {
		if n := l.at[r.Name]; !l.nodes[0].s.view.roster.IsAcceptor(r.Name) {
			worse = n
		}
	}
	worse.unmark(id)
	worse.disk = slices.DeleteFunc(worse.disk, func(e LogEntry) bool { return e.Key == recordKey+string(k) })
	late := 0
	for _, n := range l.nodes {
		if n == worse || !c.Has(dht.Replica{Name: n.name, Incarnation: n.inc}) {
			l.start(n.name, false)
		} else {
			late++
		}
	}
	for range 2 {
		l.run(2 * RecoverAfter)
		if cfg := worse.s.view.roster.Config(id); !worse.s.view.lost(cfg) {
			t.Fatalf("%s brought shard %d back alone, with %d of its disks away: %v", worse.name, id, late, cfg.Replicas)
		}
		worse.down = true
		l.start(worse.name, false)
	}
	for _, r := range c.Replicas {
		if n := l.at[r.Name]; n.down {
			l.start(n.name, false)
		}
	}
	l.settle(time.Minute)
	if r := l.nodes[0].one(dht.Op{Code: dht.OpLookup, Key: k, Consistent: true}); r.Outcome != dht.Done {
		t.Errorf("got %v for a record that two of three disks have", r.Outcome)
	}
	l.check()
}

// TestStoreFirstAcceptorDamaged starts everything again, and the first acceptor does not
// know any more that it is one. The others do not wait for it to act.
func TestStoreFirstAcceptorDamaged(t *testing.T) {
	l := newLab(t, 25)
	l.cluster(3)
	l.fill(l.nodes[0], "a", 50, true)
	l.run(time.Second)
	first := l.at[l.nodes[0].s.view.roster.Acceptors[0].Name]
	for _, n := range l.nodes {
		n.down = true
	}
	first.damaged = true
	for _, n := range l.nodes {
		l.start(n.name, false)
	}
	l.settle(time.Minute)
	l.expect(first, "a", 50, dht.Done)
	l.check()
}

// TestStoreAcceptorNeverInstalled starts everything again when one of three acceptors is
// damaged and the word that made another an acceptor was not on its disk yet: the third one
// has accepted what was proposed since, and acceptors it.
func TestStoreAcceptorNeverInstalled(t *testing.T) {
	l := newLab(t, 28)
	l.cluster(3)
	l.fill(l.nodes[0], "a", 50, true)
	l.run(time.Second)
	damaged, late, whole := l.nodes[0], l.nodes[1], l.nodes[2]
	if whole.s.acceptor.accepted == (message.Ballot{}) {
		t.Fatal("nothing was proposed to the acceptors")
	}
	for _, n := range l.nodes {
		n.down = true
	}
	damaged.damaged = true
	late.disk = slices.DeleteFunc(late.disk, func(e LogEntry) bool { return e.Key == diskPromise || e.Key == diskValue })
	for _, n := range l.nodes {
		l.start(n.name, false)
	}
	l.settle(time.Minute)
	l.expect(late, "a", 50, dht.Done)
	l.check()
}

// TestStoreAcceptorTorn moves the acceptors and ends everything while one of them logs that
// it is an acceptor again: its disk has one of the two entries that say so. An acceptor of the
// generation before has missed what that one accepted there. Together they are a
// majority of it, and must not go on from where the late one is.
func TestStoreAcceptorTorn(t *testing.T) {
	for entry, name := range []string{"the-first", "the-second"} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 29)
			l.cluster(4)
			was := l.nodes[0].s.view.roster
			torn, late := l.at[was.Acceptors[0].Name], l.at[was.Acceptors[2].Name]
			moved := false
			l.tap = func(m message.Message) {
				if _, ok := m.(*message.Install); ok && !moved {
					moved = true
					torn.tearAcceptor(entry)
					for _, n := range l.nodes {
						n.down = true
					}
				}
			}
			late.kill(0)
			l.until("the acceptors moved", time.Minute, func() bool { return moved })
			chosen := torn.s.view.roster
			l.start(torn.name, false)
			l.start(late.name, false)
			l.run(10 * time.Second)
			for _, n := range []*labNode{torn, late} {
				if r := n.s.view.roster; r != nil {
					t.Errorf("%s knows roster %d of generation %d: that one ended with roster %d", n.name, r.Epoch, r.Generation, chosen.Epoch)
				}
			}
			// A log that ends between the two costs no acceptor.
			if sits := torn.s.acceptor.generation == chosen.Generation; sits != (entry == 0) {
				t.Errorf("%s sits in generation %d", torn.name, torn.s.acceptor.generation)
			}
			for _, n := range l.nodes {
				if n.down {
					l.start(n.name, false)
				}
			}
			l.settle(time.Minute)
			if r := torn.s.view.roster; r.Epoch <= chosen.Epoch {
				t.Errorf("roster %d follows %d", r.Epoch, chosen.Epoch)
			}
			l.check()
		})
	}
}

// tearAcceptor ends a node's log as a crash may: of the entries of its acceptor that are not
// synced the disk has that one, and all that was logged before.
func (n *labNode) tearAcceptor(entry int) {
	at := slices.IndexFunc(n.buffer, func(e LogEntry) bool { return strings.HasPrefix(e.Key, "seat/") })
	if at < 0 {
		n.l.t.Fatalf("the acceptor of %s is on the disk", n.name)
	}
	n.disk = append(append(n.disk, n.buffer[:at]...), n.buffer[at+entry])
}

// TestStoreLogsDamageFirst starts a damaged disk whose first input is a message:
// the note of the damage is the first entry all the same, and it is taken back
// only when what makes up for the damage is on the disk.
func TestStoreLogsDamageFirst(t *testing.T) {
	l := newLab(t, 27)
	l.cluster(6)
	id, c, k := l.lightly()
	l.nodes[0].one(dht.Op{Code: dht.OpInsert, Key: k, Value: []byte("v"), Durable: true})
	l.run(time.Second)
	n := l.at[c.Replicas[1].Name]
	n.kill(time.Hour)
	n.unmark(id)
	s := New(Config{Self: n.name, Incarnation: n.inc + 1, Seed: 1})
	s.Restore(n.disk, true)
	var out Out
	var logs []LogEntry
	step := func(f func()) {
		out.Reset()
		f()
		logs = append(logs, out.Logs...)
	}
	other := l.nodes[0]
	if other == n {
		other = l.nodes[1]
	}
	m := &message.Roster{Deltas: []*roster.Delta{other.s.view.roster.Since(nil)}}
	m.From, m.Roster = other.inc, other.s.view.roster.Epoch
	step(func() { s.Message(0, other.name, m, &out) })
	var keys []string
	for _, e := range logs[:min(2, len(logs))] {
		keys = append(keys, e.Key)
	}
	if !slices.Equal(keys, []string{diskBorn, diskDamaged}) {
		t.Fatalf("the first entries of a damaged disk are %q", keys)
	}
	next := other.s.view.roster.Copy() // takes the new life in
	next.Epoch++
	next.Members = append(otherMembers(next.Members, n.name), roster.Member{Replica: s.self})
	m = &message.Roster{Deltas: []*roster.Delta{next.Since(nil)}}
	m.From, m.Roster = other.inc, next.Epoch
	step(func() { s.Message(0, other.name, m, &out) })
	note := func() bool {
		return slices.ContainsFunc(logs, func(e LogEntry) bool { return e.Key == diskDamaged && e.Value == nil })
	}
	if !slices.ContainsFunc(logs, func(e LogEntry) bool { return e.Key == markerKey(id) && e.Value != nil }) {
		t.Fatalf("shard %d is not marked again", id)
	}
	last := logs[len(logs)-1].Number
	step(func() { s.Synced(0, last-1, &out) })
	if note() {
		t.Error("the note of the damage goes before the disk has what makes up for it")
	}
	step(func() { s.Synced(0, last, &out) })
	if !note() {
		t.Error("the note of the damage stays")
	}
}

func otherMembers(all []roster.Member, n filch.NodeName) []roster.Member {
	return slices.DeleteFunc(slices.Clone(all), func(m roster.Member) bool { return m.Name == n })
}
