package dht

import (
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// The times of the register.
const (
	changePause   = 5 * time.Millisecond   // for each member, from one change of the roster to the next:
	changePauses  = 200 * time.Millisecond // at most; joins come in crowds, and all are told
	proposalLimit = 300 * time.Millisecond // without a majority
	proposalPause = 2 * time.Second        // at most, from one failed proposal to the next
	wishEvery     = time.Second            // a wish is repeated
	sourFor       = 30 * time.Second       // a replica that failed a shard is not recruited for it
	aheadFor      = 2 * time.Second        // without a roster of its generation, until a seat asks for one whoever is first
	maxAsks       = 1 << 14
)

// steward is this node as one that changes the roster: each seat can, and the
// first that lives does.
type steward struct {
	began time.Duration // this store; 0: not yet
	since time.Duration // this node knows a roster
	asks  []change
	asked map[change]bool
	last  time.Duration // of the last proposal's end
	pause time.Duration
	at    time.Duration // of the timer, Never if there is none
	ahead time.Duration // until when the seat waits for another one's roster, 0 if it knows one
	run   *proposal
	high  uint64 // highest ballot number seen
	cache ballot // under which value was accepted by a majority
	value *roster
	goers map[Replica]bool // who left and may still be on the list
	// awaited are members of which an answer to the roster is due, before they have a
	// seat, or others leave to them what they hold.
	awaited []filch.NodeName
	blamed  map[sourPair]time.Duration
	places  map[filch.NodeName]point
}

type sourPair struct {
	shard Shard
	who   Replica
}

// proposal is one run of the register's two phases.
type proposal struct {
	ballot     ballot
	generation uint64
	seats      []Replica
	promised   []filch.NodeName
	best       ballot
	value      *roster // under best; later what is proposed
	base       *roster
	baseBallot ballot
	accepting  bool
	accepted   []filch.NodeName
	installed  []filch.NodeName // seats that were told what they are, once
	asks       []change
	retry      time.Duration
}

func newSteward() steward {
	return steward{
		asked: map[change]bool{}, at: filch.Never, goers: map[Replica]bool{},
		blamed: map[sourPair]time.Duration{}, places: map[filch.NodeName]point{},
	}
}

func (w *steward) placeOf(n filch.NodeName) point {
	p, ok := w.places[n]
	if !ok {
		p = placeOf(n)
		w.places[n] = p
	}
	return p
}

// sour notes that a replica failed a shard.
func (s *Store) sour(sh Shard, who Replica) {
	maps.DeleteFunc(s.stew.blamed, func(_ sourPair, until time.Duration) bool { return until <= s.now })
	s.stew.blamed[sourPair{sh, who}] = s.now + sourFor
	s.in(sourFor, timedFunc((*Store).kick))
}

func (w *steward) soured(s Shard, who Replica, now time.Duration) bool {
	until, ok := w.blamed[sourPair{s, who}]
	return ok && now < until
}

// seats are the acceptors as far as this node knows: of the roster, or of the
// disk until there is one as new.
func (s *Store) seats() (generation uint64, seats []Replica) {
	switch {
	case s.ahead():
		return s.seat.generation, s.seat.value.seats
	case s.roster != nil:
		return s.roster.generation, s.roster.seats
	}
	return 0, nil
}

// ahead reports whether this node is seated in a generation of which it knows
// no roster: it has begun anew and nobody told it. The value that it accepted
// need not be chosen, but whose seats they are is.
func (s *Store) ahead() bool {
	return s.seat.value != nil && (s.roster == nil || s.seat.generation > s.roster.generation)
}

// acting is the seat that changes the roster: the first that is not gone; an
// unseen one is waited for, while others live.
func (s *Store) acting() filch.NodeName {
	_, seats := s.seats()
	for _, want := range []standing{fine, silent, unseen, away} {
		for _, r := range seats {
			if s.standingOf(r.Name) == want {
				return r.Name
			}
		}
	}
	return ""
}

// standingOf is that of a node, whatever its incarnation.
func (s *Store) standingOf(n filch.NodeName) standing {
	if n == s.self.Name {
		return fine
	}
	p := s.peers.get(n)
	if p == nil || !p.listed {
		return unseen
	}
	return s.standing(p.replica())
}

// ask wishes for changes: here if this node is the steward, else of who is.
func (s *Store) ask(changes ...change) {
	if len(changes) == 0 {
		return
	}
	to := s.acting()
	if to == s.self.Name {
		s.noteAsks(changes)
		return
	}
	if p := s.peers.get(to); p != nil {
		for c := range slices.Chunk(changes, 2048) {
			s.send(p, &msgAsk{changes: slices.Clone(c)}, 0)
		}
	}
}

func (s *Store) noteAsks(changes []change) {
	w := &s.stew
	for _, c := range changes {
		if c.what == changeLoss && s.roster != nil && s.salvage(c) {
			continue
		}
		if !w.asked[c] && len(w.asks) < maxAsks {
			w.asked[c] = true
			w.asks = append(w.asks, c)
		}
	}
	s.kick()
}

func (s *Store) onAsk(p *peer, m *msgAsk) {
	if s.roster != nil && m.roster < s.roster.epoch {
		s.tell(p)
	}
	changes := m.changes
	if p.listed && p.state >= PeerGone {
		// It was stopped, or cut off, and does not know yet that it was given up:
		// everybody else seems silent to it.
		changes = slices.DeleteFunc(slices.Clone(changes), func(c change) bool { return c.what == changeExclude })
	}
	s.noteAsks(changes)
}

// kick lets the steward look whether the roster should change.
func (s *Store) kick() {
	if s.stew.run != nil || s.stew.at != filch.Never {
		return
	}
	pause := changePauses
	if s.roster != nil {
		pause = min(pause, time.Duration(len(s.roster.members))*changePause)
	}
	s.stew.at = max(s.now, s.stew.last+pause)
	s.clock.put(s.stew.at, timedFunc((*Store).consider))
}

// consider begins a proposal if this node is to change the roster and there
// is something to change.
func (s *Store) consider() {
	w := &s.stew
	if s.now < w.at || w.run != nil {
		return
	}
	w.at = filch.Never
	// Who is asked although another seat would be first does it all the same:
	// who asks may see that one silent. Two proposals at a time are safe.
	asked := len(w.asks) > 0 && s.roster != nil && s.roster.seated(s.self.Name)
	if !asked && !s.overdue() && s.acting() != s.self.Name {
		w.asks = nil
		clear(w.asked)
		return
	}
	if s.roster != nil && !s.roster.sealed() && !s.ahead() {
		if s.evolve(s.roster, w.asks) == nil {
			w.asks = nil
			clear(w.asked)
			for _, n := range w.awaited {
				p := s.peers.know(n)
				p.owed = true
				s.tell(p)
			}
			s.keepTelling()
			return
		}
	}
	s.propose()
}

// overdue reports whether the seat that is to act seems not to know of it: its
// disk may be damaged, so that it has forgotten where it was seated.
func (s *Store) overdue() bool {
	w := &s.stew
	switch {
	case !s.ahead():
		w.ahead = 0
		return false
	case w.ahead == 0:
		w.ahead = s.now + aheadFor
		s.in(aheadFor, timedFunc((*Store).kick))
	}
	return s.now >= w.ahead
}

func (s *Store) propose() {
	w := &s.stew
	generation, seats := s.seats()
	w.high++
	w.run = &proposal{
		ballot: ballot{w.high, s.self.Name, s.self.Incarnation}, generation: generation, seats: seats,
		asks: slices.Clone(w.asks), retry: max(w.pause, proposalLimit),
	}
	run := w.run
	s.in(run.retry+time.Duration(s.random(100))*time.Millisecond, timedFunc(func(s *Store) { s.failed(run) }))
	for _, r := range seats {
		s.sendSeat(r.Name, &msgPrepare{generation: generation, ballot: run.ballot, have: w.cache})
	}
}

func (s *Store) sendSeat(n filch.NodeName, m StoreMessage) {
	if n == s.self.Name {
		s.send(s.peers.me, m, 0)
	} else {
		s.send(s.peers.know(n), m, 0)
	}
}

// failed gives a proposal up that found no majority in time, and tries again.
func (s *Store) failed(run *proposal) {
	w := &s.stew
	if w.run != run {
		return
	}
	w.run = nil
	w.pause = min(2*run.retry, proposalPause)
	w.last = s.now
	s.kick()
}

func (s *Store) onRefuse(p *peer, m *msgRefuse) {
	w := &s.stew
	w.high = max(w.high, m.promised.n)
	run := w.run
	if run == nil || run.ballot != m.ballot {
		return
	}
	switch {
	case m.unseated:
		if v := s.installable(m.generation); v != nil && !slices.Contains(run.installed, p.name) {
			run.installed = append(run.installed, p.name)
			s.send(p, v, 0)
			s.sendSeat(p.name, &msgPrepare{generation: m.generation, ballot: run.ballot})
		}
	case m.whole && run.accepting:
		s.send(p, &msgAccept{generation: run.generation, ballot: run.ballot, value: run.value.since(nil)}, 0)
	case run.ballot.less(m.promised):
		w.run = nil
		w.last = s.now + time.Duration(s.random(200))*time.Millisecond
		s.kick()
	}
}

// installable seats who was never seated in that generation: with a value which
// this node knows to be chosen, that of the roster; or with what its own seat has.
// Who has promised nothing can accept what was proposed under any ballot, as if
// that proposal had come to it late.
func (s *Store) installable(generation uint64) *msgInstall {
	switch {
	case s.roster != nil && s.roster.generation == generation && !s.roster.sealed():
		return &msgInstall{value: s.roster.since(nil)}
	case s.seat.value != nil && s.seat.generation == generation:
		return &msgInstall{accepted: s.seat.accepted, value: s.seat.value.since(nil)}
	}
	return nil
}

func (s *Store) onPromise(p *peer, m *msgPromise) {
	w := &s.stew
	run := w.run
	if run == nil || run.ballot != m.ballot || run.accepting || slices.Contains(run.promised, p.name) {
		return
	}
	var v *roster
	switch {
	case m.value != nil:
		v = m.value.applied(nil)
	case m.accepted == w.cache:
		v = w.value
	}
	if v == nil && !mutantSeatsForget {
		return
	}
	run.promised = append(run.promised, p.name)
	if v != nil && (run.value == nil || run.best.less(m.accepted) || run.best == m.accepted && run.value.epoch < v.epoch) {
		run.best, run.value = m.accepted, v
	}
	if 2*len(run.promised) <= len(run.seats) {
		return
	}
	if run.value == nil {
		run.value = s.roster // a seat that forgot; only the planted fault comes here
	}
	run.base, run.baseBallot = run.value, run.best
	if !run.base.sealed() && s.roster != nil && run.base.epoch >= s.roster.epoch {
		if next := s.evolve(run.base, run.asks); next != nil {
			next.follows(run.base)
			run.value = next
		}
	}
	run.accepting = true
	delta := run.value.since(run.base)
	for _, r := range run.seats {
		s.sendSeat(r.Name, &msgAccept{generation: run.generation, ballot: run.ballot, base: run.baseBallot, value: delta})
	}
}

func (s *Store) onAccepted(p *peer, m *msgAccepted) {
	w := &s.stew
	run := w.run
	if run == nil || run.ballot != m.ballot || !run.accepting || slices.Contains(run.accepted, p.name) {
		return
	}
	run.accepted = append(run.accepted, p.name)
	if 2*len(run.accepted) <= len(run.seats) {
		return
	}
	w.run, w.last, w.pause = nil, s.now, 0
	w.cache, w.value = run.ballot, run.value
	w.asks = slices.DeleteFunc(w.asks, func(c change) bool { return slices.Contains(run.asks, c) })
	clear(w.asked)
	for _, c := range w.asks {
		w.asked[c] = true
	}
	chosen := run.value
	s.book.chose = chosen.epoch
	if !chosen.sealed() {
		s.adopt(chosen)
		s.kick()
		return
	}
	opened := chosen.opened()
	w.cache = ballot{}
	s.book.chose = opened.epoch
	s.adopt(opened)
	for _, r := range opened.seats {
		s.sendSeat(r.Name, &msgInstall{value: opened.since(nil)})
	}
	s.kick()
}
