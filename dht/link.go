package dht

import (
	"slices"
	"time"
)

// Limits of what goes into one message.
const (
	batchItems = 2048
	batchBytes = 384 << 10 // and one more record: well below MaxStoreMessage
)

// The times after which something is repeated.
const (
	repeatFirst = 250 * time.Millisecond
	repeatLast  = 2 * time.Second
	// A replica that does not acknowledge for so long is shrunk away: sooner
	// if the member list suspects it too.
	silentSuspect = 3 * time.Second
	silentFine    = 6 * time.Second
	// A node whose timers are later than this was stopped. It has heard nobody
	// meanwhile, which is no silence of theirs.
	stopped = 2 * time.Second
)

// lane carries the replication to one peer: batches, each acknowledged as a
// whole, in any order.
type lane struct {
	queue  []item
	flying []*batch
	timed  bool          // the timer for repeating runs
	gather bool          // the timer for gathering runs
	sent   time.Duration // the last batch
}

type batch struct {
	number uint64
	items  []item
	first  time.Duration
	at     time.Duration
	pause  time.Duration
}

// pass queues an item for a peer.
func (s *Store) pass(p *peer, durable bool, it item) {
	l := &p.lanes[0]
	if durable {
		l = &p.lanes[1]
	}
	l.queue = append(l.queue, it)
	s.touch(p)
}

// stale reports whether nobody waits for an item any more.
func (it *item) stale() bool {
	return it.flight != nil && it.flight.epoch != it.flight.sh.epoch()
}

func (s *Store) flushLane(p *peer, n int) {
	l := &p.lanes[n]
	for len(l.queue) > 0 {
		if len(l.flying) > 0 && len(l.queue) < batchItems && s.now < l.sent+gather {
			if !l.gather {
				l.gather = true
				s.clock.put(l.sent+gather, timedFunc(func(s *Store) {
					l.gather = false
					s.touch(p)
				}))
			}
			return
		}
		b := &batch{first: s.now}
		size, i := 0, 0
		for ; i < len(l.queue) && len(b.items) < batchItems && size < batchBytes; i++ {
			if it := &l.queue[i]; !it.stale() {
				b.items = append(b.items, *it)
				size += len(it.key) + 24
				if it.rec != nil {
					size += len(it.rec.image)
				}
			}
		}
		if i == len(l.queue) {
			l.queue = nil
		} else {
			l.queue = l.queue[i:]
		}
		if len(b.items) > 0 {
			p.batches++
			b.number, b.pause = p.batches, repeatFirst
			l.flying = append(l.flying, b)
			s.sendBatch(p, n, b)
		}
	}
}

func (s *Store) sendBatch(p *peer, n int, b *batch) {
	l := &p.lanes[n]
	b.at, l.sent = s.now, s.now
	s.send(p, &msgReplicate{batch: b.number, durable: n == 1, items: b.items}, 0)
	if !l.timed {
		l.timed = true
		s.in(b.pause, &repeater{p, n})
	}
}

// repeater looks after the batches of a lane that are not acknowledged.
type repeater struct {
	p *peer
	n int
}

func (r *repeater) due(s *Store) {
	l := &r.p.lanes[r.n]
	if !l.timed {
		return
	}
	l.timed = false
	kept := l.flying[:0]
	for _, b := range l.flying {
		if s.settle(r.p, b) {
			kept = append(kept, b)
		}
	}
	clear(l.flying[len(kept):])
	l.flying = kept
	if len(l.flying) == 0 {
		return
	}
	next := repeatLast
	for _, b := range l.flying {
		if s.now >= b.at+b.pause {
			b.pause = min(2*b.pause, repeatLast)
			s.blame(r.p, b)
			l.timed = true // the timer is ours
			s.sendBatch(r.p, r.n, b)
		}
		next = min(next, b.at+b.pause-s.now)
	}
	l.timed = true
	s.in(next, r)
}

// settle drops the items for which nobody waits, and reports whether some are
// left; they are another batch then.
func (s *Store) settle(p *peer, b *batch) bool {
	kept := make([]item, 0, len(b.items)) // what was sent must not change
	for i := range b.items {
		if !b.items[i].stale() {
			kept = append(kept, b.items[i])
		}
	}
	if len(kept) < len(b.items) {
		p.batches++
		b.number, b.items, b.at = p.batches, kept, s.now-b.pause
	}
	return len(kept) > 0
}

// blame asks the steward to shrink shards without a replica that does not
// acknowledge.
func (s *Store) blame(p *peer, b *batch) {
	limit := silentFine
	if p.state >= PeerSuspect {
		limit = silentSuspect
	}
	first := max(b.first, s.peers.woke)
	if s.now < first+limit {
		return
	}
	seen := map[Shard]bool{}
	var asks []change
	for i := range b.items {
		it := &b.items[i]
		if it.flight != nil && !seen[it.shard] && (it.session == 0 || s.now > first+2*limit) {
			seen[it.shard] = true
			asks = append(asks, change{changeExclude, it.shard, it.epoch, p.replica()})
		}
	}
	s.ask(asks...)
}

// onAck settles the batches that a replica has.
func (s *Store) onAck(p *peer, m *msgAck) {
	for _, a := range m.batches {
		for n := range p.lanes {
			l := &p.lanes[n]
			i := slices.IndexFunc(l.flying, func(b *batch) bool { return b.number == a.number })
			if i < 0 {
				continue
			}
			b := l.flying[i]
			l.flying = slices.Delete(l.flying, i, i+1)
			for _, x := range a.over {
				if int(x) < len(b.items) {
					b.items[x].flight = nil
				}
			}
			s.settled(p, b)
			s.touch(p)
			break
		}
	}
}

// settled tells those who wait for the items of a batch.
func (s *Store) settled(p *peer, b *batch) {
	for i := range b.items {
		if f := b.items[i].flight; f != nil {
			b.items[i].flight = nil
			s.acked(f, p)
		}
	}
}

func (s *Store) flushAcks(p *peer) {
	if len(p.acks) > 0 {
		s.send(p, &msgAck{batches: p.acks}, 0)
		p.acks = nil
	}
}
