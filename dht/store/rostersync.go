package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
)

const (
	keptDeltas = 64                     // a node further behind gets the whole roster
	tellEvery  = 500 * time.Millisecond // until a child has the roster
	wantEvery  = 250 * time.Millisecond
	treeWidth  = 16   // children of a node in the tree along which a roster spreads
	maxStash   = 4096 // messages waiting for the roster of their senders
)

// rosterSync is the state for sending and receiving chosen rosters.
type rosterSync struct {
	deltas  []*roster.Delta // the last deltas, each beginning where the delta before ends
	whole   *roster.Delta   // from nothing, made when needed
	stash   []stashed
	wanted  bool   // a timer runs
	telling bool   // a timer runs
	turn    int    // index of the next peer to ask for the roster
	chose   uint64 // epoch of the last chosen proposal of this node
}

type stashed struct {
	from dht.Replica
	m    message.Message
}

// later stashes a message for which this node needs a newer roster, and returns false for
// messages without need of a roster.
func (s *Store) later(p *peer, m message.Message) bool {
	switch m.(type) {
	case *message.Prepare, *message.Promise, *message.Accept, *message.Accepted, *message.Refuse, *message.Install, *message.Roster, *message.Count, *message.Counted:
		return false
	case *message.Want:
		return s.roster == nil
	case *message.Ack:
		if mutantNoFence && s.roster != nil {
			// Otherwise the newer roster, which the ack announces, would be a fence too.
			return false
		}
	case *message.Have:
		s.want(p)
		return true
	}
	if len(s.sync.stash) < maxStash {
		s.sync.stash = append(s.sync.stash, stashed{p.replica(), m})
	}
	s.want(p)
	return true
}

// want asks for the roster: from the given peer, which has a newer roster, or from the
// live peers in turn.
func (s *Store) want(p *peer) {
	b := &s.sync
	if b.wanted {
		return
	}
	if p == nil {
		n := len(s.peers.order)
		for i := range n {
			x := s.peers.order[(b.turn+i)%n]
			if x.listed && x.state == dht.PeerUp {
				p, b.turn = x, b.turn+i+1
				break
			}
		}
	}
	if p == nil {
		return
	}
	b.wanted = true
	s.send(p, &message.Want{}, 0)
	s.in(wantEvery, timedFunc(func(s *Store) {
		b.wanted = false
		if s.roster == nil || len(b.stash) > 0 {
			s.want(nil)
			// An acceptor without a roster from a peer asks the other acceptors.
			s.wakeProposer()
		}
	}))
}

func (s *Store) onWant(p *peer, m *message.Want) {
	p.have = m.Roster
	if s.roster != nil && s.roster.Epoch > m.Roster {
		s.tell(p)
	}
}

// tell sends a node the missing part of the roster.
func (s *Store) tell(p *peer) {
	b := &s.sync
	if s.roster == nil || p == s.peers.me {
		return
	}
	if i := slices.IndexFunc(b.deltas, func(d *roster.Delta) bool { return d.Base == p.have }); i >= 0 && p.have > 0 {
		s.send(p, &message.Roster{Deltas: slices.Clone(b.deltas[i:])}, 0)
		return
	}
	if b.whole == nil || b.whole.Epoch != s.roster.Epoch {
		b.whole = s.roster.Since(nil)
	}
	s.send(p, &message.Roster{Deltas: []*roster.Delta{b.whole}}, 0)
}

func (s *Store) onRoster(p *peer, m *message.Roster) {
	r := s.roster
	for _, d := range m.Deltas {
		if r != nil && d.Epoch <= r.Epoch {
			continue
		}
		n := d.Applied(r)
		if n == nil {
			s.sync.wanted = false
			s.want(p)
			break
		}
		r = n
	}
	if r != s.roster {
		s.adopt(r)
	}
	s.send(p, &message.Have{}, 0)
}

