package dht

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// unknownAfter is how long a member of the roster that the member list does
// not know gets to appear in it: after a restart of everything the nodes come
// back one by one.
const unknownAfter = 10 * time.Second

// What a change asks for; they cross the wire: append only.
const (
	changeExclude   = iota + 1 // who does not answer the primary
	changeAdmit                // the learner has everything
	changeRecovered            // who has what the disks of the last replicas had
	changeLoss                 // begin anew with what is there
	changeLeaving              // who hands off
	changeSick                 // who's disk takes nothing
	changeWell                 // and takes again
	changeUnseat               // who has lost its promises; epoch is the generation
	changeStaying              // who was leaving, or has left, and lives on
	changes
)

// change is a wish for the roster, with the epoch of the shard for which it
// was made: in another epoch it is void.
type change struct {
	what  uint8
	shard Shard
	epoch uint64
	who   Replica
}

// standing of a replica, as this node sees it.
type standing uint8

const (
	unseen standing = iota
	fine
	silent
	away // gone, and perhaps wrongly called so: it keeps its seat and what it alone holds
	over
)

func (s *Store) standing(r Replica) standing {
	if r == s.self {
		return fine
	}
	p := s.peers.get(r.Name)
	switch {
	case r.Name == s.self.Name:
		if r.Incarnation < s.self.Incarnation {
			return over
		}
		return unseen
	case p == nil || !p.listed || p.inc < r.Incarnation:
		if s.now-s.stew.since > unknownAfter {
			return over
		}
		return unseen
	case p.inc > r.Incarnation || p.state >= PeerDead:
		return over
	case p.state == PeerGone:
		return away
	case p.state == PeerSuspect:
		return silent
	}
	return fine
}

// evolution is one change of the roster in the making.
type evolution struct {
	s     *Store
	base  *roster
	r     *roster
	index map[filch.NodeName]int // of members
	stand []standing             // by member
	place []point
	load  []int // shards, those that are planned counted and those that retire not
	homes []int // of them, as primary
	able  int   // members that can be given shards

	who  [][]int // by shard: its replicas by member, -1 those who are none
	lost []bool  // by shard: nobody lives who holds it

	awaits []filch.NodeName // who is to answer before more can change
}

// evolve works out what follows base, as this node sees the world and with
// what was asked for; nil when nothing does.
func (s *Store) evolve(base *roster, asks []change) *roster {
	e := &evolution{s: s, base: base, r: base.copy()}
	unseated := e.admitMembers(asks)
	if len(e.r.members) == 0 {
		return nil // this node leaves, and sees nobody who stays
	}
	e.measure()
	e.shrink()
	e.grant(asks)
	if 4*len(e.r.members) > 1<<e.r.depth && e.r.depth < shardBitsMax && (mutantSplitEarly || !e.recovers()) {
		e.r.split()
	}
	e.plan()
	e.seat(unseated)
	e.forgetGone()
	e.renumber()
	s.stew.awaited = e.awaits
	if slices.Equal(e.r.members, base.members) && slices.Equal(e.r.shards, base.shards) && !e.r.sealed() {
		return nil
	}
	e.r.epoch++
	e.r.by = s.self.Name
	return e.r
}

// admitMembers takes in who came and drops who went.
func (e *evolution) admitMembers(asks []change) (unseated []Replica) {
	s := e.s
	e.r.members = slices.DeleteFunc(e.r.members, func(m rosterMember) bool { return s.standing(m.Replica) == over })
	if e.r.member(s.self.Name) == nil && s.course != goes {
		e.r.members = append(e.r.members, rosterMember{Replica: s.self})
	}
	for _, c := range asks {
		if c.what == changeStaying {
			delete(s.stew.goers, c.who)
		}
	}
	for _, p := range s.peers.order {
		// A member of that name which is left is of this life, or of a later one than
		// the member list knows.
		if p.listed && p.state == PeerUp && (e.r.member(p.name) == nil || mutantTwiceMember && !e.r.has(p.replica())) && (!s.stew.goers[p.replica()] || e.needs(p.name)) {
			e.r.members = append(e.r.members, rosterMember{Replica: p.replica()})
		}
	}
	for _, c := range asks {
		if c.what == changeUnseat && c.epoch == e.r.generation {
			unseated = append(unseated, c.who)
		}
		m := e.r.member(c.who.Name)
		if m == nil || m.Replica != c.who {
			continue
		}
		switch c.what {
		case changeLeaving:
			m.leaving = true
		case changeStaying:
			m.leaving = false
		case changeSick:
			m.sick = true
		case changeWell:
			m.sick = false
		}
	}
	return unseated
}

