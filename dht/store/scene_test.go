package store

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

func (l *lab) fill(n *labNode, prefix string, count int, durable bool) {
	l.t.Helper()
	var ops []dht.Op
	for i := range count {
		ops = append(ops, dht.Op{Code: dht.OpInsert, Key: dht.Key(fmt.Sprintf("%s%d", prefix, i)), Value: []byte(prefix), Durable: durable})
	}
	for _, r := range n.get(ops...) {
		if r.Outcome != dht.Done {
			l.t.Fatalf("an insert of %s: %v %s", prefix, r.Outcome, r.Err)
		}
	}
}

func (l *lab) expect(n *labNode, prefix string, count int, want dht.Outcome) {
	l.t.Helper()
	for i := range count {
		if r := n.one(dht.Op{Code: dht.OpLookup, Key: dht.Key(fmt.Sprintf("%s%d", prefix, i)), Consistent: true}); r.Outcome != want {
			l.t.Fatalf("%s%d: got %v (%s), want %v", prefix, i, r.Outcome, r.Err, want)
		}
	}
}

// TestStoreRestart ends the whole instance and starts it from its disks.
func TestStoreRestart(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 6, 17} {
		t.Run(fmt.Sprintf("nodes-%d", nodes), func(t *testing.T) {
			l := newLab(t, 5)
			l.cluster(nodes)
			l.fill(l.nodes[nodes-1], "a", 200, true)
			l.run(time.Second)
			for round := range 2 {
				for _, n := range l.nodes {
					n.down = true
				}
				l.run(time.Second)
				for _, n := range l.nodes {
					l.start(n.name, false)
					l.run(300 * time.Millisecond)
				}
				l.settle(time.Minute)
				l.expect(l.nodes[0], "a", 200, dht.Done)
				l.fill(l.nodes[0], fmt.Sprintf("b%d/", round), 50, true)
			}
			l.check()
		})
	}
}

// TestStoreLoss loses all disks of some shards: they are unavailable until
// somebody accepts it.
func TestStoreLoss(t *testing.T) {
	l := newLab(t, 6)
	l.cluster(6)
	l.fill(l.nodes[0], "a", 300, true)
	var victims []*labNode
	for _, c := range l.nodes[0].s.view.roster.Shards {
		victims = victims[:0]
		for _, r := range c.Replicas {
			victims = append(victims, l.at[r.Name])
		}
		acceptors := 0
		for _, n := range victims {
			if l.nodes[0].s.view.roster.IsAcceptor(n.name) {
				acceptors++
			}
		}
		if acceptors < 2 {
			break // a majority of them stays
		}
	}
	for _, n := range victims {
		n.disk = nil
		n.kill(10 * time.Millisecond)
	}
	var live []*labNode
	for _, n := range l.nodes {
		if !n.down {
			live = append(live, n)
		}
	}
	asker := live[0]
	l.run(10 * time.Second)
	st := asker.s.Status()
	if len(st.Lost) == 0 {
		t.Fatalf("no shard is lost with %d nodes", len(victims))
	}
	var gone dht.Key
	for i := range 300 {
		k := dht.Key(fmt.Sprintf("a%d", i))
		if _, c := asker.s.view.roster.HomeOf(k); asker.s.view.lost(c) {
			gone = k
		}
	}
	if r := asker.one(dht.Op{Code: dht.OpLookup, Key: gone, Consistent: true}); r.Outcome != dht.Unavailable {
		t.Errorf("got %v for a lost record, want unavailable", r.Outcome)
	}
	l.tag++
	tag := l.tag
	live[1].do(func(out *Out) { live[1].s.AcceptLoss(live[1].clock(), tag, nil, out) })
	l.until("the loss accepted", 15*time.Second, func() bool { return l.answered(tag, 1) })
	if r := l.done[tag][0]; r.Outcome != dht.Done || int(r.Version.Seq) != len(st.Lost) {
		t.Errorf("got %v of %d shards, want %d", r.Outcome, r.Version.Seq, len(st.Lost))
	}
	if r := asker.one(dht.Op{Code: dht.OpLookup, Key: gone, Consistent: true}); r.Outcome != dht.Absent {
		t.Errorf("got %v for a record given up, want absent", r.Outcome)
	}
	l.settle(time.Minute)
}

