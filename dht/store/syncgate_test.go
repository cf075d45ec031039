package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// homeAndOthers are the primary of a key and the other nodes.
func (l *lab) homeAndOthers(key dht.Key) (home *labNode, others []*labNode) {
	_, c := l.nodes[0].s.view.roster.HomeOf(key)
	home = l.at[c.Primary().Name]
	return home, slices.DeleteFunc(slices.Clone(l.nodes), func(n *labNode) bool { return n == home })
}

// declaredDead has all others hold a node dead that runs.
func (l *lab) declaredDead(n *labNode) {
	for _, o := range l.nodes {
		if o != n && !o.down {
			o.hear(n, dht.PeerDead)
		}
	}
}

// TestStoreGateHolds asks for a durable change of a node whose disk does not sync:
// the answer is not shown, the store says what to sync, and it comes with the sync.
func TestStoreGateHolds(t *testing.T) {
	l := newLab(t, 61)
	l.cluster(1)
	n := l.nodes[0]
	n.broken = true // nothing is synced
	var out Out
	n.s.Do(n.clock(), 1, []dht.Op{{Code: dht.OpInsert, Key: "k", Durable: true}}, filch.Never, &out)
	if len(out.Logs) == 0 || len(out.Results) > 0 {
		t.Fatalf("got %d entries and %d answers, want entries and no answer", len(out.Logs), len(out.Results))
	}
	last := out.Logs[len(out.Logs)-1].Number
	if out.Hurry != last {
		t.Errorf("the answer waits for entry %d, got %d", last, out.Hurry)
	}
	for _, upto := range []uint64{last - 1, last} {
		out.Reset()
		n.s.Synced(n.clock(), upto, &out)
		n.s.Check()
		if got, want := len(out.Results), int(upto-last+1); got != want {
			t.Errorf("with %d of %d entries synced: got %d answers, want %d", upto, last, got, want)
		}
	}
}

// TestStoreGateDiskFails has the disk fail under an answer: it says so at once.
// What is asked again is answered once the disk has all that is to be there.
func TestStoreGateDiskFails(t *testing.T) {
	l := newLab(t, 62)
	l.cluster(1)
	n := l.nodes[0]
	n.broken = true
	op := dht.Op{ID: dht.OpID{Node: n.name, Incarnation: n.inc, Seq: 1}, Code: dht.OpAppend, Key: "k", Value: []byte("x"), Durable: true}
	var out Out
	n.s.Do(n.clock(), 1, []dht.Op{op}, filch.Never, &out)
	out.Reset()
	n.s.DiskFailed(n.clock(), "no space left", &out)
	n.s.Check()
	if len(out.Results) != 1 || out.Results[0].Result.Outcome != dht.Unknown {
		t.Fatalf("got %+v when the disk failed, want that it is not known", out.Results)
	}
	out.Reset()
	n.s.DiskBack(n.clock(), &out)
	last := out.Logs[len(out.Logs)-1].Number
	n.s.Do(n.clock(), 2, []dht.Op{op}, filch.Never, &out)
	n.s.Synced(n.clock(), last-1, &out)
	n.s.Check()
	if len(out.Results) > 0 {
		t.Fatalf("got %+v with %d of the %d entries that are to be there", out.Results, last-1, last)
	}
	n.s.Synced(n.clock(), out.Logs[len(out.Logs)-1].Number, &out)
	if len(out.Results) != 1 || out.Results[0].Result.Outcome != dht.Done {
		t.Errorf("got %+v with all on the disk, want it done", out.Results)
	}
}

// TestStoreRejoinWaitsForItsLog lets a node begin a new life with a log that is not
// synced: nothing leaves before it is, and entries go on by their numbers.
func TestStoreRejoinWaitsForItsLog(t *testing.T) {
	l := newLab(t, 63)
	l.cluster(3)
	home, _ := l.homeAndOthers("k")
	l.run(time.Second)
	home.broken = true
	home.ask(dht.Op{Code: dht.OpInsert, Key: "k", Value: []byte("v")})
	l.run(10 * time.Millisecond)
	logged := home.s.disk.logged
	if logged == home.s.disk.synced {
		t.Fatal("all is synced")
	}
	var out Out
	home.inc++
	home.s.Rejoin(home.clock(), home.inc, &out)
	home.s.Tick(home.clock(), &out)
	home.s.Check()
	if len(out.Sends) > 0 || out.Hurry != logged {
		t.Fatalf("%d messages left before the disk had %d entries, it was asked for %d", len(out.Sends), logged, out.Hurry)
	}
	for _, e := range out.Logs {
		if logged++; e.Number != logged {
			t.Errorf("%q is entry %d, want %d", e.Key, e.Number, logged)
		}
	}
	home.s.Synced(home.clock(), logged, &out)
	if len(out.Sends) == 0 {
		t.Errorf("nothing left with %d entries on the disk", logged)
	}
}

