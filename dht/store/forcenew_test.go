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
)

// acceptLoss asks a node to give up what is lost, and waits for the answer.
func (l *lab) acceptLoss(n *labNode) dht.Result {
	l.t.Helper()
	l.tag++
	tag := l.tag
	n.do(func(out *Out) { n.s.AcceptLoss(n.clock(), tag, nil, out) })
	l.until("the loss accepted or not", 2*lossWait, func() bool { return l.answered(tag, 1) })
	return l.done[tag][0]
}

// forceNew has a node force a new roster.
func (l *lab) forceNew(n *labNode) {
	l.t.Helper()
	before := uint64(0)
	if n.s.view.roster != nil {
		before = n.s.view.roster.Epoch
	}
	r := l.acceptLoss(n)
	if r.Outcome != dht.Done || r.Version.Epoch <= before || r.Version.Epoch < 1<<roster.ForcedShift {
		l.t.Fatalf("got %v, epoch %d (%s), want a roster beyond epoch %d", r.Outcome, r.Version.Epoch, r.Err, before)
	}
}

// hurt ends everybody and damages the disks of some.
func (l *lab) hurt(drop func(n *labNode, key string) bool, nodes ...*labNode) {
	for _, n := range l.nodes {
		n.down = true
	}
	for _, n := range nodes {
		n.damaged = true
		n.disk = slices.DeleteFunc(n.disk, func(e LogEntry) bool { return drop(n, e.Key) })
	}
}

// again starts everybody.
func (l *lab) again() {
	for _, n := range l.nodes {
		l.start(n.name, false)
	}
}

func nothing(*labNode, string) bool { return false }

// stuck looks that nobody can write a record or bring the roster back.
func (l *lab) stuck(n *labNode) {
	l.t.Helper()
	l.run(2 * RecoverAfter)
	if r := n.one(dht.Op{Code: dht.OpInsert, Key: "stuck"}); r.Outcome != dht.Unavailable && r.Outcome != dht.Unknown {
		l.t.Fatalf("got %v with the roster lost", r.Outcome)
	}
}

// TestStoreLoneAcceptorDamaged damages the disk of a lone node, which gives up its
// acceptor. What is left of it comes back when its loss is accepted, in every degree
// of damage.
func TestStoreLoneAcceptorDamaged(t *testing.T) {
	for _, c := range []struct {
		name string
		drop func(n *labNode, key string) bool
	}{
		{"elsewhere", nothing},
		{"acceptor", func(_ *labNode, key string) bool { return strings.HasPrefix(key, "seat/") }},
		{"markers", func(_ *labNode, key string) bool { return strings.HasPrefix(key, "m/") }},
		{"acceptor and markers", func(_ *labNode, key string) bool {
			return strings.HasPrefix(key, "seat/") || strings.HasPrefix(key, "m/")
		}},
	} {
		for _, lives := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s lives=%d", c.name, lives), func(t *testing.T) {
				l := newLab(t, 31)
				l.cluster(1)
				n := l.nodes[0]
				l.fill(n, "a", 50, true)
				l.run(time.Second)
				l.hurt(c.drop, n)
				l.again()
				for range lives - 1 {
					l.run(time.Second)
					l.hurt(nothing)
					l.again()
				}
				l.stuck(n)
				l.forceNew(n)
				l.settle(time.Minute)
				l.expect(n, "a", 50, dht.Done)
				l.fill(n, "b", 20, true)
				l.hurt(nothing)
				l.again()
				l.settle(time.Minute)
				l.expect(n, "a", 50, dht.Done)
				l.expect(n, "b", 20, dht.Done)
				l.check()
			})
		}
	}
}

