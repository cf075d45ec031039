package store

import (
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
)

const (
	learnersMax  = 16                     // of one primary, receiving snapshots at a time
	pieceBytes   = 128 << 10              // of a snapshot, and one more record
	pieceItems   = 1024                   // of a snapshot
	catchUpEvery = 500 * time.Millisecond // a piece or a wish is repeated
	learnerMute  = 3 * time.Second        // silence after which a session is given up
	learnerFails = 3                      // failed sessions until another learner
)

// learner is a node that a primary prepares to become a replica. From the start of the
// session every operation waits for the learner too (L1). Once the primary has asked for
// the admission, operations wait until the roster shows the outcome (L2).
type learner struct {
	p *peer
	// The incarnation of p that may be admitted; acks of other incarnations do not count.
	who     dht.Replica
	session uint64
	keys    []dht.Key // not sent yet
	piece   uint64    // the last piece sent
	sent    *message.Snapshot
	at      time.Duration
	heard   time.Duration
	synced  bool // the learner has the snapshot on its disk
	asked   bool // the primary asked to admit the learner
	fails   int
	paused  bool // the session was given up; the next is due
}

// catchUp begins or ends the session that the config plans.
func (s *Store) catchUp(sh *shard) {
	who := sh.cfg.Learner
	if l := sh.learn; l != nil {
		if l.who == who {
			return
		}
		// The plan changed but not the epoch: the learner was never admitted.
		s.dismiss(sh)
	}
	if who == (dht.Replica{}) || who == s.self {
		return
	}
	if s.hold.bringing >= learnersMax {
		if !slices.Contains(s.hold.queue, sh) {
			s.hold.queue = append(s.hold.queue, sh)
		}
		return
	}
	p := s.peers.know(who.Name)
	if p.inc != who.Incarnation || p.listed && p.state != dht.PeerUp {
		sh.learn = &learner{p: p, who: who, paused: true}
		s.in(catchUpEvery, &catchUpTimer{sh, sh.learn})
		return
	}
	s.startSession(sh, &learner{p: p, who: who})
}

// startSession begins a session.
func (s *Store) startSession(sh *shard, l *learner) {
	s.hold.serial++
	s.hold.bringing++
	*l = learner{p: l.p, who: l.who, session: s.hold.serial, heard: s.now, fails: l.fails, keys: sh.keys()}
	sh.learn = l
	if !mutantGrowBlind {
		s.includeLearner(sh)
	}
	s.nextPiece(sh, l)
	s.in(catchUpEvery, &catchUpTimer{sh, l})
}

// includeLearner makes all flights under way wait for the learner too.
func (s *Store) includeLearner(sh *shard) {
	l := sh.learn
	for _, t := range sh.flying() {
		it := message.Item{What: message.ItemConfirm, Shard: sh.id, Epoch: sh.cfg.Epoch, Session: l.session}
		if t.next != nil {
			it.What, it.Key, it.Rec = message.ItemRecord, t.key, t.next
		}
		s.aim(t.flight, l.p, it, t.cur.op.Durable)
	}
	if f := sh.round; f != nil && !f.done {
		s.aim(f, l.p, message.Item{What: message.ItemConfirm, Shard: sh.id, Epoch: f.epoch, Session: l.session}, false)
	}
}

// flying returns the turns under way, in the order of their keys.
func (sh *shard) flying() (all []*turn) {
	for _, t := range sh.turns { // any order
		if t.flight != nil && !t.flight.done {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *turn) int { return strings.Compare(string(a.key), string(b.key)) })
	return all
}

// dismiss ends a session. No flight waits for the learner any more: either the epoch
// changed, or the primary never asked for the admission.
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
	for n := range l.p.streams {
		lane := &l.p.streams[n]
		for i := range lane.queue {
			l.disown(sh, &lane.queue[i].Item, &lane.queue[i].flight)
		}
		for _, b := range lane.flying {
			for i := range b.items {
				l.disown(sh, &b.items[i], &b.flights[i])
			}
		}
	}
	for _, t := range sh.flying() {
		s.onHeld(t.flight, l.p)
	}
	if f := sh.round; f != nil && !f.done {
		s.onHeld(f, l.p)
	}
	if !l.synced {
		s.nextLearner()
	}
}

// disown detaches an item on the way to a learner from the flight that waited for the
// learner.
func (l *learner) disown(sh *shard, it *message.Item, f **flight) {
	if *f != nil && it.Session == l.session && (*f).sh == sh {
		*f = nil
	}
}