// adopt makes a chosen roster this node's roster. Configs change in no other way.
func (s *Store) adopt(r *roster.Roster) {
	old := s.roster
	if old != nil && r.Epoch <= old.Epoch {
		if r.Epoch == old.Epoch && !r.Same(old) {
			panic(fmt.Sprintf("two rosters of epoch %d (I1)", r.Epoch))
		}
		return
	}
	b := &s.sync
	s.roster = r
	s.logBirth()
	if old == nil {
		s.proposer.since = s.now
		s.in(unknownAfter+time.Millisecond, timedFunc((*Store).wakeProposer))
		b.deltas = nil
	} else {
		b.deltas = append(b.deltas, r.Since(old))
		if len(b.deltas) > keptDeltas {
			b.deltas = slices.Delete(b.deltas, 0, len(b.deltas)-keptDeltas)
		}
	}
	if s.disk.recall.generation != 0 && s.disk.recall.generation < r.Generation {
		s.disk.recall = acceptor{}
		s.log(diskRecall, nil)
	}
	s.note(Note{Kind: NoteRoster, Epoch: r.Epoch, N: len(r.Members)})
	if old == nil || old.Generation != r.Generation {
		s.note(Note{Kind: NoteSeats, Epoch: r.Epoch, N: int(r.Generation)})
		if run := s.proposer.run; run != nil && run.generation != r.Generation {
			s.proposer.run = nil
		}
	}
	s.meet(old, r)
	s.reconfigure(old, r)
	s.spread()
	s.reroute()
	s.rewatch()
	s.adoptOrphans()
	s.finishFounding()
	s.offerImages()
	s.checkSeat()
	s.checkCourse()
	s.reportDiskState()
	s.wakeProposer()
	s.replay()
}

// meet learns the incarnations of members from a roster. If this node learned the
// incarnations only from answers, messages under way to a member would count as sent to
// an earlier incarnation.
func (s *Store) meet(old, r *roster.Roster) {
	if old != nil && slices.Equal(old.Members, r.Members) {
		return
	}
	for _, m := range r.Members {
		if p := s.peers.know(m.Name); p != s.peers.me && p.inc < m.Incarnation {
			s.renew(p, m.Incarnation)
		}
	}
}

// replay handles the messages of the stash. Messages for a still newer roster return to
// the stash.
func (s *Store) replay() {
	stash := s.sync.stash
	s.sync.stash = nil
	for _, x := range stash {
		p := s.peers.get(x.from.Name)
		if p.inc != x.from.Incarnation {
			continue
		}
		if h := x.m.Head(); h.Roster > s.roster.Epoch && s.later(p, x.m) {
			continue
		}
		s.dispatch(p, x.m)
	}
}

// spread sends a new roster to this node's children in a tree. The root of the tree is
// the proposer of the roster.
func (s *Store) spread() {
	s.children(func(p *peer) {
		if p.have < s.roster.Epoch {
			p.owed = true
			s.tell(p)
		}
	})
	s.keepTelling()
}

// children calls tell for this node's children, and for the children of children not
// known to live. The root is the proposer of the roster. A node that got another node's
// proposal chosen is a root too: the first proposer may not know of the success, or be
// gone.
func (s *Store) children(tell func(p *peer)) {
	r := s.roster
	n := len(r.Members)
	name := func(m roster.Member) filch.NodeName { return m.Name }
	by := r.By
	if s.sync.chose == r.Epoch {
		by = s.self.Name
	}
	root := max(slices.IndexFunc(r.Members, func(m roster.Member) bool { return name(m) == by }), 0)
	me := slices.IndexFunc(r.Members, func(m roster.Member) bool { return name(m) == s.self.Name })
	if me < 0 {
		return
	}
	var walk func(at int)
	walk = func(at int) {
		for i := treeWidth*at + 1; i <= treeWidth*(at+1) && i < n; i++ {
			m := r.Members[(root+i)%n]
			p := s.peers.know(m.Name)
			if p == s.peers.me {
				continue
			}
			st := s.standing(m.Replica)
			if st != roster.Over {
				tell(p)
			}
			if st != roster.Fine {
				walk(i)
			}
		}
	}
	walk((me - root + n) % n)
	if by == s.self.Name {
		for _, p := range s.peers.order {
			if p.owed && p.listed && p.state < dht.PeerDead && !r.Has(p.replica()) {
				tell(p) // a node dropped by this roster receives this roster too
			}
		}
	}
}

// keepTelling repeats the roster to the peers still owed the roster.
func (s *Store) keepTelling() {
	b := &s.sync
	if b.telling || !slices.ContainsFunc(s.peers.order, s.owes) {
		return
	}
	b.telling = true
	s.in(tellEvery, timedFunc(func(s *Store) {
		b.telling = false
		for _, p := range s.peers.order {
			if s.owes(p) {
				s.tell(p)
			}
		}
		s.keepTelling()
	}))
}

func (s *Store) owes(p *peer) bool {
	if p.owed && (p.have >= s.roster.Epoch || p.listed && p.state >= dht.PeerDead) {
		p.owed = false
	}
	return p.owed
}