// needs reports whether the disk of a node may have the last of a shard: then
// it is taken in again although it was let go.
func (e *evolution) needs(n filch.NodeName) bool {
	return slices.ContainsFunc(e.r.shards, func(c *shardConfig) bool {
		return c.names(n) && e.s.lost(c)
	})
}

// measure counts what everybody has.
func (e *evolution) measure() {
	n := len(e.r.members)
	e.index = make(map[filch.NodeName]int, n)
	e.stand, e.place = make([]standing, n), make([]point, n)
	e.load, e.homes, e.able = make([]int, n), make([]int, n), 0
	for i, m := range e.r.members {
		e.index[m.Name] = i
		e.stand[i] = e.s.standing(m.Replica)
		e.place[i] = e.s.stew.placeOf(m.Name)
		if !m.leaving && !m.sick {
			e.able++
		}
	}
	e.who, e.lost = make([][]int, len(e.r.shards)), make([]bool, len(e.r.shards))
	for i, c := range e.r.shards {
		e.who[i], e.lost[i] = e.numbers(c), e.s.lost(c)
		e.count(i, 1)
	}
}

// numbers are the replicas of a config by member.
func (e *evolution) numbers(c *shardConfig) []int {
	out := make([]int, len(c.replicas))
	for j, r := range c.replicas {
		m, ok := e.at(r)
		if !ok {
			m = -1
		}
		out[j] = m
	}
	return out
}

func (e *evolution) count(i, by int) {
	c := e.r.shards[i]
	for j, m := range e.who[i] {
		if m >= 0 && c.replicas[j] != c.retire {
			e.load[m] += by
		}
		if m >= 0 && j == 0 {
			e.homes[m] += by
		}
	}
	if m, ok := e.at(c.learner); ok {
		e.load[m] += by
	}
}

// at is the number of a member.
func (e *evolution) at(r Replica) (int, bool) {
	i, ok := e.index[r.Name]
	return i, ok && e.r.members[i].Incarnation == r.Incarnation
}

// was is the config of shard i before this change.
func (e *evolution) was(i int) *shardConfig {
	return e.base.shards[i>>(e.r.depth-e.base.depth)]
}

// recovers reports whether a shard comes back from a disk in this change. Only the
// config that begins its epoch tells that; the halves of a shard would not.
func (e *evolution) recovers() bool {
	return slices.ContainsFunc(e.r.shards, func(c *shardConfig) bool { return c.recovered && !slices.Contains(e.base.shards, c) })
}

// may reports whether shard i can get a config in this change: its primary was in
// the config before (I2). Another primary takes two changes.
func (e *evolution) may(i int, c *shardConfig) bool {
	return e.was(i).has(c.primary()) || c.recovered || mutantNaiveHome
}

// set gives shard i another config, where it may.
func (e *evolution) set(i int, c *shardConfig) bool {
	if !e.may(i, c) {
		return false
	}
	e.count(i, -1)
	e.r.shards[i], e.who[i] = c, e.numbers(c)
	e.count(i, 1)
	return true
}

// renumber makes one epoch of all that happened to a shard in this change.
func (e *evolution) renumber() {
	for i, c := range e.r.shards {
		if was := e.was(i); c.epoch > was.epoch+1 {
			n := *c
			n.epoch = was.epoch + 1
			e.r.shards[i] = &n
		}
	}
}

