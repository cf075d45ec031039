package dht

import (
	"slices"
	"strings"
	"time"
)

const (
	learnersMax  = 16                     // of one primary, that take snapshots at a time
	pieceBytes   = 128 << 10              // of a snapshot, and one more record
	pieceItems   = 1024                   // of a snapshot
	tutorEvery   = 500 * time.Millisecond // a piece or a wish is repeated
	learnerMute  = 3 * time.Second        // after which a session is given up
	learnerFails = 3                      // sessions, until another learner is asked for
)

// learner is a node that a primary brings up to be a replica. From its first
// moment every operation waits for it too (L1); once its admission was asked
// for, until the roster tells the outcome (L2).
type learner struct {
	p       *peer
	who     Replica // the life of p that may be admitted; another one's word counts for nothing
	session uint64
	keys    []Key  // not sent yet
	piece   uint64 // the last one sent
	sent    *msgSnapshot
	at      time.Duration
	heard   time.Duration
	synced  bool // it has the snapshot, on its disk
	asked   bool // to admit it
	fails   int
	paused  bool // its session was given up; the next one is due
}

// tutor begins or ends the session that the config plans.
func (s *Store) tutor(sh *shard) {
	who := sh.cfg.learner
	if l := sh.learn; l != nil {
		if l.who == who {
			return
		}
		// The plan changed but not the epoch: it was never admitted.
		s.dismiss(sh)
	}
	if who == (Replica{}) || who == s.self {
		return
	}
	if s.hold.bringing >= learnersMax {
		if !slices.Contains(s.hold.queue, sh) {
			s.hold.queue = append(s.hold.queue, sh)
		}
		return
	}
	p := s.peers.know(who.Name)
	if p.inc != who.Incarnation || p.listed && p.state != PeerUp {
		sh.learn = &learner{p: p, who: who, paused: true}
		s.in(tutorEvery, &tutoring{sh, sh.learn})
		return
	}
	s.school(sh, &learner{p: p, who: who})
}

// school begins a session.
func (s *Store) school(sh *shard, l *learner) {
	s.hold.serial++
	s.hold.bringing++
	*l = learner{p: l.p, who: l.who, session: s.hold.serial, heard: s.now, fails: l.fails, keys: sh.keys()}
	sh.learn = l
	if !mutantGrowBlind {
		s.includeLearner(sh)
	}
	s.nextPiece(sh, l)
	s.in(tutorEvery, &tutoring{sh, l})
}

// includeLearner lets everything that is under way wait for the learner too.
func (s *Store) includeLearner(sh *shard) {
	l := sh.learn
	for _, t := range sh.flying() {
		it := item{what: itemConfirm, shard: sh.id, epoch: sh.cfg.epoch, session: l.session, flight: t.flight}
		if t.next != nil {
			it.what, it.key, it.rec = itemRecord, t.key, t.next
		}
		s.aim(t.flight, l.p, it, t.cur.op.Durable)
	}
	if f := sh.round; f != nil && !f.done {
		s.aim(f, l.p, item{what: itemConfirm, shard: sh.id, epoch: f.epoch, session: l.session, flight: f}, false)
	}
}

// flying are the turns that are under way, in the order of their keys.
func (sh *shard) flying() (all []*turn) {
	for _, t := range sh.turns { // any order
		if t.flight != nil && !t.flight.done {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *turn) int { return strings.Compare(string(a.key), string(b.key)) })
	return all
}

// dismiss ends a session. Nothing waits for the learner any more: either the
// epoch is another one, or its admission was never asked for.
func (s *Store) dismiss(sh *shard) {
	l := sh.learn
	if l == nil {
		return
	}
	sh.learn = nil
	if l.paused {
		return
	}
	if !l.synced {
		s.hold.bringing--
	}
	for n := range l.p.lanes {
		lane := &l.p.lanes[n]
		for i := range lane.queue {
			l.disown(sh, &lane.queue[i])
		}
		for _, b := range lane.flying {
			for i := range b.items {
				l.disown(sh, &b.items[i])
			}
		}
	}
	for _, t := range sh.flying() {
		s.acked(t.flight, l.p)
	}
	if f := sh.round; f != nil && !f.done {
		s.acked(f, l.p)
	}
	if !l.synced {
		s.nextLearner()
	}
}

