package store

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/dht/store/record"
	"github.com/filch-hpc/filch/varint"
)

// TestStoreSurvivesDeaths kills nodes one after the other, primaries and
// acceptors among them, and looks for everything that was acknowledged.
func TestStoreSurvivesDeaths(t *testing.T) {
	l := newLab(t, 4)
	l.cluster(7)
	put := func(n *labNode, round int) {
		var ops []dht.Op
		for i := range 100 {
			ops = append(ops, dht.Op{Code: dht.OpInsert, Key: dht.Key(fmt.Sprintf("r%d/%d", round, i)), Value: []byte("v")})
		}
		for i, r := range n.get(ops...) {
			if r.Outcome != dht.Done {
				t.Fatalf("round %d, operation %d: %v %s", round, i, r.Outcome, r.Err)
			}
		}
	}
	asker := l.nodes[6]
	put(asker, 0)
	for round, victim := range []int{0, 1, 2, 3} {
		l.nodes[victim].kill(50 * time.Millisecond)
		put(asker, round+1)
		l.settle(time.Minute)
		for r := range round + 2 {
			for i := range 100 {
				if res := asker.one(dht.Op{Code: dht.OpLookup, Key: dht.Key(fmt.Sprintf("r%d/%d", r, i)), Consistent: true}); res.Outcome != dht.Done {
					t.Fatalf("after %d deaths r%d/%d is %v %s", round+1, r, i, res.Outcome, res.Err)
				}
			}
		}
	}
	l.check()
}

// TestStoreFirstTryLate lets the first try of an operation arrive after its
// repeat through another node was answered: it is not carried out after all.
func TestStoreFirstTryLate(t *testing.T) {
	l := newLab(t, 13)
	l.cluster(3)
	key := dht.Key("late")
	id, c := l.nodes[0].s.view.roster.HomeOf(key)
	home := l.at[c.Primary().Name]
	var others []*labNode
	for _, n := range l.nodes {
		if n != home {
			others = append(others, n)
		}
	}
	first, second := others[0], others[1]
	tests := []struct {
		op   dht.Op
		want dht.Outcome // of the repeat
		then dht.Op      // makes room for the first try
		keep dht.Outcome // of a lookup after it
	}{
		{dht.Op{Code: dht.OpRemove}, dht.Absent, dht.Op{Code: dht.OpInsert}, dht.Done},
		{dht.Op{Code: dht.OpInsert}, dht.Exists, dht.Op{Code: dht.OpRemove}, dht.Absent},
		{dht.Op{Code: dht.OpSwap, Expect: dht.Version{Epoch: 1, Seq: 1}}, dht.Absent, dht.Op{Code: dht.OpInsert}, dht.Done},
	}
	for i, x := range tests {
		x.op.Key, x.then.Key = key, key
		x.op.ID = dht.OpID{Node: "client", Incarnation: 1, Seq: uint64(i + 1)}
		if r := second.one(x.op); r.Outcome != x.want {
			t.Fatalf("operation %d: got %v, want %v", i, r.Outcome, x.want)
		}
		if r := second.one(x.then); r.Outcome != dht.Done {
			t.Fatalf("after operation %d: got %v", i, r.Outcome)
		}
		m := &message.Ops{Floor: first.s.requests.first, Ops: []message.Op{{Number: 1000 + uint64(i), Shard: id, Epoch: c.Epoch, Op: x.op}}}
		m.From, m.Roster = first.inc, first.s.view.roster.Epoch
		home.do(func(out *Out) { home.s.Message(home.clock(), first.name, m, out) })
		l.run(100 * time.Millisecond)
		if r := second.one(dht.Op{Code: dht.OpLookup, Key: key, Consistent: true}); r.Outcome != x.keep {
			t.Errorf("operation %d was carried out late: a lookup says %v, want %v", i, r.Outcome, x.keep)
		}
		if x.keep == dht.Done && i < len(tests)-1 && tests[i+1].want == dht.Absent {
			second.one(dht.Op{Code: dht.OpRemove, Key: key})
		}
	}
}

