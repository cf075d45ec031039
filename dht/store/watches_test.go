package store

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store/message"
)

// TestStoreWatchGoesBack begins a watch where less is there than was shown
// before: all replicas died, and what was shown was on no disk.
func TestStoreWatchGoesBack(t *testing.T) {
	l := newLab(t, 18)
	l.cluster(3)
	n := l.nodes[1]
	n.one(dht.Op{Code: dht.OpInsert, Key: "back", Value: []byte("1")})
	n.do(func(out *Out) { n.s.Watch(n.clock(), 7, "back", dht.Version{Epoch: 1 << 40, Seq: 1}, out) })
	l.until("the watch shows what is there", time.Second, func() bool { return len(l.seen[7]) == 1 })
	if r := l.seen[7][0]; r.Outcome != dht.Done || string(r.Value) != "1" {
		t.Errorf("got %v %q", r.Outcome, r.Value)
	}
}

// TestStoreWatchAsksAgain begins a watch at a home that can't look its record up:
// it would have to write it back, and its disk takes nothing. The watch is
// answered once the disk takes again. (It was taken for answered.)
func TestStoreWatchAsksAgain(t *testing.T) {
	l := newLab(t, 22)
	l.cluster(1)
	n := l.nodes[0]
	n.one(dht.Op{Code: dht.OpInsert, Key: "again", Value: []byte("1"), Durable: true})
	n.down = true
	l.start(n.name, false)
	l.until("the node has its records again", time.Minute, func() bool { return n.s.Status().Homes == 64 && len(n.s.Status().Lost) == 0 })
	n.broken = true
	n.do(func(out *Out) { n.s.DiskFailed(n.clock(), "no space left", out) })
	if r := n.one(dht.Op{Code: dht.OpLookup, Key: "again", Consistent: true}); r.Outcome != dht.Unavailable {
		t.Fatalf("a lookup of a record that is to be written back says %v, want unavailable", r.Outcome)
	}
	n.do(func(out *Out) { n.s.Watch(n.clock(), 7, "again", dht.Version{}, out) })
	l.run(2 * time.Second)
	if len(l.seen[7]) > 0 {
		t.Errorf("the watch was told %v", l.seen[7])
	}
	n.broken, n.disk = false, nil
	n.do(func(out *Out) { n.s.DiskBack(n.clock(), out) })
	l.until("the watch shows what is there", 5*time.Second, func() bool { return len(l.seen[7]) == 1 })
	if r := l.seen[7][0]; r.Outcome != dht.Done || string(r.Value) != "1" {
		t.Errorf("got %v %q", r.Outcome, r.Value)
	}
}

// TestStoreWatchOfAnotherLife tells the home of a watch, late, that one of the
// watcher's life before is over: that ends no watch of this life.
func TestStoreWatchOfAnotherLife(t *testing.T) {
	l := newLab(t, 23)
	l.cluster(3)
	key := dht.Key("life")
	_, c := l.nodes[0].s.view.roster.HomeOf(key)
	home := l.at[c.Primary().Name]
	i := slices.IndexFunc(l.nodes, func(n *labNode) bool { return n != home })
	n := l.nodes[i]
	watch := func() uint64 {
		n.do(func(out *Out) { n.s.Watch(n.clock(), 7, key, dht.Version{}, out) })
		return n.s.watches.mine[7].number
	}
	before := watch()
	n.kill(time.Second)
	l.start(n.name, false)
	l.settle(time.Minute)
	watch()
	l.until("the watch is answered", 5*time.Second, func() bool { return n.s.watches.mine[7].known })
	id, _ := home.s.view.roster.HomeOf(key)
	m := &message.Seen{Seen: []message.SeenVersion{{Number: before, Shard: id, Key: key, End: true}}}
	m.From, m.Roster = n.inc, n.s.view.roster.Epoch
	home.do(func(out *Out) { home.s.Message(home.clock(), n.name, m, out) })
	l.seen[7] = nil
	if r := home.one(dht.Op{Code: dht.OpInsert, Key: key, Value: []byte("1")}); r.Outcome != dht.Done {
		t.Fatalf("the insert: %v %s", r.Outcome, r.Err)
	}
	l.until("the watch shows the change", 5*time.Second, func() bool { return len(l.seen[7]) == 1 })
	if r := l.seen[7][0]; r.Outcome != dht.Done || string(r.Value) != "1" {
		t.Errorf("got %v %q", r.Outcome, r.Value)
	}
}
