package store

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
)

// unknownAfter is how long a member of the roster may be missing from the member list:
// after a restart of the whole instance the nodes come back over time. A list that is not
// whole says nothing about a missing node.
const unknownAfter = 10 * time.Second

// view is the roster, and the standing of the nodes in the roster.
type view struct {
	*input
	peers  *peers
	roster *roster.Roster // the newest chosen roster known here
	since  time.Duration  // when this node learned a first roster
}

// confirmsMembership reports whether a member has confirmed a roster with itself as a
// member. A proposer unaware of a departure may make a departed node a member again; as
// an acceptor such a node could cost the roster.
func (v *view) confirmsMembership(r dht.Replica) bool {
	if r == v.self {
		return true
	}
	p := v.peers.know(r.Name)
	return p.inc == r.Incarnation && (p.confirmed == p.inc || v.roster != nil && p.have >= v.roster.Epoch && v.roster.Has(r))
}

// lost reports whether no replica of a shard lives.
func (v *view) lost(c *roster.Config) bool {
	return !slices.ContainsFunc(c.Replicas, func(r dht.Replica) bool { return v.standing(r) != roster.Over })
}

// standing returns the standing of a replica, as this node sees the replica.
func (v *view) standing(r dht.Replica) roster.Standing {
	if r == v.self {
		return roster.Fine
	}
	p := v.peers.get(r.Name)
	switch {
	case r.Name == v.self.Name:
		if r.Incarnation < v.self.Incarnation {
			return roster.Over
		}
		return roster.Unseen
	case p == nil || !p.listed || p.inc < r.Incarnation:
		if v.now-v.since > unknownAfter && !v.peers.partial {
			return roster.Over
		}
		return roster.Unseen
	case p.inc > r.Incarnation || p.state >= dht.PeerDead:
		return roster.Over
	case p.state == dht.PeerGone:
		return roster.Away
	case p.state == dht.PeerSuspect:
		return roster.Silent
	}
	return roster.Fine
}

// standingOf returns the standing of a node, with any incarnation.
func (v *view) standingOf(n filch.NodeName) roster.Standing {
	if n == v.self.Name {
		return roster.Fine
	}
	p := v.peers.get(n)
	if p == nil || !p.listed {
		return roster.Unseen
	}
	return v.standing(p.replica())
}

// worldView is this node's view of the instance, for roster.Next.
type worldView struct{ w *proposer }

// Standing returns the standing of a replica.
func (v worldView) Standing(r dht.Replica) roster.Standing { return v.w.view.standing(r) }

// Up calls f with the peers that are up.
func (v worldView) Up(f func(dht.Replica)) {
	for _, p := range v.w.peers.order {
		if p.listed && p.state == dht.PeerUp {
			f(p.replica())
		}
	}
}

// Stays reports whether this node does not leave.
func (v worldView) Stays() bool { return v.w.membership.course != goes }

// Place returns the place of a node in the key space.
func (v worldView) Place(n filch.NodeName) dht.Point { return v.w.placeOf(n) }

// Knows reports whether a node is known to have the roster of an epoch.
func (v worldView) Knows(r dht.Replica, epoch uint64) bool {
	p := v.w.peers.get(r.Name)
	return p != nil && p.inc == r.Incarnation && p.have >= epoch
}

// Confirmed reports whether a node has confirmed being a member.
func (v worldView) Confirmed(r dht.Replica) bool { return v.w.view.confirmsMembership(r) }

// Promised reports whether an acceptor has answered the present proposal.
func (v worldView) Promised(n filch.NodeName) bool {
	run := v.w.run
	return run != nil && slices.Contains(run.promised, n)
}

// Excluded reports whether a replica failed a shard a short while ago.
func (v worldView) Excluded(sh dht.Shard, who dht.Replica) bool {
	return v.w.excluded(sh, who, v.w.now)
}

// Exclude notes that a replica failed a shard.
func (v worldView) Exclude(sh dht.Shard, who dht.Replica) { v.w.exclude(sh, who) }

// HasLeft reports whether a node left.
func (v worldView) HasLeft(r dht.Replica) bool { return v.w.leavers[r] }

// SetLeft notes that a node left, or stays.
func (v worldView) SetLeft(r dht.Replica, left bool) {
	if left {
		v.w.leavers[r] = true
	} else {
		delete(v.w.leavers, r)
	}
}

// Await notes the nodes to answer before the roster can change further.
func (v worldView) Await(names []filch.NodeName) { v.w.awaited = names }

// Outlived reports whether a replica has spoken since this node knows of the loss of
// another, or has been asked in vain for as long as a lost shard waits for disks.
func (v worldView) Outlived(r, lost dht.Replica) bool {
	p, at := v.w.peers.know(r.Name), max(v.w.peers.know(lost.Name).lostAt, v.w.began)
	return p.inc == r.Incarnation && (p.heard > at || v.w.now >= at+RecoverAfter)
}

// Doubt names the nodes to speak before shards are left to them alone, and asks them now
// and then. The store of a node that lives answers.
func (v worldView) Doubt(names []filch.NodeName) {
	w := v.w
	if w.doubted = names; len(names) == 0 || w.doubting {
		return
	}
	w.doubting = true
	for _, n := range names {
		w.network.send(w.peers.know(n), &message.Want{}, 0)
	}
	w.in(wantEvery, func() {
		w.doubting = false
		w.wake()
	})
}

// Random returns a number below n.
func (v worldView) Random(n int) int { return v.w.dice.IntN(n) }
