package store

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
)

// seatWait is how long a new acceptor waits for message.Install before this node reports
// that it lost its state.
const seatWait = 2 * time.Second

// Leave hands off everything this node holds; out.Left reports the end.
func (s *Store) Leave(now time.Duration, out *Out) {
	s.begin(now, out)
	defer s.end()
	s.course = goes
	s.leaving()
}

// Return ends a Leave, also a completed Leave: this node keeps records again.
func (s *Store) Return(now time.Duration, out *Out) {
	s.begin(now, out)
	defer s.end()
	if s.course == goes {
		s.course = saysBack
		s.returning()
	}
}

// returning asks the proposer to keep this node as a member.
func (s *Store) returning() {
	switch {
	case s.course > backs:
		s.course--
	case s.course < backs || !s.unwanted():
		return
	}
	s.ask(roster.Change{What: roster.ChangeStaying, Who: s.self})
	s.in(wishEvery, timedFunc((*Store).returning))
}

// unwanted reports whether the roster has this node as leaving, or not at all.
func (s *Store) unwanted() bool {
	if s.roster == nil {
		return false
	}
	m := s.roster.Member(s.self.Name)
	return m == nil || m.Replica != s.self || m.Leaving
}

// leaving asks the proposer to drop this node until the roster no longer has this node.
func (s *Store) leaving() {
	r := s.roster
	if s.course != goes {
		return
	}
	if r == nil && s.blank() || r != nil && (s.letGo() || len(r.Members) == 1 && s.last()) {
		s.out.Left = true
		return
	}
	s.ask(roster.Change{What: roster.ChangeLeaving, Who: s.self})
	s.in(wishEvery, timedFunc((*Store).leaving))
}

// blank reports whether the disk of this node held nothing that others may want. If the
// disk held anything, only a roster tells whether others still want the data.
func (s *Store) blank() bool { return s.acceptor.generation == 0 && len(s.disk.images) == 0 }

// last reports whether all other nodes have left. A node that is dead, or only cut off,
// may come back for the data here.
func (s *Store) last() bool {
	return !slices.ContainsFunc(s.peers.order, func(p *peer) bool { return p.listed && p.state != dht.PeerLeft })
}

// checkCourse acts when the roster has let this node go, or contradicts the node's
// course. A proposer that does not know of the departure may take a node that left in
// again, and a wish to leave may arrive after the node came back.
func (s *Store) checkCourse() {
	switch {
	case s.course == goes && s.letGo():
		s.out.Left = true
	case s.course == goes && !s.unwanted():
		s.leaving()
	case s.course == backs && s.unwanted():
		s.course = saysBack
		s.returning()
	}
}

// letGo reports whether the roster has neither this node nor any earlier life of this
// node. A node declared dead while leaving may be an acceptor, or hold the last copy of a
// shard; such a node rejoins first.
func (s *Store) letGo() bool {
	r := s.roster
	for _, id := range s.imaged() {
		if c := r.Config(id); c != nil {
			if _, needed := s.disk.images[id].replica(s.self.Name, c); needed {
				return false
			}
		}
	}
	return !r.Has(s.self) && !r.Seated(s.self.Name) && !slices.ContainsFunc(r.Shards, func(c *roster.Config) bool { return c.Has(s.self) })
}

// checkSeat checks that this node has the state of an acceptor when the roster names this
// node as an acceptor.
func (s *Store) checkSeat() {
	r := s.roster
	if !r.Seated(s.self.Name) || s.acceptor.generation >= r.Generation {
		return
	}
	s.in(seatWait, timedFunc(func(s *Store) {
		r := s.roster
		if !r.Seated(s.self.Name) || s.acceptor.generation >= r.Generation {
			return
		}
		// The disk may recover before the roster has this node as sick.
		if s.disk.reason != "" {
			s.checkSeat()
			return
		}
		s.onInstall(s.peers.me, &message.Install{Value: r.Since(nil)})
		if s.acceptor.generation < r.Generation {
			// The promises are lost; this node must not make others.
			s.ask(roster.Change{What: roster.ChangeUnseat, Epoch: r.Generation, Who: s.self})
			s.checkSeat()
		}
	}))
}
