package store

import (
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
)

// The times of the register.
const (
	changePause = 5 * time.Millisecond // per member, between two changes of the roster
	// The longest pause between two changes. Joins come in crowds, and every member
	// receives every roster.
	changePauses  = 200 * time.Millisecond
	proposalLimit = 300 * time.Millisecond // without a majority
	proposalPause = 2 * time.Second        // longest pause after a failed proposal
	wishEvery     = time.Second            // a wish is repeated
	// A replica is not recruited for this long for a shard that the replica failed.
	excludedFor = 30 * time.Second
	// An acceptor without a roster of its generation waits this long before it proposes,
	// even if another acceptor is first.
	aheadFor = 2 * time.Second
	maxAsks  = 1 << 14
)

// proposer is this node as a proposer of the roster: every acceptor can propose, and the
// first live acceptor does.
type proposer struct {
	began  time.Duration // when this store began; 0: not yet
	since  time.Duration // when this node learned a first roster
	wishes []roster.Change
	wished map[roster.Change]bool
	last   time.Duration // end of the last proposal
	pause  time.Duration
	at     time.Duration // of the timer, Never if there is none
	// The time until which this acceptor waits for a roster of another acceptor, 0 if
	// this node knows the roster.
	ahead   time.Duration
	run     *proposal
	high    uint64         // highest ballot number seen
	cache   message.Ballot // the ballot under which a majority accepted value
	value   *roster.Roster
	leavers map[dht.Replica]bool // left, perhaps still on the member list
	// awaited are the members to answer the roster before becoming acceptors, or before
	// other nodes can leave shards to these members.
	awaited       []filch.NodeName
	excludedUntil map[exclusion]time.Duration
	places        map[filch.NodeName]dht.Point
}

type exclusion struct {
	shard dht.Shard
	who   dht.Replica
}

// proposal is a run of the register's two phases.
type proposal struct {
	ballot     message.Ballot
	generation uint64
	seats      []dht.Replica
	promised   []filch.NodeName
	best       message.Ballot
	// The value accepted under best; later the proposed value.
	value      *roster.Roster
	base       *roster.Roster
	baseBallot message.Ballot
	accepting  bool
	accepted   []filch.NodeName
	installed  []filch.NodeName // acceptors sent a message.Install, at most once each
	asks       []roster.Change
	retry      time.Duration
}

func newProposer() proposer {
	return proposer{
		wished: map[roster.Change]bool{}, at: filch.Never, leavers: map[dht.Replica]bool{},
		excludedUntil: map[exclusion]time.Duration{}, places: map[filch.NodeName]dht.Point{},
	}
}

func (w *proposer) placeOf(n filch.NodeName) dht.Point {
	p, ok := w.places[n]
	if !ok {
		p = dht.PlaceOf(n)
		w.places[n] = p
	}
	return p
}

// exclude notes that a replica failed a shard.
func (s *Store) exclude(sh dht.Shard, who dht.Replica) {
	maps.DeleteFunc(s.proposer.excludedUntil, func(_ exclusion, until time.Duration) bool { return until <= s.now })
	s.proposer.excludedUntil[exclusion{sh, who}] = s.now + excludedFor
	s.in(excludedFor, timedFunc((*Store).wakeProposer))
}

func (w *proposer) excluded(s dht.Shard, who dht.Replica, now time.Duration) bool {
	until, ok := w.excludedUntil[exclusion{s, who}]
	return ok && now < until
}

// seats returns the acceptors known here: the roster's, or the disk's if these are newer.
func (s *Store) seats() (generation uint64, seats []dht.Replica) {
	switch {
	case s.ahead():
		return s.acceptor.generation, s.acceptor.value.Seats
	case s.roster != nil:
		return s.roster.Generation, s.roster.Seats
	}
	return 0, nil
}

// ahead reports whether this node is an acceptor of a generation without a known roster:
// the node has restarted and has not received a roster. The accepted value need not be
// chosen, but the value's Seats are.
func (s *Store) ahead() bool {
	return s.acceptor.value != nil && (s.roster == nil || s.acceptor.generation > s.roster.Generation)
}

// acting returns the acceptor to propose: the first live acceptor, or else the first
// silent, unseen or gone acceptor, in this order.
func (s *Store) acting() filch.NodeName {
	_, seats := s.seats()
	for _, want := range []roster.Standing{roster.Fine, roster.Silent, roster.Unseen, roster.Away} {
		for _, r := range seats {
			if s.standingOf(r.Name) == want {
				return r.Name
			}
		}
	}
	return ""
}