// TestStoreLeave lets nodes go one by one, acceptors too, down to one.
func TestStoreLeave(t *testing.T) {
	l := newLab(t, 7)
	l.cluster(6)
	l.fill(l.nodes[0], "a", 200, false)
	for i := range 5 {
		n := l.nodes[i]
		n.do(func(out *Out) { n.s.Leave(n.clock(), out) })
		l.until(fmt.Sprintf("%s let go", n.name), time.Minute, func() bool { return n.left })
		n.down = true
		inc := n.inc
		for _, o := range l.nodes {
			o.do(func(out *Out) {
				o.s.Member(o.clock(), dht.Peer{Name: n.name, Incarnation: inc, State: dht.PeerLeft}, out)
			})
		}
		l.settle(time.Minute)
		l.expect(l.nodes[5], "a", 200, dht.Done)
	}
	l.fill(l.nodes[5], "b", 20, true)
}

// TestStoreDiskFails lets a disk fail and come back, on a node among three
// others and on one alone.
func TestStoreDiskFails(t *testing.T) {
	for _, nodes := range []int{1, 4} {
		t.Run(fmt.Sprintf("nodes-%d", nodes), func(t *testing.T) {
			l := newLab(t, 8)
			l.cluster(nodes)
			l.fill(l.nodes[0], "a", 200, true)
			n := l.nodes[0]
			n.broken = true
			n.do(func(out *Out) { n.s.DiskFailed(n.clock(), "no space left", out) })
			if nodes == 1 {
				if r := n.one(dht.Op{Code: dht.OpInsert, Key: "b"}); r.Outcome != dht.Unavailable {
					t.Errorf("got %v from a node that cannot log, want unavailable", r.Outcome)
				}
				l.expect(n, "a", 10, dht.Done)
			} else {
				l.until("the node shrunk away", 20*time.Second, func() bool {
					st := n.s.Status()
					return st.Replicas == 0
				})
				l.fill(n, "b", 200, true)
			}
			n.broken, n.disk = false, nil
			n.do(func(out *Out) { n.s.DiskBack(n.clock(), out) })
			l.settle(time.Minute)
			l.fill(n, "c", 100, true)
			l.expect(n, "a", 200, dht.Done)
			if st := n.s.Status(); st.Replicas == 0 {
				t.Errorf("the node holds nothing after its disk is back")
			}
			l.run(time.Second)
			n.down = true
			for _, o := range l.nodes {
				if o != n {
					o.hear(n, dht.PeerDead)
				}
			}
			l.start(n.name, false)
			l.settle(time.Minute)
			l.expect(n, "c", 100, dht.Done)
			l.check()
		})
	}
}