// TestStoreDiskFailsUnderWay lets the disk of a home fail while a change is on
// its way to the other replicas: committed later, it is on the new disk.
func TestStoreDiskFailsUnderWay(t *testing.T) {
	l := newLab(t, 14)
	l.cluster(3)
	key := dht.Key("under way")
	_, c := l.nodes[0].s.view.roster.HomeOf(key)
	home := l.at[c.Primary().Name]
	l.cut = func(from, to *labNode) bool { return from == home || to == home }
	tag := home.ask(dht.Op{Code: dht.OpInsert, Key: key, Value: []byte("v"), Durable: true})
	home.broken = true
	home.do(func(out *Out) { home.s.DiskFailed(home.clock(), "no space left", out) })
	home.broken, home.disk, home.buffer = false, nil, nil
	home.do(func(out *Out) { home.s.DiskBack(home.clock(), out) })
	l.cut = func(*labNode, *labNode) bool { return false }
	l.until("the answer", 10*time.Second, func() bool { return l.answered(tag, 1) })
	if r := l.done[tag][0]; r.Outcome != dht.Done {
		t.Fatalf("got %v %s", r.Outcome, r.Err)
	}
	for _, e := range home.disk {
		if e.Key == recordKey+string(key) && e.Value != nil {
			return
		}
	}
	t.Errorf("%s answered, and its disk does not have the record", home.name)
}

// TestStoreLeavesNotBlind starts a node whose disk has the last of some shards,
// and has it leave before it was told anything.
func TestStoreLeavesNotBlind(t *testing.T) {
	l := newLab(t, 15)
	l.cluster(4)
	l.fill(l.nodes[0], "a", 50, true)
	l.run(time.Second)
	for _, n := range l.nodes {
		n.down = true
	}
	l.run(time.Second)
	for _, n := range l.nodes {
		l.start(n.name, false)
		if n == l.nodes[0] {
			n.do(func(out *Out) { n.s.Leave(n.clock(), out) })
			if n.left {
				t.Fatalf("%s left with all that its disk has", n.name)
			}
		}
	}
	l.until("the node gone", time.Minute, func() bool { return l.nodes[0].left })
	l.nodes[0].kill(0)
	l.settle(time.Minute)
	l.expect(l.nodes[1], "a", 50, dht.Done)
}

// TestStoreBegunThenDisk lets a home whose disk failed take up again, in the
// next epoch, what it had begun: others may have it, so it is not refused as
// if it had not been carried out.
func TestStoreBegunThenDisk(t *testing.T) {
	l := newLab(t, 16)
	l.cluster(3)
	l.quiet = true // the config below is not in the roster
	key := dht.Key("begun")
	id, c := l.nodes[0].s.view.roster.HomeOf(key)
	home := l.at[c.Primary().Name]
	l.cut = func(_, to *labNode) bool { return to == home }
	tag := home.ask(dht.Op{Code: dht.OpInsert, Key: key, Value: []byte("v")})
	l.run(50 * time.Millisecond)
	home.broken = true
	home.do(func(out *Out) { home.s.DiskFailed(home.clock(), "no space left", out) })
	home.do(func(out *Out) {
		home.s.begin(home.clock(), out)
		defer home.s.end()
		home.s.configure(home.s.replica.shards[id], c.Next(c.Replicas[:2]))
	})
	l.run(50 * time.Millisecond)
	if !l.answered(tag, 1) || l.done[tag][0].Outcome != dht.Unknown {
		t.Errorf("got %v for what others may have, want unknown", l.done[tag])
	}
}

// TestStoreRecoveredOnDisk looks that nobody asks for a shard that it brought
// back before its disk says so.
func TestStoreRecoveredOnDisk(t *testing.T) {
	l := newLab(t, 17)
	l.cluster(6)
	l.fill(l.nodes[0], "a", 100, true)
	l.run(time.Second)
	for _, n := range l.nodes {
		n.down = true
	}
	l.run(time.Second)
	asked := 0
	l.tap = func(m message.Message) {
		ask, ok := m.(*message.Ask)
		if !ok {
			return
		}
		for _, c := range ask.Changes {
			if c.What != roster.ChangeRecovered {
				continue
			}
			asked++
			n := l.at[c.Who.Name]
			var x varint.Reader
			for _, e := range n.disk {
				if e.Key == markerKey(c.Shard) {
					x = varint.Reader{B: e.Value}
				}
			}
			if inc := x.Uvarint(); inc != c.Who.Incarnation {
				t.Errorf("%v asks for shard %d, and its disk has that of incarnation %d", c.Who, c.Shard, inc)
				l.tap = nil
				return
			}
		}
	}
	for _, n := range l.nodes {
		l.start(n.name, false)
	}
	l.settle(time.Minute)
	l.expect(l.nodes[0], "a", 100, dht.Done)
	if asked == 0 {
		t.Errorf("nobody asked another node for a shard")
	}
}

