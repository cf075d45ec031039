package store

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
)

// unknownAfter is how long a member of the roster may be missing from the member list:
// after a restart of the whole instance the nodes come back over time.
const unknownAfter = 10 * time.Second

// worldView is this node's view of the instance, for roster.Next.
type worldView struct{ s *Store }

// Standing returns the standing of a replica.
func (v worldView) Standing(r dht.Replica) roster.Standing { return v.s.standing(r) }

// Up calls f with the peers that are up.
func (v worldView) Up(f func(dht.Replica)) {
	for _, p := range v.s.peers.order {
		if p.listed && p.state == dht.PeerUp {
			f(p.replica())
		}
	}
}

// Stays reports whether this node does not leave.
func (v worldView) Stays() bool { return v.s.course != goes }

// Place returns the place of a node in the key space.
func (v worldView) Place(n filch.NodeName) dht.Point { return v.s.proposer.placeOf(n) }

// Knows reports whether a node is known to have the roster of an epoch.
func (v worldView) Knows(r dht.Replica, epoch uint64) bool {
	p := v.s.peers.get(r.Name)
	return p != nil && p.inc == r.Incarnation && p.have >= epoch
}

// Confirmed reports whether a node has confirmed being a member.
func (v worldView) Confirmed(r dht.Replica) bool { return v.s.confirmsMembership(r) }

// Promised reports whether an acceptor has answered the present proposal.
func (v worldView) Promised(n filch.NodeName) bool {
	run := v.s.proposer.run
	return run != nil && slices.Contains(run.promised, n)
}

// Excluded reports whether a replica failed a shard a short while ago.
func (v worldView) Excluded(sh dht.Shard, who dht.Replica) bool {
	return v.s.proposer.excluded(sh, who, v.s.now)
}

// Exclude notes that a replica failed a shard.
func (v worldView) Exclude(sh dht.Shard, who dht.Replica) { v.s.exclude(sh, who) }

// HasLeft reports whether a node left.
func (v worldView) HasLeft(r dht.Replica) bool { return v.s.proposer.leavers[r] }

// SetLeft notes that a node left, or stays.
func (v worldView) SetLeft(r dht.Replica, left bool) {
	if left {
		v.s.proposer.leavers[r] = true
	} else {
		delete(v.s.proposer.leavers, r)
	}
}

// Await notes the nodes to answer before the roster can change further.
func (v worldView) Await(names []filch.NodeName) { v.s.proposer.awaited = names }

// Random returns a number below n.
func (v worldView) Random(n int) int { return v.s.random(n) }

// nextRoster computes the roster after base, from this node's view and the wishes; nil
// when nothing changes.
func (s *Store) nextRoster(base *roster.Roster, asks []roster.Change) *roster.Roster {
	return roster.Next(worldView{s}, s.self, base, asks)
}

// standing returns the standing of a replica, as this node sees the replica.
func (s *Store) standing(r dht.Replica) roster.Standing {
	if r == s.self {
		return roster.Fine
	}
	p := s.peers.get(r.Name)
	switch {
	case r.Name == s.self.Name:
		if r.Incarnation < s.self.Incarnation {
			return roster.Over
		}
		return roster.Unseen
	case p == nil || !p.listed || p.inc < r.Incarnation:
		if s.now-s.proposer.since > unknownAfter {
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

// lost reports whether no replica of a shard lives.
func (s *Store) lost(c *roster.Config) bool {
	return !slices.ContainsFunc(c.Replicas, func(r dht.Replica) bool { return s.standing(r) != roster.Over })
}

// confirmsMembership reports whether a member has confirmed a roster with itself as a
// member. A proposer unaware of a departure may make a departed node a member again; as
// an acceptor such a node could cost the roster.
func (s *Store) confirmsMembership(r dht.Replica) bool {
	if r == s.self {
		return true
	}
	p := s.peers.know(r.Name)
	return p.inc == r.Incarnation && (p.confirmed == p.inc || s.roster != nil && p.have >= s.roster.Epoch && s.roster.Has(r))
}

// onKnown notes that a peer knows the roster of an epoch.
func (s *Store) onKnown(p *peer, epoch uint64) {
	news := p.have < epoch
	p.have = max(p.have, epoch)
	if s.roster == nil || epoch != s.roster.Epoch {
		return
	}
	if p.confirmed != p.inc && s.roster.Has(p.replica()) {
		p.confirmed, news = p.inc, true
	}
	if news && slices.Contains(s.proposer.awaited, p.name) {
		s.wakeProposer()
	}
}
