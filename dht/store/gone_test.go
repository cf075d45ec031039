package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
)

// rumor has all others hear how a node stands.
func (l *lab) rumor(of *labNode, st dht.PeerState) {
	for _, o := range l.nodes {
		if o != of && !o.down {
			o.hear(of, st)
		}
	}
}

// served carries out a change of 100 keys, which must be done within a time.
func (l *lab) served(n *labNode, round int, limit time.Duration) {
	l.t.Helper()
	var ops []dht.Op
	for i := range 100 {
		ops = append(ops, dht.Op{Code: dht.OpInsert, Key: dht.Key(fmt.Sprintf("r%d/%d", round, i)), Value: []byte("v")})
	}
	at := l.Now()
	tag := n.askFor(time.Minute, ops...)
	l.until("all is served", time.Minute, func() bool { return l.answered(tag, len(ops)) })
	if d := l.Now() - at; d > limit {
		l.t.Errorf("round %d was served after %v, want at most %v", round, d, limit)
	}
	for i, res := range l.done[tag] {
		if res.Outcome != dht.Done {
			l.t.Errorf("round %d, operation %d: %v %s", round, i, res.Outcome, res.Err)
		}
	}
}

// TestStoreMovesAtOnce kills nodes, the proposer and homes among them: the others
// go on as soon as they hear that it is gone, and do not wait for its death.
func TestStoreMovesAtOnce(t *testing.T) {
	l := newLab(t, 41)
	l.cluster(5)
	for victim := range 4 {
		n := l.nodes[victim]
		n.down = true
		l.after(50*time.Millisecond, func() { l.rumor(n, dht.PeerGone) })
		l.served(l.nodes[4], victim, time.Second)
		l.start(n.name, false) // in another life, and before it was dead
		l.settle(time.Minute)
	}
	l.check()
}

// TestStoreGoneLives has all others call a node gone that lives: it is out of all
// configs, keeps its place in the roster, and learns its shards again when it is
// back.
func TestStoreGoneLives(t *testing.T) {
	for victim := range 3 {
		t.Run(fmt.Sprintf("node-%d", victim), func(t *testing.T) {
			l := newLab(t, 42)
			l.cluster(4)
			n := l.nodes[victim]
			l.served(l.nodes[3], 0, time.Second)
			l.rumor(n, dht.PeerGone)
			l.served(l.nodes[3], 1, time.Second)
			l.run(time.Second)
			r := l.nodes[3].s.view.roster
			if i := slices.IndexFunc(r.Shards, func(c *roster.Config) bool { return c.Has(n.s.self) }); i >= 0 || !r.Has(n.s.self) {
				t.Errorf("%s is in the config of shard %d, a member of the roster: %v; want none, and a member", n.name, i, r.Has(n.s.self))
			}
			l.served(n, 2, time.Second) // it is not dead
			l.rumor(n, dht.PeerUp)
			l.settle(time.Minute)
			l.served(n, 3, time.Second)
			l.check()
		})
	}
}

// TestStoreGoneIsNotLost has a node call all the others gone, which hold shards
// that it has not: they are not lost, and nobody is asked to accept their loss.
func TestStoreGoneIsNotLost(t *testing.T) {
	l := newLab(t, 43)
	l.cluster(5)
	n := l.nodes[0]
	before := n.s.view.roster.Generation
	for _, o := range l.nodes[1:] {
		n.hear(o, dht.PeerGone)
	}
	if s := n.s.Status(); len(s.Lost) > 0 {
		t.Errorf("%d shards are lost, want none", len(s.Lost))
	}
	n.do(func(out *Out) { n.s.AcceptLoss(n.clock(), 1<<40, nil, out) })
	l.run(5 * time.Second)
	for _, o := range l.nodes[1:] {
		n.hear(o, dht.PeerUp)
	}
	l.settle(time.Minute)
	if n.s.Status().Generation > before {
		t.Errorf("a new roster was forced, generation %d, %d before", n.s.Status().Generation, before)
	}
	l.served(n, 0, time.Second)
	l.check()
}