// TestStoreGivenUp lets an operation wait behind another one until its caller
// gave it up: the record may have forgotten it by then, and it is not carried out.
func TestStoreGivenUp(t *testing.T) {
	l := newLab(t, 18)
	l.cluster(3)
	key := dht.Key("given up")
	_, c := l.nodes[0].s.view.roster.HomeOf(key)
	home, caller := l.at[c.Primary().Name], l.at[c.Replicas[1].Name]
	third := l.at[c.Replicas[2].Name]
	l.cut = func(from, to *labNode) bool { return from == third && to == home }
	home.ask(dht.Op{Code: dht.OpAppend, Key: key, Value: []byte("first")})
	l.run(20 * time.Millisecond)
	tag := caller.askFor(time.Second, dht.Op{Code: dht.OpAppend, Key: key, Value: []byte("second")})
	l.until("the call given up", 5*time.Second, func() bool { return l.answered(tag, 1) })
	if r := l.done[tag][0]; r.Outcome != dht.Unknown {
		t.Fatalf("got %v, want unknown", r.Outcome)
	}
	caller.ask(dht.Op{Code: dht.OpLookup, Key: key, Consistent: true}) // tells what the caller waits for no more
	l.run(50 * time.Millisecond)
	l.cut = func(*labNode, *labNode) bool { return false }
	l.run(5 * time.Second)
	r := home.one(dht.Op{Code: dht.OpLookup, Key: key, Consistent: true})
	if bytes.Contains(r.Value, []byte("second")) || !bytes.Contains(r.Value, []byte("first")) {
		t.Errorf("the list is %q, want the first element only", r.Value)
	}
}

// TestStoreOfTheDeadBeginsNothing lets an operation wait behind another one until its
// caller is dead. It is not carried out: those who clear up after the caller may have
// been here before. (A range of tasks was given to a node that had been dead for
// 20 s, and stayed with it.)
func TestStoreOfTheDeadBeginsNothing(t *testing.T) {
	for _, again := range []bool{false, true} {
		l := newLab(t, 18)
		l.cluster(4)
		key := dht.Key("of the dead")
		_, c := l.nodes[0].s.view.roster.HomeOf(key)
		home, third := l.at[c.Primary().Name], l.at[c.Replicas[2].Name]
		var caller *labNode
		for _, n := range l.nodes {
			if !c.Has(n.s.self) {
				caller = n
			}
		}
		silent := true
		l.cut = func(from, to *labNode) bool { return silent && from == third && to == home }
		home.ask(dht.Op{Code: dht.OpAppend, Key: key, Value: []byte("first")})
		l.run(20 * time.Millisecond)
		caller.ask(dht.Op{Code: dht.OpAppend, Key: key, Value: []byte("second")})
		l.run(20 * time.Millisecond)
		if caller.kill(10 * time.Millisecond); again {
			l.run(20 * time.Millisecond)
			l.start(caller.name, false)
		}
		l.run(100 * time.Millisecond)
		silent = false
		l.run(5 * time.Second)
		r := home.one(dht.Op{Code: dht.OpLookup, Key: key, Consistent: true})
		if bytes.Contains(r.Value, []byte("second")) || !bytes.Contains(r.Value, []byte("first")) {
			t.Errorf("again %t: the list is %q, want the first element only", again, r.Value)
		}
	}
}

// TestStoreSickNotLeftForSilent lets one replica of a shard be sick while the
// others are silent: it is not dropped, they may be dead.
func TestStoreSickNotLeftForSilent(t *testing.T) {
	l := newLab(t, 19)
	l.cluster(4)
	s := l.nodes[0].s
	r := s.view.roster
	for i, c := range r.Shards {
		if c.Has(s.self) {
			continue
		}
		for _, x := range c.Replicas[1:] {
			s.peers.get(x.Name).state = dht.PeerSuspect
		}
		next := s.proposer.next(r, []roster.Change{{What: roster.ChangeSick, Who: c.Primary()}})
		if next == nil {
			t.Fatal("the sick replica changes nothing")
		}
		if got := next.Shards[i]; !got.Has(c.Primary()) {
			t.Errorf("shard %d is left to %v, of whom nobody is known to live", i, got.Replicas)
		}
		return
	}
	t.Fatal("each shard is on the proposer")
}

