package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht"
)

func (n *labNode) leave() { n.do(func(out *Out) { n.s.Leave(n.clock(), out) }) }

func (n *labNode) comeBack() {
	n.left = false
	n.do(func(out *Out) { n.s.Return(n.clock(), out) })
}

// keeps reports whether all nodes see a node as a member that may have shards, and
// it has some.
func (l *lab) keeps(n *labNode) bool {
	for _, o := range l.nodes {
		r := o.s.view.roster
		if r == nil || r.Member(n.name) == nil || r.Member(n.name).Leaving {
			return false
		}
	}
	return n.s.Status().Replicas > 0
}

// TestStoreReturn lets a node hand off what it keeps, and takes that back: before
// it was let go and after, with another proposer meanwhile.
func TestStoreReturn(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration // of the leave; 0: when it was let go
	}{{"at-once", time.Microsecond}, {"half-way", 300 * time.Millisecond}, {"let-go", 0}} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, 11)
			l.cluster(5)
			l.fill(l.nodes[0], "a", 200, false)
			for round := range 5 {
				n := l.nodes[round]
				n.leave()
				if c.after > 0 {
					l.run(c.after)
				} else {
					l.until(fmt.Sprintf("%s let go", n.name), time.Minute, func() bool { return n.left })
					l.run(10 * time.Second)
				}
				n.comeBack()
				l.until(string(n.name)+" has records again", time.Minute, func() bool { return l.keeps(n) })
				l.run(5 * time.Second)
				if n.left || !l.keeps(n) {
					t.Errorf("%s came back, and left again", n.name)
				}
				l.settle(time.Minute)
				l.expect(n, "a", 200, dht.Done)
			}
			l.fill(l.nodes[4], "b", 20, true)
			l.check()
		})
	}
}

// TestStoreAllLeave has all nodes leave and stay: what they keep has nowhere to
// go, is served, and is whole again when they take records again.
func TestStoreAllLeave(t *testing.T) {
	l := newLab(t, 12)
	l.cluster(4)
	l.fill(l.nodes[0], "a", 200, false)
	for _, n := range l.nodes {
		n.leave()
	}
	l.run(20 * time.Second)
	l.expect(l.nodes[1], "a", 200, dht.Done)
	l.fill(l.nodes[2], "b", 50, true)
	for _, n := range l.nodes {
		n.comeBack()
	}
	l.until("all have records again", time.Minute, func() bool {
		return !slices.ContainsFunc(l.nodes, func(n *labNode) bool { return !l.keeps(n) })
	})
	l.settle(time.Minute)
	l.expect(l.nodes[3], "a", 200, dht.Done)
	l.expect(l.nodes[3], "b", 50, dht.Done)
	l.check()
}

// TestStoreLeftStaysAway lets two nodes go that stay up: who looks after the roster
// then has not heard that the first one left, and takes it in again. It asks to be
// let go once more.
func TestStoreLeftStaysAway(t *testing.T) {
	l := newLab(t, 13)
	l.cluster(5)
	l.fill(l.nodes[0], "a", 200, false)
	for _, i := range []int{1, 2, 0} {
		n := l.nodes[i]
		n.leave()
		l.until(string(n.name)+" let go", time.Minute, func() bool { return n.left })
		l.run(5 * time.Second)
	}
	l.run(10 * time.Second)
	for _, n := range l.nodes[:3] {
		if st := n.s.Status(); st.Replicas > 0 || l.nodes[3].s.view.roster.Has(n.s.self) {
			t.Errorf("%s left, and keeps %d shards", n.name, st.Replicas)
		}
	}
	l.expect(l.nodes[3], "a", 200, dht.Done)
}

// TestStoreLeavesAlone has the first acceptor leave while it is cut off, and begin a new
// life in which it takes the others for dead: the roster of one that leaves and sees
// nobody else would have no member. It is let go once it sees them.
func TestStoreLeavesAlone(t *testing.T) {
	l := newLab(t, 30)
	l.cluster(3)
	l.fill(l.nodes[0], "a", 50, false)
	n := l.nodes[0]
	l.cut = func(from, to *labNode) bool { return from == n || to == n }
	n.leave()
	for _, o := range l.nodes[1:] {
		n.hear(o, dht.PeerDead)
	}
	l.run(time.Second)
	l.cut = func(*labNode, *labNode) bool { return false }
	n.rejoin()
	l.run(5 * time.Second)
	if n.left {
		t.Errorf("%s went before anybody took over what it has", n.name)
	}
	for _, o := range l.nodes[1:] {
		n.hear(o, dht.PeerUp)
	}
	l.until(string(n.name)+" let go", time.Minute, func() bool { return n.left })
	l.settle(time.Minute)
	l.expect(l.nodes[1], "a", 50, dht.Done)
	l.check()
}
