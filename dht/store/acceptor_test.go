package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht"
)

// TestStoreLoneAcceptorLives lets one acceptor of three die with all that its disk had, and one
// or both of the others stop being acceptors: a disk takes nothing for a while, or they
// leave. No fourth node is there, so that one is to be the only acceptor. It must be one
// that lives, whatever is said of the dead: then nothing is lost.
func TestStoreLoneAcceptorLives(t *testing.T) {
	for leave := range 3 {
		for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			for _, said := range []dht.PeerState{dht.PeerUp, dht.PeerSuspect, dht.PeerGone} {
				if leave == 2 && order[1] > order[2] {
					continue
				}
				t.Run(fmt.Sprintf("leave=%d order=%v said=%d", leave, order, said), func(t *testing.T) {
					loneAcceptor(t, leave, order, said)
				})
			}
		}
	}
}

func loneAcceptor(t *testing.T, leave int, order [3]int, said dht.PeerState) {
	l := newLab(t, 71)
	l.cluster(4)
	l.fill(l.nodes[0], "a", 50, true)
	l.run(time.Second)
	r := l.nodes[0].s.view.roster
	acceptors := slices.Clone(r.Acceptors)
	if len(acceptors) != 3 {
		t.Fatalf("acceptors are %v, want 3", acceptors)
	}
	dead, unable, well := l.at[acceptors[order[0]].Name], l.at[acceptors[order[1]].Name], l.at[acceptors[order[2]].Name]
	other := l.nodes[slices.IndexFunc(l.nodes, func(n *labNode) bool { return !r.IsAcceptor(n.name) })]
	other.kill(0)
	l.run(time.Second)
	l.settle(time.Minute)
	dead.down, dead.damaged, dead.disk = true, true, nil
	for _, n := range l.nodes {
		n.hear(dead, said)
	}
	switch leave {
	case 0:
		unable.broken = true
		unable.do(func(out *Out) { unable.s.DiskFailed(unable.clock(), "no space left", out) })
	case 1:
		unable.leave()
	case 2: // one change of the roster takes in both
		l.cut = func(from, to *labNode) bool { return from == unable && to == well }
		unable.leave()
		well.leave()
	}
	l.run(time.Second)
	if leave == 0 {
		unable.broken, unable.disk, unable.buffer = false, nil, nil
		unable.do(func(out *Out) { unable.s.DiskBack(unable.clock(), out) })
	}
	l.cut = func(_, _ *labNode) bool { return false }
	l.run(3 * time.Second)
	for _, n := range l.nodes {
		n.hear(dead, dht.PeerDead)
	}
	l.run(20 * time.Second)
	l.start(dead.name, false)
	l.run(time.Second)
	l.settle(time.Minute)
	l.expect(dead, "a", 50, dht.Done)
	l.fill(dead, "b", 20, true)
	l.check()
}

// TestStoreSealedIsSaid lets one disk of three fail, and the answers of another acceptor get
// lost, so that the proposer does not know whether the register moves. Both acceptors that
// have accepted the move say that it may; when it is done nobody does.
func TestStoreSealedIsSaid(t *testing.T) {
	l := newLab(t, 71)
	l.cluster(3)
	l.run(time.Second)
	acceptors := l.nodes[0].s.view.roster.Acceptors
	proposer, mute, sick := l.at[acceptors[0].Name], l.at[acceptors[1].Name], l.at[acceptors[2].Name]
	says := func(want ...*labNode) {
		t.Helper()
		for _, n := range l.nodes {
			if got := n.s.Status().Sealed; got != slices.Contains(want, n) {
				t.Errorf("%s says %t that the acceptors may move", n.name, got)
			}
		}
	}
	says()
	accepting := func() bool { run := proposer.s.proposer.run; return run != nil && run.accepting }
	l.cut = func(from, to *labNode) bool { return from == mute && to == proposer && accepting() }
	sick.broken = true
	sick.do(func(out *Out) { sick.s.DiskFailed(sick.clock(), "no space left", out) })
	l.until("a proposal", time.Second, accepting)
	l.run(100 * time.Millisecond)
	says(proposer, mute)
	l.cut = func(_, _ *labNode) bool { return false }
	l.run(5 * time.Second)
	if r := proposer.s.view.roster; len(r.Acceptors) != 1 {
		t.Errorf("the acceptors are %v, want one", r.Acceptors)
	}
	says()
}
