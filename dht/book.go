package dht

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

const (
	keptDeltas = 64                     // who is further behind gets the whole roster
	tellEvery  = 500 * time.Millisecond // until a child has the roster
	wantEvery  = 250 * time.Millisecond
	treeWidth  = 16   // children of a node in the tree along which a roster spreads
	maxStash   = 4096 // messages that wait for a roster that their senders know
)

// book is what this node knows and tells of rosters that were chosen.
type book struct {
	deltas  []*rosterDelta // the last ones, each beginning where the one before ends
	whole   *rosterDelta   // from nothing, made when needed
	stash   []stashed
	wanted  bool   // a timer runs
	telling bool   // a timer runs
	turn    int    // of whom to ask for the roster
	chose   uint64 // epoch of the last roster that this node got chosen
}

type stashed struct {
	from Replica
	m    StoreMessage
}

// later keeps a message that only somebody with a newer roster can understand;
// it reports false for those that need none.
func (s *Store) later(p *peer, m StoreMessage) bool {
	switch m.(type) {
	case *msgPrepare, *msgPromise, *msgAccept, *msgAccepted, *msgRefuse, *msgInstall, *msgRoster, *msgCount, *msgCounted:
		return false
	case *msgWant:
		return s.roster == nil
	case *msgAck:
		if mutantNoFence && s.roster != nil {
			return false // else the newer roster, which it tells of, would be a fence too
		}
	case *msgHave:
		s.want(p)
		return true
	}
	if len(s.book.stash) < maxStash {
		s.book.stash = append(s.book.stash, stashed{p.replica(), m})
	}
	s.want(p)
	return true
}

// want asks for the roster: the peer given, which has a newer one, or else
// one after the other of those who live.
func (s *Store) want(p *peer) {
	b := &s.book
	if b.wanted {
		return
	}
	if p == nil {
		n := len(s.peers.order)
		for i := range n {
			x := s.peers.order[(b.turn+i)%n]
			if x.listed && x.state == PeerUp {
				p, b.turn = x, b.turn+i+1
				break
			}
		}
	}
	if p == nil {
		return
	}
	b.wanted = true
	s.send(p, &msgWant{}, 0)
	s.in(wantEvery, timedFunc(func(s *Store) {
		b.wanted = false
		if s.roster == nil || len(b.stash) > 0 {
			s.want(nil)
			s.kick() // a seat that nobody can tell asks the others
		}
	}))
}

func (s *Store) onWant(p *peer, m *msgWant) {
	p.have = m.roster
	if s.roster != nil && s.roster.epoch > m.roster {
		s.tell(p)
	}
}

// tell sends a node what it lacks of the roster.
func (s *Store) tell(p *peer) {
	b := &s.book
	if s.roster == nil || p == s.peers.me {
		return
	}
	if i := slices.IndexFunc(b.deltas, func(d *rosterDelta) bool { return d.base == p.have }); i >= 0 && p.have > 0 {
		s.send(p, &msgRoster{deltas: slices.Clone(b.deltas[i:])}, 0)
		return
	}
	if b.whole == nil || b.whole.epoch != s.roster.epoch {
		b.whole = s.roster.since(nil)
	}
	s.send(p, &msgRoster{deltas: []*rosterDelta{b.whole}}, 0)
}

func (s *Store) onRoster(p *peer, m *msgRoster) {
	r := s.roster
	for _, d := range m.deltas {
		if r != nil && d.epoch <= r.epoch {
			continue
		}
		n := d.applied(r)
		if n == nil {
			s.book.wanted = false
			s.want(p)
			break
		}
		r = n
	}
	if r != s.roster {
		s.adopt(r)
	}
	s.send(p, &msgHave{}, 0)
}