// TestStoreRosterFromMembers damages the disk of the only acceptor of two nodes; the
// other one lives on and knows the roster, and holds everything.
func TestStoreRosterFromMembers(t *testing.T) {
	for _, asker := range []int{0, 1} {
		t.Run(fmt.Sprintf("asker=%d", asker), func(t *testing.T) {
			l := newLab(t, 32)
			l.cluster(2)
			l.fill(l.nodes[0], "a", 50, false)
			l.run(time.Second)
			acceptor, other := l.nodes[0], l.nodes[1]
			if !other.s.view.roster.IsAcceptor(acceptor.name) {
				acceptor, other = other, acceptor
			}
			acceptor.kill(10 * time.Millisecond)
			acceptor.damaged, acceptor.disk = true, nil
			l.start(acceptor.name, false)
			l.run(30 * time.Second)
			if st := acceptor.s.Status(); st.Acceptor || st.Replicas > 0 {
				t.Fatalf("the acceptor sits again by itself: %+v", st)
			}
			l.forceNew(l.nodes[asker])
			l.settle(time.Minute)
			l.expect(acceptor, "a", 50, dht.Done)
			l.fill(other, "b", 20, true)
			l.check()
		})
	}
}

// TestStoreAcceptorsGone takes two of three acceptors away for good, of five nodes. The
// others go on with all that they hold once the loss is accepted, and what comes
// back later of the old acceptors follows them.
func TestStoreAcceptorsGone(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		t.Run(fmt.Sprintf("nodes=%d", nodes), func(t *testing.T) {
			l := newLab(t, 33)
			l.cluster(nodes)
			l.fill(l.nodes[0], "a", 100, true)
			l.run(time.Second)
			acceptors := slices.Clone(l.nodes[0].s.view.roster.Acceptors)
			for _, r := range acceptors[:2] {
				l.at[r.Name].kill(10 * time.Millisecond)
			}
			var asker *labNode
			for _, n := range l.nodes {
				if !n.down {
					asker = n
				}
			}
			l.run(20 * time.Second)
			if r := asker.s.view.roster; r.Generation >= 1<<roster.ForcedShift {
				t.Fatal("a new roster was forced, and nobody accepted the loss")
			}
			l.forceNew(asker)
			l.settle(time.Minute)
			lost := len(asker.s.Status().Lost)
			if lost == 0 {
				l.expect(asker, "a", 100, dht.Done)
			} else if nodes == 3 {
				t.Errorf("%d shards are lost, of which the last node has a replica", lost)
			}
			l.start(acceptors[0].Name, false) // its disk has the rest
			l.settle(time.Minute)
			l.expect(asker, "a", 100, dht.Done)
			l.fill(l.at[acceptors[0].Name], "b", 20, true)
			l.start(acceptors[1].Name, false)
			l.settle(time.Minute)
			l.expect(l.at[acceptors[1].Name], "b", 20, dht.Done)
			l.check()
		})
	}
}

// TestStoreNobodyKnowsTheRoster starts everything again after the disks of all
// acceptors were damaged, and of the roster nothing is left anywhere: the disks say
// who had what.
func TestStoreNobodyKnowsTheRoster(t *testing.T) {
	l := newLab(t, 34)
	l.cluster(5)
	l.fill(l.nodes[0], "a", 200, true)
	l.run(time.Second)
	l.hurt(func(_ *labNode, key string) bool { return strings.HasPrefix(key, "seat/") }, l.nodes...)
	l.again()
	l.stuck(l.nodes[3])
	l.forceNew(l.nodes[3])
	l.settle(2 * time.Minute)
	l.expect(l.nodes[1], "a", 200, dht.Done)
	l.fill(l.nodes[4], "b", 20, true)
	l.check()
}