// standingOf returns the standing of a node, with any incarnation.
func (s *Store) standingOf(n filch.NodeName) roster.Standing {
	if n == s.self.Name {
		return roster.Fine
	}
	p := s.peers.get(n)
	if p == nil || !p.listed {
		return roster.Unseen
	}
	return s.standing(p.replica())
}

// ask sends wishes for changes to the proposer, which may be this node.
func (s *Store) ask(changes ...roster.Change) {
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
			s.send(p, &message.Ask{Changes: slices.Clone(c)}, 0)
		}
	}
}

func (s *Store) noteAsks(changes []roster.Change) {
	w := &s.proposer
	for _, c := range changes {
		if c.What == roster.ChangeLoss && s.roster != nil && s.salvage(c) {
			continue
		}
		if !w.wished[c] && len(w.wishes) < maxAsks {
			w.wished[c] = true
			w.wishes = append(w.wishes, c)
		}
	}
	s.wakeProposer()
}

func (s *Store) onAsk(p *peer, m *message.Ask) {
	if s.roster != nil && m.Roster < s.roster.Epoch {
		s.tell(p)
	}
	changes := m.Changes
	if p.listed && p.state >= dht.PeerGone {
		// The peer was stopped, or cut off, and does not know yet of being given up: all
		// other nodes seem silent to the peer.
		changes = slices.DeleteFunc(slices.Clone(changes), func(c roster.Change) bool { return c.What == roster.ChangeExclude })
	}
	s.noteAsks(changes)
}

// wakeProposer schedules consider.
func (s *Store) wakeProposer() {
	if s.proposer.run != nil || s.proposer.at != filch.Never {
		return
	}
	pause := changePauses
	if s.roster != nil {
		pause = min(pause, time.Duration(len(s.roster.Members))*changePause)
	}
	s.proposer.at = max(s.now, s.proposer.last+pause)
	s.clock.put(s.proposer.at, timedFunc((*Store).consider))
}

