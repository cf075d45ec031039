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
	*input
	peers      *peers
	view       *view
	network    *network
	sync       *rosterSync
	acceptor   *acceptor
	recovery   *recovery
	membership *membership

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
	doubted       []filch.NodeName // to speak before shards are left to them alone
	doubting      bool             // they were asked a moment ago
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
	acceptors  []dht.Replica
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

// restart forgets the register that was lost, with the wishes made there.
func (w *proposer) restart() {
	w.run, w.cache, w.value, w.wishes = nil, message.Ballot{}, nil, nil
	clear(w.wished)
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
func (w *proposer) exclude(sh dht.Shard, who dht.Replica) {
	maps.DeleteFunc(w.excludedUntil, func(_ exclusion, until time.Duration) bool { return until <= w.now })
	w.excludedUntil[exclusion{sh, who}] = w.now + excludedFor
	w.in(excludedFor, w.wake)
}

func (w *proposer) excluded(s dht.Shard, who dht.Replica, now time.Duration) bool {
	until, ok := w.excludedUntil[exclusion{s, who}]
	return ok && now < until
}

// acting returns the acceptor to propose: the first live acceptor, or else the first
// silent, unseen or gone acceptor, in this order.
func (w *proposer) acting() filch.NodeName {
	_, acceptors := w.acceptor.acceptors()
	for _, want := range []roster.Standing{roster.Fine, roster.Silent, roster.Unseen, roster.Away} {
		for _, r := range acceptors {
			if w.view.standingOf(r.Name) == want {
				return r.Name
			}
		}
	}
	return ""
}

// ask sends wishes for changes to the proposer, which may be this node.
func (w *proposer) ask(changes ...roster.Change) {
	if len(changes) == 0 {
		return
	}
	to := w.acting()
	if to == w.self.Name {
		w.noteWishes(changes)
		return
	}
	if p := w.peers.get(to); p != nil {
		for c := range slices.Chunk(changes, 2048) {
			w.network.send(p, &message.Ask{Changes: slices.Clone(c)}, 0)
		}
	}
}

func (w *proposer) noteWishes(changes []roster.Change) {
	for _, c := range changes {
		if c.What == roster.ChangeLoss && w.view.roster != nil && w.recovery.salvage(c) {
			continue
		}
		if !w.wished[c] && len(w.wishes) < maxAsks {
			w.wished[c] = true
			w.wishes = append(w.wishes, c)
		}
	}
	w.wake()
}

func (w *proposer) onAsk(p *peer, m *message.Ask) {
	if w.view.roster != nil && m.Roster < w.view.roster.Epoch {
		w.sync.tell(p)
	}
	changes := m.Changes
	if p.listed && p.state >= dht.PeerGone {
		// The peer was stopped, or cut off, and does not know yet of being given up: all
		// other nodes seem silent to the peer.
		changes = slices.DeleteFunc(slices.Clone(changes), func(c roster.Change) bool { return c.What == roster.ChangeExclude })
	}
	w.noteWishes(changes)
}

// wake schedules consider.
func (w *proposer) wake() {
	if w.run != nil || w.at != filch.Never {
		return
	}
	pause := changePauses
	if w.view.roster != nil {
		pause = min(pause, time.Duration(len(w.view.roster.Members))*changePause)
	}
	w.at = max(w.now, w.last+pause)
	w.clock.Push(w.at, w.consider)
}

// consider begins a proposal if this node is the proposer and the roster should change.
func (w *proposer) consider() {
	if w.now < w.at || w.run != nil {
		return
	}
	w.at = filch.Never
	// A node that receives a wish proposes even if another acceptor would be first: the
	// sender may see the first acceptor as silent. Two concurrent proposals are safe.
	asked := len(w.wishes) > 0 && w.view.roster != nil && w.view.roster.IsAcceptor(w.self.Name)
	if !asked && !w.overdue() && w.acting() != w.self.Name {
		w.wishes, w.doubted = nil, nil
		clear(w.wished)
		return
	}
	if w.view.roster != nil && !w.view.roster.Sealed() && !w.acceptor.ahead() {
		if w.next(w.view.roster, w.wishes) == nil {
			w.wishes = nil
			clear(w.wished)
			for _, n := range w.awaited {
				p := w.peers.know(n)
				p.owed = true
				w.sync.tell(p)
			}
			w.sync.keepTelling()
			return
		}
	}
	w.propose()
}

// overdue reports whether the acting acceptor seems to have lost the acceptor state: the
// disk may be damaged, so that the node does not know of being an acceptor.
func (w *proposer) overdue() bool {
	switch {
	case !w.acceptor.ahead():
		w.ahead = 0
		return false
	case w.ahead == 0:
		w.ahead = w.now + aheadFor
		w.in(aheadFor, w.wake)
	}
	return w.now >= w.ahead
}

func (w *proposer) propose() {
	generation, acceptors := w.acceptor.acceptors()
	w.high++
	w.run = &proposal{
		ballot: message.Ballot{N: w.high, Name: w.self.Name, Incarnation: w.self.Incarnation}, generation: generation, acceptors: acceptors,
		asks: slices.Clone(w.wishes), retry: max(w.pause, proposalLimit),
	}
	run := w.run
	w.in(run.retry+time.Duration(w.dice.IntN(100))*time.Millisecond, func() { w.failed(run) })
	for _, r := range acceptors {
		w.sendTo(r.Name, &message.Prepare{Generation: generation, Ballot: run.ballot, Have: w.cache})
	}
}

func (w *proposer) sendTo(n filch.NodeName, m message.Message) {
	if n == w.self.Name {
		w.network.send(w.peers.me, m, 0)
	} else {
		w.network.send(w.peers.know(n), m, 0)
	}
}

// failed gives up a proposal without a majority in time, and retries.
func (w *proposer) failed(run *proposal) {
	if w.run != run {
		return
	}
	w.run = nil
	w.pause = min(2*run.retry, proposalPause)
	w.last = w.now
	w.wake()
}

func (w *proposer) onRefuse(p *peer, m *message.Refuse) {
	w.high = max(w.high, m.Promised.N)
	run := w.run
	if run == nil || run.ballot != m.Ballot {
		return
	}
	switch {
	case m.NoAcceptor:
		if v := w.acceptor.installable(m.Generation); v != nil && !slices.Contains(run.installed, p.name) {
			run.installed = append(run.installed, p.name)
			w.network.send(p, v, 0)
			w.sendTo(p.name, &message.Prepare{Generation: m.Generation, Ballot: run.ballot})
		}
	case m.Whole && run.accepting:
		w.network.send(p, &message.Accept{Generation: run.generation, Ballot: run.ballot, Value: run.value.Since(nil)}, 0)
	case run.ballot.Less(m.Promised):
		w.run = nil
		w.last = w.now + time.Duration(w.dice.IntN(200))*time.Millisecond
		w.wake()
	}
}

func (w *proposer) onPromise(p *peer, m *message.Promise) {
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
	if v == nil && !mutantAcceptorsForget {
		return
	}
	run.promised = append(run.promised, p.name)
	if v != nil && (run.value == nil || run.best.Less(m.Accepted) || run.best == m.Accepted && run.value.Epoch < v.Epoch) {
		run.best, run.value = m.Accepted, v
	}
	if 2*len(run.promised) <= len(run.acceptors) {
		return
	}
	if run.value == nil {
		// The acceptors lost the value; only with the planted fault.
		run.value = w.view.roster
	}
	run.base, run.baseBallot = run.value, run.best
	if !run.base.Sealed() && w.view.roster != nil && run.base.Epoch >= w.view.roster.Epoch {
		if next := w.next(run.base, run.asks); next != nil {
			next.Follows(run.base)
			run.value = next
		}
	}
	run.accepting = true
	delta := run.value.Since(run.base)
	for _, r := range run.acceptors {
		w.sendTo(r.Name, &message.Accept{Generation: run.generation, Ballot: run.ballot, Base: run.baseBallot, Value: delta})
	}
}

func (w *proposer) onAccepted(p *peer, m *message.Accepted) {
	run := w.run
	if run == nil || run.ballot != m.Ballot || !run.accepting || slices.Contains(run.accepted, p.name) {
		return
	}
	run.accepted = append(run.accepted, p.name)
	if 2*len(run.accepted) <= len(run.acceptors) {
		return
	}
	w.run, w.last, w.pause = nil, w.now, 0
	w.cache, w.value = run.ballot, run.value
	w.wishes = slices.DeleteFunc(w.wishes, func(c roster.Change) bool { return slices.Contains(run.asks, c) })
	clear(w.wished)
	for _, c := range w.wishes {
		w.wished[c] = true
	}
	chosen := run.value
	w.sync.chose = chosen.Epoch
	if !chosen.Sealed() {
		w.sync.adopt(chosen)
		w.wake()
		return
	}
	opened := chosen.Opened()
	w.cache = message.Ballot{}
	w.sync.chose = opened.Epoch
	w.sync.adopt(opened)
	for _, r := range opened.Acceptors {
		w.sendTo(r.Name, &message.Install{Value: opened.Since(nil)})
	}
	w.wake()
}

// next computes the roster after base, from this node's view and the wishes; nil
// when nothing changes.
func (w *proposer) next(base *roster.Roster, asks []roster.Change) *roster.Roster {
	return roster.Next(worldView{w}, w.self, base, asks)
}
