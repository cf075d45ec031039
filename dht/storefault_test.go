package dht

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

// TestStoreSurvivesDeaths kills nodes one after the other, primaries and
// seats among them, and looks for everything that was acknowledged.
func TestStoreSurvivesDeaths(t *testing.T) {
	l := newLab(t, 4)
	l.cluster(7)
	put := func(n *labNode, round int) {
		var ops []Op
		for i := range 100 {
			ops = append(ops, Op{Code: OpInsert, Key: Key(fmt.Sprintf("r%d/%d", round, i)), Value: []byte("v")})
		}
		for i, r := range n.get(ops...) {
			if r.Outcome != Done {
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
				if res := asker.one(Op{Code: OpLookup, Key: Key(fmt.Sprintf("r%d/%d", r, i)), Consistent: true}); res.Outcome != Done {
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
	key := Key("late")
	id, c := l.nodes[0].s.roster.homeOf(key)
	home := l.at[c.primary().Name]
	var others []*labNode
	for _, n := range l.nodes {
		if n != home {
			others = append(others, n)
		}
	}
	first, second := others[0], others[1]
	tests := []struct {
		op   Op
		want Outcome // of the repeat
		then Op      // makes room for the first try
		keep Outcome // of a lookup after it
	}{
		{Op{Code: OpRemove}, Absent, Op{Code: OpInsert}, Done},
		{Op{Code: OpInsert}, Exists, Op{Code: OpRemove}, Absent},
		{Op{Code: OpSwap, Expect: Version{1, 1}}, Absent, Op{Code: OpInsert}, Done},
	}
	for i, x := range tests {
		x.op.Key, x.then.Key = key, key
		x.op.ID = OpID{"client", 1, uint64(i + 1)}
		if r := second.one(x.op); r.Outcome != x.want {
			t.Fatalf("operation %d: got %v, want %v", i, r.Outcome, x.want)
		}
		if r := second.one(x.then); r.Outcome != Done {
			t.Fatalf("after operation %d: got %v", i, r.Outcome)
		}
		m := &msgOps{floor: first.s.calls.first, ops: []wireOp{{1000 + uint64(i), id, c.epoch, x.op}}}
		m.from, m.roster = first.inc, first.s.roster.epoch
		home.do(func(out *StoreOut) { home.s.Message(home.clock(), first.name, m, out) })
		l.run(100 * time.Millisecond)
		if r := second.one(Op{Code: OpLookup, Key: key, Consistent: true}); r.Outcome != x.keep {
			t.Errorf("operation %d was carried out late: a lookup says %v, want %v", i, r.Outcome, x.keep)
		}
		if x.keep == Done && i < len(tests)-1 && tests[i+1].want == Absent {
			second.one(Op{Code: OpRemove, Key: key})
		}
	}
}

// TestStoreDiskFailsUnderWay lets the disk of a home fail while a change is on
// its way to the other replicas: committed later, it is on the new disk.
func TestStoreDiskFailsUnderWay(t *testing.T) {
	l := newLab(t, 14)
	l.cluster(3)
	key := Key("under way")
	_, c := l.nodes[0].s.roster.homeOf(key)
	home := l.at[c.primary().Name]
	l.cut = func(from, to *labNode) bool { return from == home || to == home }
	tag := home.ask(Op{Code: OpInsert, Key: key, Value: []byte("v"), Durable: true})
	home.broken = true
	home.do(func(out *StoreOut) { home.s.DiskFailed(home.clock(), "no space left", out) })
	home.broken, home.disk, home.buffer = false, nil, nil
	home.do(func(out *StoreOut) { home.s.DiskBack(home.clock(), out) })
	l.cut = func(*labNode, *labNode) bool { return false }
	l.until("the answer", 10*time.Second, func() bool { return l.answered(tag, 1) })
	if r := l.done[tag][0]; r.Outcome != Done {
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
			n.do(func(out *StoreOut) { n.s.Leave(n.clock(), out) })
			if n.left {
				t.Fatalf("%s left with all that its disk has", n.name)
			}
		}
	}
	l.until("the node gone", time.Minute, func() bool { return l.nodes[0].left })
	l.nodes[0].kill(0)
	l.settle(time.Minute)
	l.expect(l.nodes[1], "a", 50, Done)
}

// TestStoreBegunThenDisk lets a home whose disk failed take up again, in the
// next epoch, what it had begun: others may have it, so it is not refused as
// if it had not been carried out.
func TestStoreBegunThenDisk(t *testing.T) {
	l := newLab(t, 16)
	l.cluster(3)
	l.quiet = true // the config below is not in the roster
	key := Key("begun")
	id, c := l.nodes[0].s.roster.homeOf(key)
	home := l.at[c.primary().Name]
	l.cut = func(_, to *labNode) bool { return to == home }
	tag := home.ask(Op{Code: OpInsert, Key: key, Value: []byte("v")})
	l.run(50 * time.Millisecond)
	home.broken = true
	home.do(func(out *StoreOut) { home.s.DiskFailed(home.clock(), "no space left", out) })
	home.do(func(out *StoreOut) {
		home.s.begin(home.clock(), out)
		defer home.s.end()
		home.s.configure(home.s.hold.shards[id], c.next(c.replicas[:2]))
	})
	l.run(50 * time.Millisecond)
	if !l.answered(tag, 1) || l.done[tag][0].Outcome != Unknown {
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
	l.tap = func(m StoreMessage) {
		ask, ok := m.(*msgAsk)
		if !ok {
			return
		}
		for _, c := range ask.changes {
			if c.what != changeRecovered {
				continue
			}
			asked++
			n := l.at[c.who.Name]
			var x decoder
			for _, e := range n.disk {
				if e.Key == markerKey(c.shard) {
					x.b = e.Value
				}
			}
			if inc := x.uvarint(); inc != c.who.Incarnation {
				t.Errorf("%v asks for shard %d, and its disk has that of incarnation %d", c.who, c.shard, inc)
				l.tap = nil
				return
			}
		}
	}
	for _, n := range l.nodes {
		l.start(n.name, false)
	}
	l.settle(time.Minute)
	l.expect(l.nodes[0], "a", 100, Done)
	if asked == 0 {
		t.Errorf("nobody asked another node for a shard")
	}
}

// TestStoreGivenUp lets an operation wait behind another one until its caller
// gave it up: the record may have forgotten it by then, and it is not carried out.
func TestStoreGivenUp(t *testing.T) {
	l := newLab(t, 18)
	l.cluster(3)
	key := Key("given up")
	_, c := l.nodes[0].s.roster.homeOf(key)
	home, caller := l.at[c.primary().Name], l.at[c.replicas[1].Name]
	third := l.at[c.replicas[2].Name]
	l.cut = func(from, to *labNode) bool { return from == third && to == home }
	home.ask(Op{Code: OpAppend, Key: key, Value: []byte("first")})
	l.run(20 * time.Millisecond)
	tag := caller.askFor(time.Second, Op{Code: OpAppend, Key: key, Value: []byte("second")})
	l.until("the call given up", 5*time.Second, func() bool { return l.answered(tag, 1) })
	if r := l.done[tag][0]; r.Outcome != Unknown {
		t.Fatalf("got %v, want unknown", r.Outcome)
	}
	caller.ask(Op{Code: OpLookup, Key: key, Consistent: true}) // tells what the caller waits for no more
	l.run(50 * time.Millisecond)
	l.cut = func(*labNode, *labNode) bool { return false }
	l.run(5 * time.Second)
	r := home.one(Op{Code: OpLookup, Key: key, Consistent: true})
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
		key := Key("of the dead")
		_, c := l.nodes[0].s.roster.homeOf(key)
		home, third := l.at[c.primary().Name], l.at[c.replicas[2].Name]
		var caller *labNode
		for _, n := range l.nodes {
			if !c.has(n.s.self) {
				caller = n
			}
		}
		silent := true
		l.cut = func(from, to *labNode) bool { return silent && from == third && to == home }
		home.ask(Op{Code: OpAppend, Key: key, Value: []byte("first")})
		l.run(20 * time.Millisecond)
		caller.ask(Op{Code: OpAppend, Key: key, Value: []byte("second")})
		l.run(20 * time.Millisecond)
		if caller.kill(10 * time.Millisecond); again {
			l.run(20 * time.Millisecond)
			l.start(caller.name, false)
		}
		l.run(100 * time.Millisecond)
		silent = false
		l.run(5 * time.Second)
		r := home.one(Op{Code: OpLookup, Key: key, Consistent: true})
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
	r := s.roster
	for i, c := range r.shards {
		if c.has(s.self) {
			continue
		}
		for _, x := range c.replicas[1:] {
			s.peers.get(x.Name).state = PeerSuspect
		}
		next := s.evolve(r, []change{{what: changeSick, who: c.primary()}})
		if next == nil {
			t.Fatal("the sick replica changes nothing")
		}
		if got := next.shards[i]; !got.has(c.primary()) {
			t.Errorf("shard %d is left to %v, of whom nobody is known to live", i, got.replicas)
		}
		return
	}
	t.Fatal("each shard is on the steward")
}

// TestStoreDurableLookup asks for a record durably before the disk of its only
// replica has it: the answer waits, as a crash now would take the record back.
func TestStoreDurableLookup(t *testing.T) {
	l := newLab(t, 20)
	l.cluster(1)
	n := l.nodes[0]
	l.run(time.Second)
	put := n.ask(Op{Code: OpInsert, Key: "k", Durable: true})
	look := n.ask(Op{Code: OpLookup, Key: "k", Consistent: true, Durable: true})
	if l.answered(put, 1) || l.answered(look, 1) {
		t.Fatal("answered before the disk had the record")
	}
	l.until("the answers", time.Second, func() bool { return l.answered(put, 1) && l.answered(look, 1) })
	if r := l.done[look][0]; r.Outcome != Done {
		t.Errorf("got %v", r.Outcome)
	}
}

// TestStoreDurableLookupWaitsForAllDisks asks for a record durably before the disk of
// one of its replicas has it: where the others lose theirs, it would be gone.
func TestStoreDurableLookupWaitsForAllDisks(t *testing.T) {
	l := newLab(t, 21)
	l.cluster(3)
	key := Key("k")
	_, c := l.nodes[0].s.roster.homeOf(key)
	home, slow := l.at[c.primary().Name], l.at[c.replicas[2].Name]
	l.run(time.Second)
	slow.timed = true // its sync takes long
	if r := home.one(Op{Code: OpInsert, Key: key}); r.Outcome != Done {
		t.Fatalf("got %v, want the record in memories", r.Outcome)
	}
	look := home.ask(Op{Code: OpLookup, Key: key, Consistent: true, Durable: true})
	l.run(500 * time.Millisecond)
	if l.answered(look, 1) {
		t.Fatal("answered before each disk had the record")
	}
	slow.timed = false
	slow.sync()
	l.until("the answer", time.Second, func() bool { return l.answered(look, 1) })
	if r := l.done[look][0]; r.Outcome != Done {
		t.Errorf("got %v", r.Outcome)
	}
}

// TestStoreLearnerOfAnotherLife is about a learner that was asked for, and began
// another life while a steward that nobody hears may have admitted the one
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
	i := slices.IndexFunc(x.s.roster.shards, func(c *shardConfig) bool { return !c.has(x.s.self) })
	id, planned := x.s.roster.shardAt(i), *x.s.roster.shards[i]
	old := Replica{x.name, x.inc - 1}
	planned.learner = old
	home := l.at[planned.primary().Name]
	x.s.roster.shards[i] = &planned

	key := Key("0")
	for n := 1; !id.holds(pointOf(key)); n++ {
		key = Key(fmt.Sprint(n))
	}
	rec := newRecord(record{kind: KindRegister, value: []byte("v"), version: Version{planned.epoch, 1}, stamp: Version{planned.epoch, 1}})
	send := func(m StoreMessage, knows uint64) (acks []batchAck) {
		m.head().from, m.head().roster = home.inc, knows
		l.tap = func(m StoreMessage) {
			if a, ok := m.(*msgAck); ok {
				acks = append(acks, a.batches...)
			}
		}
		x.do(func(out *StoreOut) { x.s.Message(x.clock(), home.name, m, out) })
		l.run(5 * time.Millisecond)
		l.tap = nil
		return acks
	}
	items := []item{{what: itemRecord, shard: id, epoch: planned.epoch, session: 9, key: key, rec: rec}}
	send(&msgSnapshot{shard: id, epoch: planned.epoch, session: 9, piece: 1, last: true, items: []keyed{{key, rec}}}, x.s.roster.epoch)
	if acks := send(&msgReplicate{batch: 1000, items: items}, x.s.roster.epoch); len(acks) != 1 || len(acks[0].over) != 1 {
		t.Errorf("the next life of a learner answers %+v, want that it is none", acks)
	}
	if acks := send(&msgReplicate{batch: 1001, items: items}, x.s.roster.epoch+1); len(acks) != 0 {
		t.Errorf("of a roster that it does not know it answers %+v, want nothing", acks)
	}
	if sh := x.s.hold.shards[id]; sh != nil {
		t.Errorf("it holds the shard: %+v", sh)
	}

	home.do(func(out *StoreOut) {
		s := home.s
		s.begin(home.clock(), out)
		defer s.end()
		sh := s.hold.shards[id]
		l := &learner{p: s.peers.know(x.name), who: old, session: 9, synced: true, asked: true}
		sh.cfg, sh.learn = &planned, l
		s.tutor(sh)
		if sh.learn != l || l.session != 9 {
			t.Errorf("%s goes on without the learner that may have been admitted", home.name)
		}
		f := &flight{sh: sh, epoch: planned.epoch, turn: &turn{key: key, cur: job{op: &Op{Code: OpLookup, Key: key}}}}
		f.turn.flight = f
		sh.turns[key] = f.turn
		s.aim(f, l.p, item{what: itemConfirm, shard: id, epoch: planned.epoch, session: 9}, false)
		s.dismiss(sh)
		if !f.done {
			t.Error("an operation waits for a learner that was dismissed and had said that it was none")
		}
	})
}

// TestStoreSeatsTheSworn has a node hear of two others that are gone: they become
// members, and no seat is given to who never said that it knows of that. (Two had
// left, and took the roster with them.)
func TestStoreSeatsTheSworn(t *testing.T) {
	l := newLab(t, 19)
	l.cluster(1)
	n := l.nodes[0]
	ghosts := []filch.NodeName{"g1", "g2"}
	for _, g := range ghosts {
		n.do(func(out *StoreOut) { n.s.Member(n.clock(), Peer{g, 1, PeerUp}, out) })
	}
	l.until("members", 10*time.Second, func() bool { return len(n.s.Status().Members) == 3 })
	l.run(10 * time.Second)
	if seats := n.s.Status().Seats; len(seats) != 1 || seats[0] != n.name {
		t.Errorf("the seats are %v, want only %s", seats, n.name)
	}
	for _, g := range ghosts {
		n.do(func(out *StoreOut) { n.s.Member(n.clock(), Peer{g, 1, PeerDead}, out) })
	}
	l.settle(time.Minute)
	if r := n.one(Op{Code: OpInsert, Key: "k", Value: []byte("v")}); r.Outcome != Done {
		t.Errorf("an insert with the others gone: %v %s", r.Outcome, r.Err)
	}
	for range 2 {
		l.start(filch.NodeName(fmt.Sprintf("n%d", len(l.nodes))), false)
	}
	l.settle(time.Minute)
	if seats := n.s.Status().Seats; len(seats) != 3 {
		t.Errorf("with three nodes the seats are %v", seats)
	}
}

// TestStoreLeavesNoSeat has a node leave that is no member any more, and still
// has a seat: it stays until another one has that.
func TestStoreLeavesNoSeat(t *testing.T) {
	l := newLab(t, 20)
	l.cluster(3)
	l.quiet = true // the roster below is nobody else's
	x := l.nodes[1]
	r := x.s.roster.copy()
	r.members = slices.DeleteFunc(r.members, func(m rosterMember) bool { return m.Name == x.name })
	for i, c := range r.shards {
		n := *c
		n.replicas = without(slices.Clone(c.replicas), x.s.self)
		r.shards[i] = &n
	}
	x.s.roster = r
	if !r.seated(x.name) || x.s.letGo() {
		t.Errorf("%s has a seat: %t, and may go: %t", x.name, r.seated(x.name), x.s.letGo())
	}
	r.seats = without(slices.Clone(r.seats), r.seats[slices.IndexFunc(r.seats, func(s Replica) bool { return s.Name == x.name })])
	if !x.s.letGo() {
		t.Errorf("%s has nothing left, and may not go", x.name)
	}
}

// TestStoreChosenByAnother has a node get chosen what another one had proposed: it
// tells all, the one who proposed it included.
func TestStoreChosenByAnother(t *testing.T) {
	l := newLab(t, 21)
	l.cluster(5)
	n := l.nodes[2]
	told := func() (names []filch.NodeName) {
		n.s.children(func(p *peer) { names = append(names, p.name) })
		slices.Sort(names)
		return names
	}
	n.s.roster.by, n.s.book.chose = "n0", 0
	if names := told(); slices.Contains(names, "n0") {
		t.Errorf("%s tells %v of what n0 proposed", n.name, names)
	}
	n.s.book.chose = n.s.roster.epoch
	if names := told(); !slices.Contains(names, "n0") || len(names) < 2 {
		t.Errorf("%s tells %v of what it got chosen", n.name, names)
	}
}