// TestStoreDurableLookup asks for a record durably before the disk of its only
// replica has it: the answer waits, as a crash now would take the record back.
func TestStoreDurableLookup(t *testing.T) {
	l := newLab(t, 20)
	l.cluster(1)
	n := l.nodes[0]
	l.run(time.Second)
	put := n.ask(dht.Op{Code: dht.OpInsert, Key: "k", Durable: true})
	look := n.ask(dht.Op{Code: dht.OpLookup, Key: "k", Consistent: true, Durable: true})
	if l.answered(put, 1) || l.answered(look, 1) {
		t.Fatal("answered before the disk had the record")
	}
	l.until("the answers", time.Second, func() bool { return l.answered(put, 1) && l.answered(look, 1) })
	if r := l.done[look][0]; r.Outcome != dht.Done {
		t.Errorf("got %v", r.Outcome)
	}
}

// TestStoreDurableLookupWaitsForAllDisks asks for a record durably before the disk of
// one of its replicas has it: where the others lose theirs, it would be gone.
func TestStoreDurableLookupWaitsForAllDisks(t *testing.T) {
	l := newLab(t, 21)
	l.cluster(3)
	key := dht.Key("k")
	_, c := l.nodes[0].s.view.roster.HomeOf(key)
	home, slow := l.at[c.Primary().Name], l.at[c.Replicas[2].Name]
	l.run(time.Second)
	slow.timed = true // its sync takes long
	if r := home.one(dht.Op{Code: dht.OpInsert, Key: key}); r.Outcome != dht.Done {
		t.Fatalf("got %v, want the record in memories", r.Outcome)
	}
	look := home.ask(dht.Op{Code: dht.OpLookup, Key: key, Consistent: true, Durable: true})
	l.run(500 * time.Millisecond)
	if l.answered(look, 1) {
		t.Fatal("answered before each disk had the record")
	}
	slow.timed = false
	slow.sync()
	l.until("the answer", time.Second, func() bool { return l.answered(look, 1) })
	if r := l.done[look][0]; r.Outcome != dht.Done {
		t.Errorf("got %v", r.Outcome)
	}
}

// TestStoreLearnerOfAnotherLife is about a learner that was asked for, and began
// another life while a proposer that nobody hears may have admitted the one
// before. The new one says that it is no learner, and keeps what its disk has;
// and its word is none for the old one, which the primary still waits for. (Both
// said otherwise, and a primary that had been shrunk away acknowledged what nobody
// else had.)
func TestStoreLearnerOfAnotherLife(t *testing.T) {
	l := newLab(t, 17)
	l.cluster(4)
	x := l.nodes[3]
	x.kill(10 * time.Millisecond)
	l.settle(time.Minute)
	l.start(x.name, false)
	l.settle(time.Minute)
	l.quiet = true // the config below is not in the roster
	i := slices.IndexFunc(x.s.view.roster.Shards, func(c *roster.Config) bool { return !c.Has(x.s.self) })
	id, planned := x.s.view.roster.ShardAt(i), *x.s.view.roster.Shards[i]
	old := dht.Replica{Name: x.name, Incarnation: x.inc - 1}
	planned.Learner = old
	home := l.at[planned.Primary().Name]
	x.s.view.roster.Shards[i] = &planned

	key := dht.Key("0")
	for n := 1; !id.Holds(dht.PointOf(key)); n++ {
		key = dht.Key(fmt.Sprint(n))
	}
	rec := record.New(record.Record{Kind: dht.KindRegister, Value: []byte("v"), Version: dht.Version{Epoch: planned.Epoch, Seq: 1}, Stamp: dht.Version{Epoch: planned.Epoch, Seq: 1}})
	send := func(m message.Message, knows uint64) (acks []message.BatchAck) {
		m.Head().From, m.Head().Roster = home.inc, knows
		l.tap = func(m message.Message) {
			if a, ok := m.(*message.Ack); ok {
				acks = append(acks, a.Batches...)
			}
		}
		x.do(func(out *Out) { x.s.Message(x.clock(), home.name, m, out) })
		l.run(5 * time.Millisecond)
		l.tap = nil
		return acks
	}
	items := []message.Item{{What: message.ItemRecord, Shard: id, Epoch: planned.Epoch, Session: 9, Key: key, Rec: rec}}
	send(&message.Snapshot{Shard: id, Epoch: planned.Epoch, Session: 9, Piece: 1, Last: true, Items: []message.Keyed{{Key: key, Rec: rec}}}, x.s.view.roster.Epoch)
	if acks := send(&message.Replicate{Batch: 1000, Items: items}, x.s.view.roster.Epoch); len(acks) != 1 || len(acks[0].Over) != 1 {
		t.Errorf("the next life of a learner answers %+v, want that it is none", acks)
	}
	if acks := send(&message.Replicate{Batch: 1001, Items: items}, x.s.view.roster.Epoch+1); len(acks) != 0 {
		t.Errorf("of a roster that it does not know it answers %+v, want nothing", acks)
	}
	if sh := x.s.replica.shards[id]; sh != nil {
		t.Errorf("it holds the shard: %+v", sh)
	}

	home.do(func(out *Out) {
		s := home.s
		s.begin(home.clock(), out)
		defer s.end()
		sh := s.replica.shards[id]
		l := &learner{p: s.peers.know(x.name), who: old, session: 9, synced: true, asked: true}
		sh.cfg, sh.learn = &planned, l
		s.learners.catchUp(sh)
		if sh.learn != l || l.session != 9 {
			t.Errorf("%s goes on without the learner that may have been admitted", home.name)
		}
		f := &flight{sh: sh, epoch: planned.Epoch, turn: &turn{key: key, cur: job{op: &dht.Op{Code: dht.OpLookup, Key: key}}}}
		f.turn.flight = f
		sh.turns[key] = f.turn
		s.primary.aim(f, l.p, message.Item{What: message.ItemConfirm, Shard: id, Epoch: planned.Epoch, Session: 9}, false)
		l.p.streams.by[0].queue[len(l.p.streams.by[0].queue)-1].flight = nil // the learner said so
		s.learners.dismiss(sh)
		if !f.done {
			t.Error("an operation waits for a learner that was dismissed and had said that it was none")
		}
	})
}