// TestStoreRejoinAnswers begins a new life while operations are under way: each is
// answered, those too that wait for the disk, and none twice.
func TestStoreRejoinAnswers(t *testing.T) {
	l := newLab(t, 64)
	l.cluster(3)
	home, others := l.homeAndOthers("k")
	home.broken = true
	waits := home.ask(dht.Op{Code: dht.OpInsert, Key: "k", Value: []byte("v"), Durable: true})
	l.run(100 * time.Millisecond) // the others have it
	l.cut = func(from, to *labNode) bool { return from == home || to == home }
	asked := home.ask(dht.Op{Code: dht.OpAppend, Key: "l"}, dht.Op{Code: dht.OpLookup, Key: "l", Consistent: true})
	home.do(func(out *Out) { home.s.AcceptLoss(home.clock(), 1<<40, nil, out) })
	if len(l.done[waits])+len(l.done[asked])+len(l.done[1<<40]) > 0 {
		t.Fatalf("answered already: %v %v %v", l.done[waits], l.done[asked], l.done[1<<40])
	}
	l.declaredDead(home)
	home.broken = false
	home.rejoin()
	got := fmt.Sprint(l.done[waits][0].Outcome, l.done[asked][0].Outcome, l.done[asked][1].Outcome, l.done[1<<40][0].Outcome)
	if want := fmt.Sprint(dht.Unknown, dht.Unknown, dht.Unavailable, dht.Unknown); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	l.cut = func(*labNode, *labNode) bool { return false }
	l.settle(time.Minute)
	l.run(time.Minute)
	if r := others[0].one(dht.Op{Code: dht.OpLookup, Key: "k", Consistent: true}); r.Outcome != dht.Done {
		t.Errorf("got %v for what the others had", r.Outcome)
	}
	l.check()
}

// TestStoreRejoinKeepsWatches begins a new life of a node that watches a record,
// whose home it is or not. It is told of the change that it missed, and of later ones.
func TestStoreRejoinKeepsWatches(t *testing.T) {
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("at-home=%t", own), func(t *testing.T) {
			l := newLab(t, 65)
			l.cluster(4)
			n, others := l.homeAndOthers("k")
			if !own {
				n, others[0] = others[0], n
			}
			told := func(what string) {
				t.Helper()
				l.until("the watch shows "+what, 20*time.Second, func() bool {
					all := l.seen[7]
					return len(all) > 0 && string(all[len(all)-1].Value) == what
				})
			}
			change := func(value string) {
				t.Helper()
				old := others[1].one(dht.Op{Code: dht.OpLookup, Key: "k", Consistent: true})
				if r := others[1].one(dht.Op{Code: dht.OpSwap, Key: "k", Value: []byte(value), Expect: old.Version}); r.Outcome != dht.Done {
					t.Fatalf("got %v for a change", r.Outcome)
				}
			}
			n.do(func(out *Out) { n.s.Watch(n.clock(), 7, "k", dht.Version{}, out) })
			change("1")
			told("1")
			l.declaredDead(n)
			n.pause = l.Now() + 10*time.Second
			change("2")
			l.run(10 * time.Second)
			n.rejoin()
			told("2")
			l.settle(time.Minute)
			change("3")
			told("3")
			n.do(func(out *Out) { n.s.Unwatch(n.clock(), 7, out) })
			l.run(time.Second)
			told("3")
			count := len(l.seen[7])
			change("4")
			l.run(time.Second)
			if len(l.seen[7]) != count || count != 3 {
				t.Errorf("the watch showed %d changes, and %d after it had ended", count, len(l.seen[7])-count)
			}
		})
	}
}

// TestStoreRejoinLeaves begins a new life of a node that hands off what it has: it
// still does.
func TestStoreRejoinLeaves(t *testing.T) {
	l := newLab(t, 66)
	l.cluster(5)
	l.fill(l.nodes[0], "a", 50, true)
	n := l.nodes[2]
	l.cut = func(from, to *labNode) bool { return from == n || to == n }
	n.leave()
	l.declaredDead(n)
	l.run(time.Second)
	n.rejoin()
	l.cut = func(*labNode, *labNode) bool { return false }
	l.until("it has left", time.Minute, func() bool { return n.left })
	l.expect(l.nodes[0], "a", 50, dht.Done)
}