// shrink drops the dead and those who are gone from the configs, where somebody
// who is known to live remains; and plans with them. That one who is gone lives is
// as if it had been excluded for its silence: an epoch is over for it.
//
// A known limit: who remains may have died within the detection time, so that
// nobody knows yet. Then it was alone in a config in which it never did anything,
// and its disk alone counts: if that is damaged, what was acknowledged and is on
// the disks of those who were dropped is not brought back. To let theirs count, the
// roster would have to know that the one who remained has not acknowledged anything
// alone: one more change of it for each death, and no write until it is chosen.
func (e *evolution) shrink() {
	for i, c := range e.r.shards {
		alive := 0
		left := slices.DeleteFunc(slices.Clone(c.replicas), func(r Replica) bool {
			m, ok := e.at(r)
			if ok && e.stand[m] == fine {
				alive++ // one that is silent may be dead: whoever else has a disk of it is not let go before it is known
			}
			return ok && e.stand[m] == away || !ok && e.s.standing(r) == over
		})
		if alive == 0 {
			continue
		}
		if mutantNaiveHome && !slices.Contains(left, c.primary()) {
			any := e.r.members[e.s.random(len(e.r.members))].Replica
			left = slices.Insert(without(left, any), 0, any)
		}
		m, learning := e.at(c.learner)
		lost := c.learner != Replica{} && (!learning || e.stand[m] == away)
		if len(left) < len(c.replicas) || lost {
			// With a new epoch the primary knows that the learner was not
			// admitted, and needs its word no more.
			e.set(i, c.next(left))
		}
	}
}

// lost reports whether nobody who holds a shard lives.
func (s *Store) lost(c *shardConfig) bool {
	return !slices.ContainsFunc(c.replicas, func(r Replica) bool { return s.standing(r) != over })
}

// grant does what replicas asked for, if it is still about the same config.
func (e *evolution) grant(asks []change) {
	for _, a := range asks {
		c := e.r.config(a.shard)
		if c == nil || c.epoch != a.epoch {
			continue
		}
		i := int(a.shard) & (1<<e.r.depth - 1)
		switch a.what {
		case changeExclude:
			if c.has(a.who) && slices.ContainsFunc(c.replicas, func(r Replica) bool { return r != a.who && e.s.standing(r) == fine }) {
				e.s.sour(a.shard, a.who)
				e.set(i, c.next(without(c.replicas, a.who)))
			} else if c.learner == a.who && a.who != (Replica{}) {
				e.s.sour(a.shard, a.who)
				e.set(i, c.next(c.replicas))
			}
		case changeAdmit:
			if _, ok := e.at(a.who); ok && c.learner == a.who {
				next := append(slices.Clone(c.replicas), a.who)
				if !e.set(i, c.next(without(next, c.retire))) {
					e.set(i, c.next(next))
				}
			}
		case changeRecovered:
			if _, ok := e.at(a.who); ok && e.s.lost(c) {
				n := c.next([]Replica{a.who})
				n.recovered = true
				e.set(i, n)
			}
		case changeLoss:
			if e.s.lost(c) {
				e.renounce(i, c)
			}
		}
	}
}

// renounce begins a lost shard anew, at a live node.
func (e *evolution) renounce(i int, c *shardConfig) {
	m := e.nearest(e.r.shardAt(i), func(int) bool { return true })
	if m < 0 {
		return
	}
	n := c.next([]Replica{e.r.members[m].Replica})
	n.recovered = true
	e.set(i, n)
}

// forgetGone removes members that left: they hold nothing any more, nor does
// their disk hold what is lost, and they are seated nowhere.
func (e *evolution) forgetGone() {
	busy := map[Replica]bool{}
	needed := map[filch.NodeName]bool{}
	for _, c := range e.r.shards {
		lost := e.s.lost(c)
		for _, r := range c.replicas {
			busy[r] = true
			if lost {
				needed[r.Name] = true
			}
		}
	}
	e.r.members = slices.DeleteFunc(e.r.members, func(m rosterMember) bool {
		if !m.leaving || busy[m.Replica] || needed[m.Name] || e.r.seated(m.Name) || len(e.r.members) == 1 {
			return false
		}
		e.s.stew.goers[m.Replica] = true
		return true
	})
}