// TestStoreConfirmedAcceptors has a node hear of two others that are gone: they become
// members, and no acceptor is given to who never said that it knows of that. (Two had
// left, and took the roster with them.)
func TestStoreConfirmedAcceptors(t *testing.T) {
	l := newLab(t, 19)
	l.cluster(1)
	n := l.nodes[0]
	ghosts := []filch.NodeName{"g1", "g2"}
	for _, g := range ghosts {
		n.do(func(out *Out) { n.s.Member(n.clock(), dht.Peer{Name: g, Incarnation: 1, State: dht.PeerUp}, out) })
	}
	l.until("members", 10*time.Second, func() bool { return len(n.s.Status().Members) == 3 })
	l.run(10 * time.Second)
	if acceptors := n.s.Status().Acceptors; len(acceptors) != 1 || acceptors[0] != n.name {
		t.Errorf("the acceptors are %v, want only %s", acceptors, n.name)
	}
	for _, g := range ghosts {
		n.do(func(out *Out) { n.s.Member(n.clock(), dht.Peer{Name: g, Incarnation: 1, State: dht.PeerDead}, out) })
	}
	l.settle(time.Minute)
	if r := n.one(dht.Op{Code: dht.OpInsert, Key: "k", Value: []byte("v")}); r.Outcome != dht.Done {
		t.Errorf("an insert with the others gone: %v %s", r.Outcome, r.Err)
	}
	for range 2 {
		l.start(filch.NodeName(fmt.Sprintf("n%d", len(l.nodes))), false)
	}
	l.settle(time.Minute)
	if acceptors := n.s.Status().Acceptors; len(acceptors) != 3 {
		t.Errorf("with three nodes the acceptors are %v", acceptors)
	}
}

// TestStoreLeavesNoAcceptor has a node leave that is no member any more, and still
// has an acceptor: it stays until another one has that.
func TestStoreLeavesNoAcceptor(t *testing.T) {
	l := newLab(t, 20)
	l.cluster(3)
	l.quiet = true // the roster below is nobody else's
	x := l.nodes[1]
	r := x.s.view.roster.Copy()
	r.Members = slices.DeleteFunc(r.Members, func(m roster.Member) bool { return m.Name == x.name })
	for i, c := range r.Shards {
		n := *c
		n.Replicas = roster.Without(slices.Clone(c.Replicas), x.s.self)
		r.Shards[i] = &n
	}
	x.s.view.roster = r
	if !r.IsAcceptor(x.name) || x.s.membership.letGo() {
		t.Errorf("%s has an acceptor: %t, and may go: %t", x.name, r.IsAcceptor(x.name), x.s.membership.letGo())
	}
	r.Acceptors = roster.Without(slices.Clone(r.Acceptors), r.Acceptors[slices.IndexFunc(r.Acceptors, func(s dht.Replica) bool { return s.Name == x.name })])
	if !x.s.membership.letGo() {
		t.Errorf("%s has nothing left, and may not go", x.name)
	}
}
