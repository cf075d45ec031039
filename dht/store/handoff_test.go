package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
)

// TestStoreLeavesNothingToTheDead lets one of three nodes die with all that its disk
// had, while the list of members says for some seconds that it is well, and the
// others leave. They keep what they have until somebody who lives has it.
func TestStoreLeavesNothingToTheDead(t *testing.T) {
	for victim := range 3 {
		for _, apart := range []time.Duration{0, 30 * time.Millisecond, time.Second} {
			t.Run(fmt.Sprintf("dead=%d/apart=%v", victim, apart), func(t *testing.T) {
				l := newLab(t, 73)
				l.cluster(3)
				l.fill(l.nodes[0], "a", 200, true)
				l.run(time.Second)
				dead := l.nodes[victim]
				others := slices.DeleteFunc(slices.Clone(l.nodes), func(n *labNode) bool { return n == dead })
				dead.down, dead.damaged, dead.disk = true, true, nil
				for _, n := range others {
					n.leave()
					l.run(apart)
				}
				l.run(4*time.Second - 2*apart)
				if others[0].left && others[1].left {
					t.Error("both left, and nobody else lives")
				}
				l.rumor(dead, dht.PeerDead)
				l.run(time.Second)
				l.expect(others[1], "a", 200, dht.Done)
				l.start(dead.name, false)
				l.until("both are let go", time.Minute, func() bool { return others[0].left && others[1].left })
				l.expect(dead, "a", 200, dht.Done)
				l.fill(dead, "b", 20, true)
				l.check()
			})
		}
	}
}

// TestStoreSickLeaveNothingToTheDead is the same where the disks of two replicas take
// nothing, so that the third one, of which nobody knows that it has died, would be
// alone with their shards.
func TestStoreSickLeaveNothingToTheDead(t *testing.T) {
	l := newLab(t, 74)
	l.cluster(8)
	l.fill(l.nodes[0], "a", 500, true)
	l.run(time.Second)
	r := l.nodes[0].s.view.roster
	i := slices.IndexFunc(r.Shards, func(c *roster.Config) bool {
		return !slices.ContainsFunc(c.Replicas, func(x dht.Replica) bool { return r.IsAcceptor(x.Name) })
	})
	if i < 0 {
		t.Fatal("each shard is on an acceptor")
	}
	var three []*labNode
	for _, x := range r.Shards[i].Replicas {
		three = append(three, l.at[x.Name])
	}
	three[2].down, three[2].damaged, three[2].disk = true, true, nil
	for _, n := range three[:2] {
		n.broken = true
		n.do(func(out *Out) { n.s.DiskFailed(n.clock(), "no space left", out) })
	}
	l.run(4 * time.Second)
	l.rumor(three[2], dht.PeerDead)
	l.settle(time.Minute)
	l.expect(l.nodes[0], "a", 500, dht.Done)
	l.check()
}

// TestStoreChosenByAnother has a node get chosen what another one had proposed: it
// tells all, the one who proposed it included.
func TestStoreChosenByAnother(t *testing.T) {
	l := newLab(t, 21)
	l.cluster(5)
	n := l.nodes[2]
	told := func() (names []filch.NodeName) {
		n.s.sync.children(func(p *peer) { names = append(names, p.name) })
		slices.Sort(names)
		return names
	}
	n.s.view.roster.By, n.s.sync.chose = "n0", 0
	if names := told(); slices.Contains(names, "n0") {
		t.Errorf("%s tells %v of what n0 proposed", n.name, names)
	}
	n.s.sync.chose = n.s.view.roster.Epoch
	if names := told(); !slices.Contains(names, "n0") || len(names) < 2 {
		t.Errorf("%s tells %v of what it got chosen", n.name, names)
	}
}
