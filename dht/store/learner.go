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

// learners are the nodes that this node, as a primary, prepares to become replicas.
type learners struct {
	*input
	peers    *peers
	network  *network
	proposer *proposer
	replica  *replica
	primary  *primary
	bringing int      // learners now receiving snapshots
	queue    []*shard // shards whose learners wait for a free session
}

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
func (ls *learners) catchUp(sh *shard) {
	who := sh.cfg.Learner
	if l := sh.learn; l != nil {
		if l.who == who {
			return
		}
		// The plan changed but not the epoch: the learner was never admitted.
		ls.dismiss(sh)
	}
	if who == (dht.Replica{}) || who == ls.self {
		return
	}
	if ls.bringing >= learnersMax {
		if !slices.Contains(ls.queue, sh) {
			ls.queue = append(ls.queue, sh)
		}
		return
	}
	p := ls.peers.know(who.Name)
	if p.inc != who.Incarnation || p.listed && p.state != dht.PeerUp {
		l := &learner{p: p, who: who, paused: true}
		sh.learn = l
		ls.in(catchUpEvery, func() { ls.continueSession(sh, l) })
		return
	}
	ls.startSession(sh, &learner{p: p, who: who})
}

// startSession begins a session.
func (ls *learners) startSession(sh *shard, l *learner) {
	ls.primary.serial++
	ls.bringing++
	*l = learner{p: l.p, who: l.who, session: ls.primary.serial, heard: ls.now, fails: l.fails, keys: sh.keys()}
	sh.learn = l
	if !mutantGrowBlind {
		ls.include(sh)
	}
	ls.nextPiece(sh, l)
	ls.in(catchUpEvery, func() { ls.continueSession(sh, l) })
}

// include makes all flights under way wait for the learner too.
func (ls *learners) include(sh *shard) {
	l := sh.learn
	for _, t := range sh.flying() {
		it := message.Item{What: message.ItemConfirm, Shard: sh.id, Epoch: sh.cfg.Epoch, Session: l.session}
		if t.next != nil {
			it.What, it.Key, it.Rec = message.ItemRecord, t.key, t.next
		}
		ls.primary.aim(t.flight, l.p, it, t.cur.op.Durable)
	}
	if f := sh.round; f != nil && !f.done {
		ls.primary.aim(f, l.p, message.Item{What: message.ItemConfirm, Shard: sh.id, Epoch: f.epoch, Session: l.session}, false)
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
func (ls *learners) dismiss(sh *shard) {
	l := sh.learn
	if l == nil {
		return
	}
	sh.learn = nil
	if l.paused {
		return
	}
	if !l.synced {
		ls.bringing--
	}
	for n := range l.p.streams.by {
		stream := &l.p.streams.by[n]
		for i := range stream.queue {
			l.disown(sh, &stream.queue[i].Item, &stream.queue[i].flight)
		}
		for _, b := range stream.flying {
			for i := range b.items {
				l.disown(sh, &b.items[i], &b.flights[i])
			}
		}
	}
	for _, t := range sh.flying() {
		ls.primary.onHeld(t.flight, l.p)
	}
	if f := sh.round; f != nil && !f.done {
		ls.primary.onHeld(f, l.p)
	}
	if !l.synced {
		ls.next()
	}
}

// disown detaches an item on the way to a learner from the flight that waited for the
// learner.
func (l *learner) disown(sh *shard, it *message.Item, f **flight) {
	if *f != nil && it.Session == l.session && (*f).sh == sh {
		*f = nil
	}
}

// next begins a queued session.
func (ls *learners) next() {
	for len(ls.queue) > 0 && ls.bringing < learnersMax {
		sh := ls.queue[0]
		ls.queue = ls.queue[1:]
		if !sh.over && sh.home && sh.learn == nil {
			ls.catchUp(sh)
		}
	}
}

// nextPiece sends the next part of a snapshot. The piece has the records committed now.
// Changes under way are sent separately, and versions tell which is newer.
func (ls *learners) nextPiece(sh *shard, l *learner) {
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
	l.sent, l.at = m, ls.now
	ls.network.send(l.p, m, 0)
}

// continueSession is called regularly while a session lasts.
func (ls *learners) continueSession(sh *shard, l *learner) {
	if sh.over || sh.learn != l {
		return
	}
	switch {
	case l.paused:
		if l.p.replica() == l.who && (!l.p.listed || l.p.state == dht.PeerUp) && ls.bringing < learnersMax {
			ls.startSession(sh, l)
			return
		}
	case l.asked:
		if mutantDropLearner && ls.now > l.heard+300*time.Millisecond {
			l.asked = false
			ls.giveUp(sh, l)
			break
		}
		ls.proposer.ask(roster.Change{What: roster.ChangeAdmit, Shard: sh.id, Epoch: sh.cfg.Epoch, Who: l.who})
	case ls.now > max(l.heard, ls.peers.woke)+learnerMute:
		ls.giveUp(sh, l)
	case !l.synced && ls.now >= l.at+catchUpEvery:
		l.at = ls.now
		again := *l.sent
		ls.network.send(l.p, &again, 0)
	}
	ls.in(catchUpEvery, func() { ls.continueSession(sh, l) })
}

// giveUp ends a session whose learner is silent. After learnerFails such sessions
// the primary asks the proposer for another learner.
func (ls *learners) giveUp(sh *shard, l *learner) {
	fails := l.fails + 1
	ls.dismiss(sh)
	*l = learner{p: l.p, who: l.who, paused: true, fails: fails}
	sh.learn = l
	if fails >= learnerFails {
		ls.proposer.ask(roster.Change{What: roster.ChangeExclude, Shard: sh.id, Epoch: sh.cfg.Epoch, Who: l.who})
	}
}

// onSnapshotAck continues a session, as the primary.
func (ls *learners) onSnapshotAck(p *peer, m *message.SnapshotAck) {
	sh := ls.replica.shards[m.Shard]
	if sh == nil || sh.learn == nil || sh.cfg.Epoch != m.Epoch || sh.learn.session != m.Session || sh.learn.p != p {
		return
	}
	l := sh.learn
	l.heard = ls.now
	if m.Piece != l.piece || l.synced || l.paused {
		return
	}
	if len(l.keys) > 0 {
		ls.nextPiece(sh, l)
		return
	}
	l.synced, l.asked, l.sent = true, true, nil
	ls.bringing--
	ls.proposer.ask(roster.Change{What: roster.ChangeAdmit, Shard: sh.id, Epoch: sh.cfg.Epoch, Who: l.who})
	ls.next()
}