// consider begins a proposal if this node is the proposer and the roster should change.
func (s *Store) consider() {
	w := &s.proposer
	if s.now < w.at || w.run != nil {
		return
	}
	w.at = filch.Never
	// A node that receives a wish proposes even if another acceptor would be first: the
	// sender may see the first acceptor as silent. Two concurrent proposals are safe.
	asked := len(w.wishes) > 0 && s.roster != nil && s.roster.Seated(s.self.Name)
	if !asked && !s.overdue() && s.acting() != s.self.Name {
		w.wishes = nil
		clear(w.wished)
		return
	}
	if s.roster != nil && !s.roster.Sealed() && !s.ahead() {
		if s.nextRoster(s.roster, w.wishes) == nil {
			w.wishes = nil
			clear(w.wished)
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

// overdue reports whether the acting acceptor seems to have lost the acceptor state: the
// disk may be damaged, so that the node does not know of being an acceptor.
func (s *Store) overdue() bool {
	w := &s.proposer
	switch {
	case !s.ahead():
		w.ahead = 0
		return false
	case w.ahead == 0:
		w.ahead = s.now + aheadFor
		s.in(aheadFor, timedFunc((*Store).wakeProposer))
	}
	return s.now >= w.ahead
}

func (s *Store) propose() {
	w := &s.proposer
	generation, seats := s.seats()
	w.high++
	w.run = &proposal{
		ballot: message.Ballot{N: w.high, Name: s.self.Name, Incarnation: s.self.Incarnation}, generation: generation, seats: seats,
		asks: slices.Clone(w.wishes), retry: max(w.pause, proposalLimit),
	}
	run := w.run
	s.in(run.retry+time.Duration(s.random(100))*time.Millisecond, timedFunc(func(s *Store) { s.failed(run) }))
	for _, r := range seats {
		s.sendSeat(r.Name, &message.Prepare{Generation: generation, Ballot: run.ballot, Have: w.cache})
	}
}

func (s *Store) sendSeat(n filch.NodeName, m message.Message) {
	if n == s.self.Name {
		s.send(s.peers.me, m, 0)
	} else {
		s.send(s.peers.know(n), m, 0)
	}
}

// failed gives up a proposal without a majority in time, and retries.
func (s *Store) failed(run *proposal) {
	w := &s.proposer
	if w.run != run {
		return
	}
	w.run = nil
	w.pause = min(2*run.retry, proposalPause)
	w.last = s.now
	s.wakeProposer()
}

func (s *Store) onRefuse(p *peer, m *message.Refuse) {
	w := &s.proposer
	w.high = max(w.high, m.Promised.N)
	run := w.run
	if run == nil || run.ballot != m.Ballot {
		return
	}
	switch {
	case m.Unseated:
		if v := s.installable(m.Generation); v != nil && !slices.Contains(run.installed, p.name) {
			run.installed = append(run.installed, p.name)
			s.send(p, v, 0)
			s.sendSeat(p.name, &message.Prepare{Generation: m.Generation, Ballot: run.ballot})
		}
	case m.Whole && run.accepting:
		s.send(p, &message.Accept{Generation: run.generation, Ballot: run.ballot, Value: run.value.Since(nil)}, 0)
	case run.ballot.Less(m.Promised):
		w.run = nil
		w.last = s.now + time.Duration(s.random(200))*time.Millisecond
		s.wakeProposer()
	}
}

// installable returns the message that installs a node as an acceptor of a generation in
// which the node has no state: with the roster's value, which this node knows to be
// chosen, or with the value of this node's own acceptor. A node without promises can
// accept a value proposed under any ballot, as if the proposal had arrived late.
func (s *Store) installable(generation uint64) *message.Install {
	switch {
	case s.roster != nil && s.roster.Generation == generation && !s.roster.Sealed():
		return &message.Install{Value: s.roster.Since(nil)}
	case s.acceptor.value != nil && s.acceptor.generation == generation:
		return &message.Install{Accepted: s.acceptor.accepted, Value: s.acceptor.value.Since(nil)}
	}
	return nil
}

func (s *Store) onPromise(p *peer, m *message.Promise) {
	w := &s.proposer
	run := w.run
	if run == nil || run.ballot != m.Ballot || run.accepting || slices.Contains(run.promised, p.name) {
		return
	}
	var v *roster.Roster
	switch {
	case m.Value != nil:
		v = m.Value.Applied(nil)
	case m.Accepted == w.cache:
		v = w.value
	}
	if v == nil && !mutantSeatsForget {
		return
	}
	run.promised = append(run.promised, p.name)
	if v != nil && (run.value == nil || run.best.Less(m.Accepted) || run.best == m.Accepted && run.value.Epoch < v.Epoch) {
		run.best, run.value = m.Accepted, v
	}
	if 2*len(run.promised) <= len(run.seats) {
		return
	}
	if run.value == nil {
		// The acceptors lost the value; only with the planted fault.
		run.value = s.roster
	}
	run.base, run.baseBallot = run.value, run.best
	if !run.base.Sealed() && s.roster != nil && run.base.Epoch >= s.roster.Epoch {
		if next := s.nextRoster(run.base, run.asks); next != nil {
			next.Follows(run.base)
			run.value = next
		}
	}
	run.accepting = true
	delta := run.value.Since(run.base)
	for _, r := range run.seats {
		s.sendSeat(r.Name, &message.Accept{Generation: run.generation, Ballot: run.ballot, Base: run.baseBallot, Value: delta})
	}
}

func (s *Store) onAccepted(p *peer, m *message.Accepted) {
	w := &s.proposer
	run := w.run
	if run == nil || run.ballot != m.Ballot || !run.accepting || slices.Contains(run.accepted, p.name) {
		return
	}
	run.accepted = append(run.accepted, p.name)
	if 2*len(run.accepted) <= len(run.seats) {
		return
	}
	w.run, w.last, w.pause = nil, s.now, 0
	w.cache, w.value = run.ballot, run.value
	w.wishes = slices.DeleteFunc(w.wishes, func(c roster.Change) bool { return slices.Contains(run.asks, c) })
	clear(w.wished)
	for _, c := range w.wishes {
		w.wished[c] = true
	}
	chosen := run.value
	s.sync.chose = chosen.Epoch
	if !chosen.Sealed() {
		s.adopt(chosen)
		s.wakeProposer()
		return
	}
	opened := chosen.Opened()
	w.cache = message.Ballot{}
	s.sync.chose = opened.Epoch
	s.adopt(opened)
	for _, r := range opened.Seats {
		s.sendSeat(r.Name, &message.Install{Value: opened.Since(nil)})
	}
	s.wakeProposer()
}