// TestStoreWatch follows a record over changes, a removal and the death of its
// home.
func TestStoreWatch(t *testing.T) {
	l := newLab(t, 9)
	l.cluster(5)
	key := dht.Key("watched")
	_, c := l.nodes[0].s.view.roster.HomeOf(key)
	home := l.at[c.Primary().Name]
	var asker, other *labNode
	for _, n := range l.nodes {
		if n != home && asker == nil {
			asker = n
		} else if n != home {
			other = n
		}
	}
	asker.do(func(out *Out) { asker.s.Watch(asker.clock(), 7, key, dht.Version{}, out) })
	home.do(func(out *Out) { home.s.Watch(home.clock(), 8, key, dht.Version{}, out) })
	l.run(2 * time.Second)
	last := func(tag uint64) string {
		all := l.seen[tag]
		if len(all) == 0 {
			return "nothing"
		}
		return all[len(all)-1].Outcome.String() + string(all[len(all)-1].Value)
	}
	wait := func(what string) {
		t.Helper()
		l.until("the watch shows "+what, 10*time.Second, func() bool { return last(7) == what && (home.down || last(8) == what) })
	}
	if len(l.seen[7]) > 0 {
		t.Errorf("got %v before there was a record", l.seen[7])
	}
	other.one(dht.Op{Code: dht.OpInsert, Key: key, Value: []byte("1")})
	before := l.Now()
	wait("done1")
	if took := l.Now() - before; took > 50*time.Millisecond {
		t.Errorf("a change showed after %v", took)
	}
	other.one(dht.Op{Code: dht.OpRemove, Key: key})
	wait("absent")
	other.one(dht.Op{Code: dht.OpInsert, Key: key, Value: []byte("2")})
	wait("done2")
	home.kill(100 * time.Millisecond)
	r := other.one(dht.Op{Code: dht.OpLookup, Key: key, Consistent: true})
	other.one(dht.Op{Code: dht.OpSwap, Key: key, Value: []byte("3"), Expect: r.Version})
	wait("done3")
	l.settle(time.Minute)
	before2 := l.sent
	l.run(time.Minute)
	if l.sent != before2 {
		t.Errorf("a watch of a quiet record sent %d messages in a minute", l.sent-before2)
	}
	asker.do(func(out *Out) { asker.s.Unwatch(asker.clock(), 7, out) })
	l.run(time.Second)
	n := len(l.seen[7])
	r = other.one(dht.Op{Code: dht.OpLookup, Key: key, Consistent: true})
	other.one(dht.Op{Code: dht.OpSwap, Key: key, Value: []byte("4"), Expect: r.Version})
	l.run(time.Second)
	if len(l.seen[7]) != n {
		t.Errorf("a change showed after the watch had ended")
	}
}

// TestStoreMinority cuts a node off with its users: it commits nothing, and
// shows plain lookups as stale.
func TestStoreMinority(t *testing.T) {
	l := newLab(t, 10)
	l.cluster(5)
	l.fill(l.nodes[0], "a", 100, false)
	lone := l.nodes[4]
	l.cut = func(a, b *labNode) bool { return (a == lone) != (b == lone) }
	for _, n := range l.nodes[:4] {
		n.hear(lone, dht.PeerDead)
		lone.hear(n, dht.PeerSuspect)
	}
	var ops []dht.Op
	for i := range 100 {
		ops = append(ops, dht.Op{Code: dht.OpRemove, Key: dht.Key(fmt.Sprintf("a%d", i))})
	}
	tag := lone.askFor(8*time.Second, ops...)
	l.run(9 * time.Second)
	for i, r := range l.done[tag] {
		if r.Outcome != dht.Unknown && r.Outcome != dht.Unavailable {
			t.Errorf("operation %d on the cut-off side: %v", i, r.Outcome)
		}
	}
	l.expect(l.nodes[0], "a", 100, dht.Done)
	stale := 0
	for i := range 100 {
		k := dht.Key(fmt.Sprintf("a%d", i))
		if _, c := lone.s.view.roster.HomeOf(k); c.Has(lone.s.self) {
			if r := lone.one(dht.Op{Code: dht.OpLookup, Key: k}); r.Outcome == dht.Done && r.Stale {
				stale++
			}
		}
	}
	if stale == 0 {
		t.Errorf("the cut-off node shows nothing of what it holds")
	}
}