// disown parts what is on its way to a learner from the flight that waited for it.
func (l *learner) disown(sh *shard, it *item) {
	if it.flight != nil && it.session == l.session && it.flight.sh == sh {
		it.flight = nil
	}
}

// nextLearner begins a session that waited for others.
func (s *Store) nextLearner() {
	for len(s.hold.queue) > 0 && s.hold.bringing < learnersMax {
		sh := s.hold.queue[0]
		s.hold.queue = s.hold.queue[1:]
		if !sh.over && sh.home && sh.learn == nil {
			s.tutor(sh)
		}
	}
}

// nextPiece sends the next part of a snapshot. It shows what is committed
// now; what is under way is sent besides, and versions tell which is newer.
func (s *Store) nextPiece(sh *shard, l *learner) {
	m := &msgSnapshot{shard: sh.id, epoch: sh.cfg.epoch, session: l.session}
	size, n := 0, 0
	for ; n < len(l.keys) && len(m.items) < pieceItems && size < pieceBytes; n++ {
		if r := sh.records[l.keys[n]]; r != nil {
			m.items = append(m.items, keyed{l.keys[n], r})
			size += len(l.keys[n]) + len(r.image) + 8
		}
	}
	l.keys = l.keys[n:]
	l.piece++
	m.piece, m.last = l.piece, len(l.keys) == 0
	l.sent, l.at = m, s.now
	s.send(l.p, m, 0)
}

// tutoring is the timer of a session.
type tutoring struct {
	sh *shard
	l  *learner
}

func (t *tutoring) due(s *Store) {
	sh, l := t.sh, t.l
	if sh.over || sh.learn != l {
		return
	}
	switch {
	case l.paused:
		if l.p.replica() == l.who && (!l.p.listed || l.p.state == PeerUp) && s.hold.bringing < learnersMax {
			s.school(sh, l)
			return
		}
	case l.asked:
		if mutantDropLearner && s.now > l.heard+300*time.Millisecond {
			l.asked = false
			s.giveUpLearner(sh, l)
			break
		}
		s.ask(change{changeAdmit, sh.id, sh.cfg.epoch, l.who})
	case s.now > max(l.heard, s.peers.woke)+learnerMute:
		s.giveUpLearner(sh, l)
	case !l.synced && s.now >= l.at+tutorEvery:
		l.at = s.now
		again := *l.sent
		s.send(l.p, &again, 0)
	}
	s.in(tutorEvery, t)
}

// giveUpLearner ends a session whose learner is silent. After a few of them
// the steward is asked for another learner.
func (s *Store) giveUpLearner(sh *shard, l *learner) {
	fails := l.fails + 1
	s.dismiss(sh)
	*l = learner{p: l.p, who: l.who, paused: true, fails: fails}
	sh.learn = l
	if fails >= learnerFails {
		s.ask(change{changeExclude, sh.id, sh.cfg.epoch, l.who})
	}
}

// onSnapshot takes a piece as the learner.
func (s *Store) onSnapshot(p *peer, m *msgSnapshot) {
	c := s.roster.config(m.shard)
	if c == nil || m.epoch != c.epoch || c.primary() != p.replica() || c.learner != s.self || c.has(s.self) || s.disk.reason != "" {
		return
	}
	sh := s.learning(m.shard, c, m.session)
	if sh == nil {
		return
	}
	for _, x := range m.items {
		s.keep(sh, x.key, x.rec)
	}
	s.send(p, &msgSnapshotAck{shard: m.shard, epoch: m.epoch, session: m.session, piece: m.piece}, s.disk.logged)
}

// onSnapshotAck goes on with a session, as the primary.
func (s *Store) onSnapshotAck(p *peer, m *msgSnapshotAck) {
	sh := s.hold.shards[m.shard]
	if sh == nil || sh.learn == nil || sh.cfg.epoch != m.epoch || sh.learn.session != m.session || sh.learn.p != p {
		return
	}
	l := sh.learn
	l.heard = s.now
	if m.piece != l.piece || l.synced || l.paused {
		return
	}
	if len(l.keys) > 0 {
		s.nextPiece(sh, l)
		return
	}
	l.synced, l.asked, l.sent = true, true, nil
	s.hold.bringing--
	s.ask(change{changeAdmit, sh.id, sh.cfg.epoch, l.who})
	s.nextLearner()
}