// TestStoreForceNewTwice has two nodes asked at the same time: where they hear each
// other one of them does it, where they do not the higher roster counts in the
// end. And while the register works nobody forces a new roster.
func TestStoreForceNewTwice(t *testing.T) {
	for _, apart := range []bool{false, true} {
		t.Run(fmt.Sprintf("apart=%t", apart), func(t *testing.T) {
			l := newLab(t, 35)
			l.cluster(5)
			l.fill(l.nodes[0], "a", 50, true)
			if r := l.acceptLoss(l.nodes[1]); r.Outcome != dht.Done || r.Version != (dht.Version{}) {
				t.Fatalf("got %+v with nothing lost", r)
			}
			for _, r := range slices.Clone(l.nodes[0].s.view.roster.Acceptors) {
				l.at[r.Name].kill(10 * time.Millisecond)
			}
			var live []*labNode
			for _, n := range l.nodes {
				if !n.down {
					live = append(live, n)
				}
			}
			l.run(20 * time.Second)
			part := func(state dht.PeerState) {
				live[0].hear(live[1], state)
				live[1].hear(live[0], state)
			}
			if apart {
				l.cut = func(*labNode, *labNode) bool { return true }
				part(dht.PeerDead)
			}
			var tags []uint64
			for _, n := range live {
				l.tag++
				tag := l.tag
				tags = append(tags, tag)
				n.do(func(out *Out) { n.s.AcceptLoss(n.clock(), tag, nil, out) })
			}
			l.until("both answered", 2*lossWait, func() bool { return l.answered(tags[0], 1) && l.answered(tags[1], 1) })
			done := 0
			for _, tag := range tags {
				if r := l.done[tag][0]; r.Outcome == dht.Done {
					done++
				} else if !strings.Contains(r.Err, "at it already") {
					t.Errorf("got %v %s", r.Outcome, r.Err)
				}
			}
			if want := map[bool]int{false: 1, true: 2}[apart]; done != want {
				t.Fatalf("%d of two forced a new roster, want %d", done, want)
			}
			if !apart {
				l.settle(time.Minute)
				return
			}
			if live[0].s.view.roster.Epoch == live[1].s.view.roster.Epoch {
				t.Fatal("two nodes apart began a roster under the same number")
			}
			l.cut = func(*labNode, *labNode) bool { return false }
			live[1].down = true
			l.start(live[1].name, false) // as after being declared dead
			l.settle(time.Minute)
			l.check()
		})
	}
}

// TestStoreForceNewWaits looks that no roster is forced by a node that has just
// begun, nor while somebody who lives does not answer.
func TestStoreForceNewWaits(t *testing.T) {
	l := newLab(t, 36)
	l.cluster(3)
	l.hurt(nothing, l.nodes...)
	l.again()
	n := l.nodes[0]
	l.cut = func(_, to *labNode) bool { return to == l.nodes[2] }
	if r := l.acceptLoss(n); r.Outcome != dht.Unavailable || !strings.Contains(r.Err, "n2") {
		t.Errorf("got %v %q while n2 does not answer", r.Outcome, r.Err)
	}
	l.cut = func(*labNode, *labNode) bool { return false }
	for _, x := range l.nodes {
		x.down = true
	}
	l.again()
	l.forceNew(n)
	if age := n.clock() - labAge; age < unknownAfter {
		t.Errorf("a new roster %v after the node began, others may be on their way until %v", age, unknownAfter)
	}
	l.settle(time.Minute)
	l.check()
}

// TestStoreLossTakesWhatIsLeft gives up shards of which one disk is left, that
// does not say any more whether it has all of them: what it has is kept.
func TestStoreLossTakesWhatIsLeft(t *testing.T) {
	l := newLab(t, 37)
	l.cluster(6)
	l.fill(l.nodes[0], "a", 300, true)
	l.run(time.Second)
	r := l.nodes[0].s.view.roster
	var gone []*labNode // the first is an acceptor, the others are none
	for _, n := range l.nodes {
		if r.IsAcceptor(n.name) == (len(gone) == 0) {
			gone = append(gone, n)
		}
	}
	gone, left := gone[:2], gone[2]
	l.hurt(func(_ *labNode, key string) bool { return strings.HasPrefix(key, "m/") }, left)
	var asker *labNode
	for _, n := range l.nodes {
		if !slices.Contains(gone, n) {
			asker = l.start(n.name, false)
		}
	}
	for i := range 12 { // some of them are nearer to what is lost
		l.start(filch.NodeName(fmt.Sprintf("new%d", i)), false)
	}
	l.run(3 * RecoverAfter)
	lost := len(asker.s.Status().Lost)
	if lost < 2 {
		t.Fatalf("%d shards are lost with two of their three disks, and the third does not say that it has them", lost)
	}
	for tries := 0; tries < pleasMax && len(asker.s.Status().Lost) > 0; tries++ {
		if r := l.acceptLoss(asker); r.Outcome != dht.Done {
			t.Fatalf("got %v %s", r.Outcome, r.Err)
		}
		l.run(time.Second)
	}
	l.expect(asker, "a", 300, dht.Done)
	l.check()
}

// pleasMax is how often a loss may have to be accepted: once for the roster and
// once for what is lost of shards.
const pleasMax = 2