// adopt makes a chosen roster this node's: the only way in which configs
// change.
func (s *Store) adopt(r *roster) {
	old := s.roster
	if old != nil && r.epoch <= old.epoch {
		if r.epoch == old.epoch && !r.same(old) {
			panic(fmt.Sprintf("two rosters of epoch %d (I1)", r.epoch))
		}
		return
	}
	b := &s.book
	s.roster = r
	s.bear()
	if old == nil {
		s.stew.since = s.now
		s.in(unknownAfter+time.Millisecond, timedFunc((*Store).kick))
		b.deltas = nil
	} else {
		b.deltas = append(b.deltas, r.since(old))
		if len(b.deltas) > keptDeltas {
			b.deltas = slices.Delete(b.deltas, 0, len(b.deltas)-keptDeltas)
		}
	}
	if s.disk.recall.generation != 0 && s.disk.recall.generation < r.generation {
		s.disk.recall = seat{}
		s.log(diskRecall, nil)
	}
	s.note(StoreNote{Kind: NoteRoster, Epoch: r.epoch, N: len(r.members)})
	if old == nil || old.generation != r.generation {
		s.note(StoreNote{Kind: NoteSeats, Epoch: r.epoch, N: int(r.generation)})
		if run := s.stew.run; run != nil && run.generation != r.generation {
			s.stew.run = nil
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
	s.sickness()
	s.kick()
	s.replay()
}

// meet learns the incarnations of members from a roster. Were they learned from
// their answers only, what was under way to them would be taken for what an
// earlier life of theirs was sent.
func (s *Store) meet(old, r *roster) {
	if old != nil && slices.Equal(old.members, r.members) {
		return
	}
	for _, m := range r.members {
		if p := s.peers.know(m.Name); p != s.peers.me && p.inc < m.Incarnation {
			s.renew(p, m.Incarnation)
		}
	}
}

// same reports whether two rosters are one; shards are compared by content.
func (r *roster) same(o *roster) bool {
	return r.generation == o.generation && slices.Equal(r.members, o.members) && slices.Equal(r.seats, o.seats) &&
		slices.Equal(r.next, o.next) && slices.EqualFunc(r.shards, o.shards, func(a, b *shardConfig) bool {
		return a == b || a.epoch == b.epoch && slices.Equal(a.replicas, b.replicas) && a.learner == b.learner && a.retire == b.retire
	})
}

// replay takes up the messages that waited for a roster. What still waits
// comes into the stash again.
func (s *Store) replay() {
	stash := s.book.stash
	s.book.stash = nil
	for _, x := range stash {
		p := s.peers.get(x.from.Name)
		if p.inc != x.from.Incarnation {
			continue
		}
		if h := x.m.head(); h.roster > s.roster.epoch && s.later(p, x.m) {
			continue
		}
		s.dispatch(p, x.m)
	}
}

// spread passes a new roster on to this node's children in a tree whose root
// is who proposed it.
func (s *Store) spread() {
	s.children(func(p *peer) {
		if p.have < s.roster.epoch {
			p.owed = true
			s.tell(p)
		}
	})
	s.keepTelling()
}

// children walks over those whom this node tells: its own, and those of
// children who do not live. The root is who proposed the roster, and also who got
// what another one proposed chosen: that one may not know, or be gone.
func (s *Store) children(tell func(p *peer)) {
	r := s.roster
	n := len(r.members)
	name := func(m rosterMember) filch.NodeName { return m.Name }
	by := r.by
	if s.book.chose == r.epoch {
		by = s.self.Name
	}
	root := max(slices.IndexFunc(r.members, func(m rosterMember) bool { return name(m) == by }), 0)
	me := slices.IndexFunc(r.members, func(m rosterMember) bool { return name(m) == s.self.Name })
	if me < 0 {
		return
	}
	var walk func(at int)
	walk = func(at int) {
		for i := treeWidth*at + 1; i <= treeWidth*(at+1) && i < n; i++ {
			m := r.members[(root+i)%n]
			p := s.peers.know(m.Name)
			if p == s.peers.me {
				continue
			}
			st := s.standing(m.Replica)
			if st != over {
				tell(p)
			}
			if st != fine {
				walk(i)
			}
		}
	}
	walk((me - root + n) % n)
	if by == s.self.Name {
		for _, p := range s.peers.order {
			if p.owed && p.listed && p.state < PeerDead && !r.has(p.replica()) {
				tell(p) // one that just left the roster hears of it
			}
		}
	}
}

// keepTelling repeats the roster to those who are owed it.
func (s *Store) keepTelling() {
	b := &s.book
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
	if p.owed && (p.have >= s.roster.epoch || p.listed && p.state >= PeerDead) {
		p.owed = false
	}
	return p.owed
}