// TestStoreRejoinWithoutDisk begins a new life while the disk takes nothing. The
// node is of use again once it does.
func TestStoreRejoinWithoutDisk(t *testing.T) {
	l := newLab(t, 67)
	l.cluster(3)
	l.fill(l.nodes[0], "a", 50, true)
	home, _ := l.homeAndOthers("a0")
	home.broken = true
	home.do(func(out *Out) { home.s.DiskFailed(home.clock(), "no space left", out) })
	l.declaredDead(home)
	l.run(time.Second)
	home.rejoin()
	l.run(10 * time.Second)
	if st := home.s.Status(); !st.Known || st.DiskReason == "" {
		t.Fatalf("got %+v, want a roster and no disk", st)
	}
	home.broken, home.disk, home.buffer = false, nil, nil
	home.do(func(out *Out) { home.s.DiskBack(home.clock(), out) })
	l.settle(time.Minute)
	l.expect(home, "a", 50, dht.Done)
	for _, n := range l.nodes {
		n.down = true
	}
	for _, n := range l.nodes {
		l.start(n.name, false)
	}
	l.settle(time.Minute)
	l.expect(home, "a", 50, dht.Done)
	l.check()
}

// TestStoreDiskBackKeepsNothingOld has a disk fail whose log is the same when it is
// back. What its node gave up meanwhile, and the others removed and forgot, does not
// come back from that log when everything is started again.
func TestStoreDiskBackKeepsNothingOld(t *testing.T) {
	l := newLab(t, 68)
	l.cluster(3)
	home, others := l.homeAndOthers("k")
	sick := others[0]
	home.one(dht.Op{Code: dht.OpInsert, Key: "k", Value: []byte("v"), Durable: true})
	l.run(time.Second)
	sick.broken = true
	sick.do(func(out *Out) { sick.s.DiskFailed(sick.clock(), "no space left", out) })
	l.until("its shards are given up", time.Minute, func() bool { return sick.s.Status().Replicas == 0 })
	home.one(dht.Op{Code: dht.OpRemove, Key: "k", Keep: time.Second})
	l.run(time.Minute)
	sick.broken = false
	sick.do(func(out *Out) { sick.s.DiskBack(sick.clock(), out) })
	l.settle(time.Minute)
	l.run(time.Second)
	for _, n := range l.nodes {
		n.down = true
	}
	for _, n := range l.nodes {
		l.start(n.name, false)
	}
	l.settle(time.Minute)
	if r := home.one(dht.Op{Code: dht.OpLookup, Key: "k", Consistent: true}); r.Outcome != dht.Absent {
		t.Errorf("got %v %q for a record that was removed", r.Outcome, r.Value)
	}
	l.check()
}

// TestStoreGivesUpWhatIsUnderWay has a primary lose a shard while others have a
// change that it began, and that they show, remove and forget. It does not come back
// from the disk of that node when everything is started again.
func TestStoreGivesUpWhatIsUnderWay(t *testing.T) {
	l := newLab(t, 69)
	l.cluster(3)
	home, others := l.homeAndOthers("k")
	l.cut = func(_, to *labNode) bool { return to == home } // whatever is answered is lost
	home.ask(dht.Op{Code: dht.OpInsert, Key: "k", Value: []byte("v")})
	l.run(100 * time.Millisecond)
	l.cut = func(from, to *labNode) bool { return from == home || to == home }
	for _, o := range others {
		o.hear(home, dht.PeerSuspect)
	}
	if r := others[0].one(dht.Op{Code: dht.OpLookup, Key: "k", Consistent: true}); r.Outcome != dht.Done {
		t.Fatalf("got %v of the change that others have", r.Outcome)
	}
	others[0].one(dht.Op{Code: dht.OpRemove, Key: "k", Keep: time.Second})
	l.run(time.Minute)
	l.cut = func(*labNode, *labNode) bool { return false }
	for _, o := range others {
		o.hear(home, dht.PeerUp)
	}
	l.settle(time.Minute)
	l.run(time.Second)
	for _, n := range l.nodes {
		n.down = true
	}
	for _, n := range l.nodes {
		l.start(n.name, false)
	}
	l.settle(time.Minute)
	if r := others[0].one(dht.Op{Code: dht.OpLookup, Key: "k", Consistent: true}); r.Outcome != dht.Absent {
		t.Errorf("got %v %q for a record that was removed", r.Outcome, r.Value)
	}
	l.check()
}