// nextLearner begins a queued session.
func (s *Store) nextLearner() {
	for len(s.hold.queue) > 0 && s.hold.bringing < learnersMax {
		sh := s.hold.queue[0]
		s.hold.queue = s.hold.queue[1:]
		if !sh.over && sh.home && sh.learn == nil {
			s.catchUp(sh)
		}
	}
}

// nextPiece sends the next part of a snapshot. The piece has the records committed now.
// Changes under way are sent separately, and versions tell which is newer.
func (s *Store) nextPiece(sh *shard, l *learner) {
	m := &message.Snapshot{Shard: sh.id, Epoch: sh.cfg.Epoch, Session: l.session}
	size, n := 0, 0
	for ; n < len(l.keys) && len(m.Items) < pieceItems && size < pieceBytes; n++ {
		if r := sh.records[l.keys[n]]; r != nil {
			m.Items = append(m.Items, message.Keyed{Key: l.keys[n], Rec: r})
			size += len(l.keys[n]) + len(r.Image) + 8
		}
	}
	l.keys = l.keys[n:]
	l.piece++
	m.Piece, m.Last = l.piece, len(l.keys) == 0
	l.sent, l.at = m, s.now
	s.send(l.p, m, 0)
}

// catchUpTimer is the timer of a session.
type catchUpTimer struct {
	sh *shard
	l  *learner
}

func (t *catchUpTimer) due(s *Store) {
	sh, l := t.sh, t.l
	if sh.over || sh.learn != l {
		return
	}
	switch {
	case l.paused:
		if l.p.replica() == l.who && (!l.p.listed || l.p.state == dht.PeerUp) && s.hold.bringing < learnersMax {
			s.startSession(sh, l)
			return
		}
	case l.asked:
		if mutantDropLearner && s.now > l.heard+300*time.Millisecond {
			l.asked = false
			s.giveUpLearner(sh, l)
			break
		}
		s.ask(roster.Change{What: roster.ChangeAdmit, Shard: sh.id, Epoch: sh.cfg.Epoch, Who: l.who})
	case s.now > max(l.heard, s.peers.woke)+learnerMute:
		s.giveUpLearner(sh, l)
	case !l.synced && s.now >= l.at+catchUpEvery:
		l.at = s.now
		again := *l.sent
		s.send(l.p, &again, 0)
	}
	s.in(catchUpEvery, t)
}

// giveUpLearner ends a session whose learner is silent. After learnerFails such sessions
// the primary asks the proposer for another learner.
func (s *Store) giveUpLearner(sh *shard, l *learner) {
	fails := l.fails + 1
	s.dismiss(sh)
	*l = learner{p: l.p, who: l.who, paused: true, fails: fails}
	sh.learn = l
	if fails >= learnerFails {
		s.ask(roster.Change{What: roster.ChangeExclude, Shard: sh.id, Epoch: sh.cfg.Epoch, Who: l.who})
	}
}

// onSnapshot receives a piece, as the learner.
func (s *Store) onSnapshot(p *peer, m *message.Snapshot) {
	c := s.roster.Config(m.Shard)
	if c == nil || m.Epoch != c.Epoch || c.Primary() != p.replica() || c.Learner != s.self || c.Has(s.self) || s.disk.reason != "" {
		return
	}
	sh := s.learning(m.Shard, c, m.Session)
	if sh == nil {
		return
	}
	for _, x := range m.Items {
		s.keep(sh, x.Key, x.Rec)
	}
	s.send(p, &message.SnapshotAck{Shard: m.Shard, Epoch: m.Epoch, Session: m.Session, Piece: m.Piece}, s.disk.logged)
}

// onSnapshotAck continues a session, as the primary.
func (s *Store) onSnapshotAck(p *peer, m *message.SnapshotAck) {
	sh := s.hold.shards[m.Shard]
	if sh == nil || sh.learn == nil || sh.cfg.Epoch != m.Epoch || sh.learn.session != m.Session || sh.learn.p != p {
		return
	}
	l := sh.learn
	l.heard = s.now
	if m.Piece != l.piece || l.synced || l.paused {
		return
	}
	if len(l.keys) > 0 {
		s.nextPiece(sh, l)
		return
	}
	l.synced, l.asked, l.sent = true, true, nil
	s.hold.bringing--
	s.ask(roster.Change{What: roster.ChangeAdmit, Shard: sh.id, Epoch: sh.cfg.Epoch, Who: l.who})
	s.nextLearner()
}