// isSworn reports whether a member has said that it knows of being one. Who left
// just now may be made a member again, by a steward that has not heard of it yet;
// with a seat there the roster could be lost.
func (s *Store) isSworn(r Replica) bool {
	if r == s.self {
		return true
	}
	p := s.peers.know(r.Name)
	return p.inc == r.Incarnation && (p.sworn == p.inc || s.roster != nil && p.have >= s.roster.epoch && s.roster.has(r))
}

// heard notes that a peer knows the roster of an epoch.
func (s *Store) heard(p *peer, epoch uint64) {
	news := p.have < epoch
	p.have = max(p.have, epoch)
	if s.roster == nil || epoch != s.roster.epoch {
		return
	}
	if p.sworn != p.inc && s.roster.has(p.replica()) {
		p.sworn, news = p.inc, true
	}
	if news && slices.Contains(s.stew.awaited, p.name) {
		s.kick()
	}
}

// seat moves the register to other seats where that is due.
//
// A known limit: with two able members the register moves to one seat, as with
// three the death of either would stop it. A move that a majority has accepted
// may come true when its proposer is gone, and the new seat's disk damaged since:
// that seat cannot know that it was never seated, and does not sit. Then the roster
// is lost, and [Store.AcceptLoss] begins it anew.
func (e *evolution) seat(unseated []Replica) {
	want := 1
	switch n := e.able; {
	case n >= 16 || n >= 9 && len(e.r.seats) == 5:
		want = 5 // falls back to 3 only well below 16: each move costs a generation
	case n >= 3:
		want = 3
	}
	good := func(n filch.NodeName) bool {
		i, ok := e.index[n]
		return ok && !e.r.members[i].leaving && !e.r.members[i].sick && e.stand[i] != over
	}
	// Who has lost its promises keeps no seat, but may have one in the next
	// generation, in which it made none: there may be nobody else.
	lost := func(n filch.NodeName) bool {
		return slices.ContainsFunc(unseated, func(r Replica) bool { return r.Name == n })
	}
	var next []Replica
	for _, r := range e.r.seats {
		if good(r.Name) && !lost(r.Name) {
			next = append(next, e.r.members[e.index[r.Name]].Replica)
		}
	}
	if want < len(e.r.seats) {
		next = e.surest(next, want)
	}
	kept := len(next)
	var unsworn []Replica
	for i, m := range e.r.members {
		switch {
		case len(next) == want || !good(m.Name) || e.stand[i] != fine || slices.Contains(next, m.Replica):
		case e.s.isSworn(m.Replica):
			next = append(next, m.Replica)
		default:
			unsworn = append(unsworn, m.Replica)
		}
	}
	if len(next) < want {
		e.await(unsworn)
		return // nobody is there to replace who is missing
	}
	if kept == len(e.r.seats) && kept == want || want <= len(e.r.seats) && !e.most(next) {
		return
	}
	e.r.next = next
}

// surest are those of some seats that stay when there are to be fewer. The one that is
// left may have died unnoticed with what its disk had, and would take the roster with
// it. So those that have answered come first, and one that is silent is none.
func (e *evolution) surest(seats []Replica, want int) []Replica {
	seats = slices.DeleteFunc(seats, func(r Replica) bool { return e.stand[e.index[r.Name]] != fine })
	slices.SortStableFunc(seats, func(a, b Replica) int {
		switch x, y := e.surely(a), e.surely(b); {
		case x && !y:
			return -1
		case y && !x:
			return 1
		}
		return 0
	})
	return seats[:min(want, len(seats))]
}

// surely reports whether a seat has answered: the proposal, or before.
func (e *evolution) surely(r Replica) bool {
	run := e.s.stew.run
	return run != nil && slices.Contains(run.promised, r.Name) || e.answered(r)
}

// most reports whether most of some seats have answered: if they died unnoticed, the
// roster may go with them.
func (e *evolution) most(seats []Replica) bool {
	mute := slices.DeleteFunc(slices.Clone(seats), e.surely)
	if 2*len(mute) < len(seats) {
		return true
	}
	e.await(mute)
	return false
}
