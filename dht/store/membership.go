package store

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
)

// acceptorWait is how long a new acceptor waits for message.Install before this node reports
// that it lost its state.
const acceptorWait = 2 * time.Second

// membership is this node as a member of the roster: the node's wishes about itself.
type membership struct {
	*input
	disk      *disk
	peers     *peers
	view      *view
	acceptor  *acceptor
	proposer  *proposer
	images    *images
	course    course
	reporting bool // the timer of repeated reports to the proposer runs
}

// Leave hands off everything this node holds; out.Left reports the end.
func (s *Store) Leave(now time.Duration, out *Out) {
	s.begin(now, out)
	defer s.end()
	s.membership.course = goes
	s.membership.leaving()
}

// Return ends a Leave, also a completed Leave: this node keeps records again.
func (s *Store) Return(now time.Duration, out *Out) {
	s.begin(now, out)
	defer s.end()
	if s.membership.course == goes {
		s.membership.course = saysBack
		s.membership.returning()
	}
}

// returning asks the proposer to keep this node as a member.
func (ms *membership) returning() {
	switch {
	case ms.course > backs:
		ms.course--
	case ms.course < backs || !ms.unwanted():
		return
	}
	ms.proposer.ask(roster.Change{What: roster.ChangeStaying, Who: ms.self})
	ms.in(wishEvery, ms.returning)
}

// unwanted reports whether the roster has this node as leaving, or not at all.
func (ms *membership) unwanted() bool {
	if ms.view.roster == nil {
		return false
	}
	m := ms.view.roster.Member(ms.self.Name)
	return m == nil || m.Replica != ms.self || m.Leaving
}

// leaving asks the proposer to drop this node until the roster no longer has this node.
func (ms *membership) leaving() {
	r := ms.view.roster
	if ms.course != goes {
		return
	}
	if r == nil && ms.blank() || r != nil && (ms.letGo() || len(r.Members) == 1 && ms.last()) {
		ms.out.Left = true
		return
	}
	ms.proposer.ask(roster.Change{What: roster.ChangeLeaving, Who: ms.self})
	ms.in(wishEvery, ms.leaving)
}

// blank reports whether the disk of this node held nothing that others may want. If the
// disk held anything, only a roster tells whether others still want the data.
func (ms *membership) blank() bool { return ms.acceptor.generation == 0 && len(ms.images.byShard) == 0 }

// last reports whether all other nodes have left. A node that is dead, or only cut off,
// may come back for the data here.
func (ms *membership) last() bool {
	return !slices.ContainsFunc(ms.peers.order, func(p *peer) bool { return p.listed && p.state != dht.PeerLeft })
}

// check acts when the roster has let this node go, or contradicts the node's
// course. A proposer that does not know of the departure may take a node that left in
// again, and a wish to leave may arrive after the node came back.
func (ms *membership) check() {
	switch {
	case ms.course == goes && ms.letGo():
		ms.out.Left = true
	case ms.course == goes && !ms.unwanted():
		ms.leaving()
	case ms.course == backs && ms.unwanted():
		ms.course = saysBack
		ms.returning()
	}
}

// letGo reports whether the roster has neither this node nor any earlier life of this
// node. A node declared dead while leaving may be an acceptor, or hold the last copy of a
// shard; such a node rejoins first.
func (ms *membership) letGo() bool {
	r := ms.view.roster
	for _, id := range ms.images.shards() {
		if c := r.Config(id); c != nil {
			if _, needed := ms.images.byShard[id].replica(ms.self.Name, c); needed {
				return false
			}
		}
	}
	return !r.Has(ms.self) && !r.IsAcceptor(ms.self.Name) && !slices.ContainsFunc(r.Shards, func(c *roster.Config) bool { return c.Has(ms.self) })
}

// checkAcceptor checks that this node has the state of an acceptor when the roster names this
// node as an acceptor.
func (ms *membership) checkAcceptor() {
	r := ms.view.roster
	if !r.IsAcceptor(ms.self.Name) || ms.acceptor.generation >= r.Generation {
		return
	}
	ms.in(acceptorWait, func() {
		r := ms.view.roster
		if !r.IsAcceptor(ms.self.Name) || ms.acceptor.generation >= r.Generation {
			return
		}
		// The disk may recover before the roster has this node as sick.
		if ms.disk.reason != "" {
			ms.checkAcceptor()
			return
		}
		ms.acceptor.onInstall(ms.peers.me, &message.Install{Value: r.Since(nil)})
		if ms.acceptor.generation < r.Generation {
			// The promises are lost; this node must not make others.
			ms.proposer.ask(roster.Change{What: roster.ChangeDemote, Epoch: r.Generation, Who: ms.self})
			ms.checkAcceptor()
		}
	})
}

// reportDiskState reports the disk's state to the proposer until the roster shows the
// same state. Each new roster is checked: a roster with the opposite state may come from
// a late wish, or be the first roster with this node as a member.
func (ms *membership) reportDiskState() {
	if ms.view.roster == nil {
		return
	}
	m := ms.view.roster.Member(ms.self.Name)
	sick := ms.disk.reason != ""
	if m == nil || m.Replica != ms.self || m.Sick == sick {
		return
	}
	c := roster.Change{What: roster.ChangeWell, Who: ms.self}
	if sick {
		c.What = roster.ChangeSick
	}
	ms.proposer.ask(c)
	if !ms.reporting {
		ms.reporting = true
		ms.in(wishEvery, func() {
			ms.reporting = false
			ms.reportDiskState()
		})
	}
}

// course says whether the node stays, leaves or returns. Above backs the node repeats the
// wish to stay.
type course int8

const (
	goes course = iota - 1 // leaving, or left
	stays
	backs // the node was leaving, and stays after all

	// saysBack is the number of repetitions, one a second: the proposer may receive a
	// late wish to leave, and a node receives no roster after leaving.
	saysBack = backs + 10
)