// TestStoreRemembers drops removed records in their time, and no sooner.
func TestStoreRemembers(t *testing.T) {
	l := newLab(t, 11)
	l.cluster(3)
	n := l.nodes[0]
	id := dht.OpID{Node: n.name, Incarnation: n.inc, Seq: 3}
	n.one(dht.Op{ID: id, Code: dht.OpInsert, Key: "k", Value: []byte("x")})
	n.one(dht.Op{Code: dht.OpRemove, Key: "k", Keep: 30 * time.Second})
	if r := n.one(dht.Op{ID: id, Code: dht.OpInsert, Key: "k", Value: []byte("x")}); r.Outcome != dht.Done {
		t.Errorf("got %v for an insert that was done", r.Outcome)
	}
	if r := n.one(dht.Op{Code: dht.OpLookup, Key: "k", Consistent: true}); r.Outcome != dht.Absent {
		t.Errorf("an insert that came again undid a removal: %v", r.Outcome)
	}
	l.run(40 * time.Second)
	for _, n := range l.nodes {
		if st := n.s.Status(); st.Records != 0 {
			t.Errorf("%s still holds %d records", n.name, st.Records)
		}
	}
}

// TestStoreBigShards grows shards that take many pieces.
func TestStoreBigShards(t *testing.T) {
	l := newLab(t, 12)
	l.cluster(2)
	value := bytes.Repeat([]byte("v"), 100<<10)
	var ops []dht.Op
	for i := range 300 {
		ops = append(ops, dht.Op{Code: dht.OpInsert, Key: dht.Key(fmt.Sprintf("big%d", i)), Value: value})
	}
	l.nodes[0].get(ops...)
	l.start(filch.NodeName("late"), false)
	l.settle(time.Minute)
	l.nodes[0].kill(time.Millisecond)
	l.settle(time.Minute)
	l.expect(l.at["late"], "big", 300, dht.Done)
}

// TestStoreLimits asks for what is too large, and what makes no sense.
func TestStoreLimits(t *testing.T) {
	l := newLab(t, 13)
	l.cluster(3)
	n := l.nodes[1]
	if r := n.one(dht.Op{Code: dht.OpInsert, Key: "k", Value: make([]byte, dht.MaxValue+1)}); r.Outcome != dht.Invalid {
		t.Errorf("got %v for a large value", r.Outcome)
	}
	for range 3 {
		n.one(dht.Op{Code: dht.OpAppend, Key: "l", Value: make([]byte, dht.MaxValue/3)})
	}
	if r := n.one(dht.Op{Code: dht.OpAppend, Key: "l", Value: make([]byte, dht.MaxValue/3)}); r.Outcome != dht.Full {
		t.Errorf("got %v for a list that is full", r.Outcome)
	}
	if r := n.one(dht.Op{Code: dht.OpMerge, Kind: kindGreatest, Key: "t"}); r.Outcome != dht.Conflict {
		t.Errorf("got %v for a delta that makes no sense", r.Outcome)
	}
	if r := n.one(dht.Op{Code: dht.OpMerge, Kind: 99, Key: "t"}); r.Outcome != dht.Invalid {
		t.Errorf("got %v for a kind without a rule", r.Outcome)
	}
}

// TestStoreOpenedAlone ends a node right after the register moved to more acceptors,
// of which only its own was told: what is on its disk acceptors the others.
func TestStoreOpenedAlone(t *testing.T) {
	l := newLab(t, 12)
	l.cluster(2)
	first := l.nodes[0]
	l.fill(first, "a", 50, true)
	l.cut = func(from, to *labNode) bool {
		return (from == first || to == first) && first.s.acceptor.generation >= 2
	}
	l.start("n2", false)
	l.until("an acceptor of the next generation", time.Minute, func() bool { return first.s.acceptor.generation >= 2 })
	l.run(50 * time.Millisecond)
	for _, n := range l.nodes[1:] {
		if n.s.view.roster.Generation > 1 {
			t.Fatalf("%s was told of generation %d", n.name, n.s.view.roster.Generation)
		}
	}
	first.kill(100 * time.Millisecond)
	l.run(time.Second)
	l.cut = func(*labNode, *labNode) bool { return false }
	l.start(first.name, false)
	l.settle(time.Minute)
	l.expect(l.nodes[1], "a", 50, dht.Done)
	l.check()
}
