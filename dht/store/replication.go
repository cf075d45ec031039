package store

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
)

// Limits of one message.
const (
	batchItems = 2048
	batchBytes = 384 << 10 // and one more record: well below MaxMessage
)

// The times after which batches are repeated or replicas reported.
const (
	repeatFirst = 250 * time.Millisecond
	repeatLast  = 2 * time.Second
	// A replica that acknowledges nothing for this long is reported to the proposer,
	// sooner if the member list suspects the replica too.
	silentSuspect = 3 * time.Second
	silentFine    = 6 * time.Second
	// A node whose timers are later than this was stopped. Such a node received nothing
	// meanwhile, so the silence does not count against its peers.
	stopped = 2 * time.Second
)

// replication carries the items of this node's shards to the other replicas, in the
// streams of each peer.
type replication struct {
	*input
	peers    *peers
	network  *network
	proposer *proposer
	primary  *primary
}

// streams is the state for one node that gets items, and whose items this node gets.
type streams struct {
	by      [2]stream // in memory, on disk
	batches uint64    // sent so far
	acks    []message.BatchAck
}

// stream carries the replication to one peer in batches. The peer acknowledges each batch
// as a whole, in any order.
type stream struct {
	queue  []delivery
	flying []*batch
	timed  bool // the timer for repeating runs
	pace   pace
}

// delivery is an item on the way to a peer.
type delivery struct {
	message.Item
	flight *flight // that waits for the acknowledgment; nil: none
}

// batch is a sent message with items; flights has the flight of each item.
type batch struct {
	number  uint64
	items   []message.Item
	flights []*flight
	first   time.Duration
	at      time.Duration
	pause   time.Duration
}

// pass queues an item for a peer.
func (rp *replication) pass(p *peer, durable bool, it delivery) {
	l := &p.streams.by[0]
	if durable {
		l = &p.streams.by[1]
	}
	l.queue = append(l.queue, it)
	rp.network.touch(p)
}

// stale reports whether a flight, nil for none, no longer waits for its items.
func (f *flight) stale() bool { return f != nil && f.epoch != f.sh.epoch() }

func (rp *replication) flush(p *peer, n int) {
	l := &p.streams.by[n]
	for len(l.queue) > 0 {
		if len(l.flying) > 0 && len(l.queue) < batchItems && rp.network.gather(&l.pace, p) {
			return
		}
		b := &batch{first: rp.now}
		size, i := 0, 0
		for ; i < len(l.queue) && len(b.items) < batchItems && size < batchBytes; i++ {
			if it := &l.queue[i]; !it.flight.stale() {
				b.items, b.flights = append(b.items, it.Item), append(b.flights, it.flight)
				size += len(it.Key) + 24
				if it.Rec != nil {
					size += len(it.Rec.Image)
				}
			}
		}
		if i == len(l.queue) {
			l.queue = nil
		} else {
			l.queue = l.queue[i:]
		}
		if len(b.items) > 0 {
			p.streams.batches++
			b.number, b.pause = p.streams.batches, repeatFirst
			l.flying = append(l.flying, b)
			rp.sendBatch(p, n, b)
		}
	}
}

func (rp *replication) sendBatch(p *peer, n int, b *batch) {
	l := &p.streams.by[n]
	b.at, l.pace.sent = rp.now, rp.now
	rp.network.send(p, &message.Replicate{Batch: b.number, Durable: n == 1, Items: b.items}, 0)
	if !l.timed {
		l.timed = true
		rp.in(b.pause, func() { rp.repeat(p, n) })
	}
}

// repeat repeats the unacknowledged batches of a stream.
func (rp *replication) repeat(p *peer, n int) {
	l := &p.streams.by[n]
	if !l.timed {
		return
	}
	l.timed = false
	kept := l.flying[:0]
	for _, b := range l.flying {
		if rp.settle(p, b) {
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
		if rp.now >= b.at+b.pause {
			b.pause = min(2*b.pause, repeatLast)
			rp.blame(p, b)
			l.timed = true // the timer is ours
			rp.sendBatch(p, n, b)
		}
		next = min(next, b.at+b.pause-rp.now)
	}
	l.timed = true
	rp.in(next, func() { rp.repeat(p, n) })
}

// settle drops the items for which no flight waits, and reports whether items remain. The
// rest becomes a new batch.
func (rp *replication) settle(p *peer, b *batch) bool {
	kept := make([]message.Item, 0, len(b.items)) // a sent message must not change
	flights := make([]*flight, 0, len(b.items))
	for i, f := range b.flights {
		if !f.stale() {
			kept, flights = append(kept, b.items[i]), append(flights, f)
		}
	}
	if len(kept) < len(b.items) {
		p.streams.batches++
		b.number, b.items, b.flights, b.at = p.streams.batches, kept, flights, rp.now-b.pause
	}
	return len(kept) > 0
}

// blame asks the proposer to exclude a replica that does not acknowledge.
func (rp *replication) blame(p *peer, b *batch) {
	limit := silentFine
	if p.state >= dht.PeerSuspect {
		limit = silentSuspect
	}
	first := max(b.first, rp.peers.woke)
	if rp.now < first+limit {
		return
	}
	seen := map[dht.Shard]bool{}
	var asks []roster.Change
	for i := range b.items {
		it := &b.items[i]
		if b.flights[i] != nil && !seen[it.Shard] && (it.Session == 0 || rp.now > first+2*limit) {
			seen[it.Shard] = true
			asks = append(asks, roster.Change{What: roster.ChangeExclude, Shard: it.Shard, Epoch: it.Epoch, Who: p.replica()})
		}
	}
	rp.proposer.ask(asks...)
}

// onAck handles the acknowledgments of batches.
func (rp *replication) onAck(p *peer, m *message.Ack) {
	for _, a := range m.Batches {
		for n := range p.streams.by {
			l := &p.streams.by[n]
			i := slices.IndexFunc(l.flying, func(b *batch) bool { return b.number == a.Number })
			if i < 0 {
				continue
			}
			b := l.flying[i]
			l.flying = slices.Delete(l.flying, i, i+1)
			for _, x := range a.Over {
				if int(x) < len(b.items) {
					b.flights[x] = nil
				}
			}
			rp.onSettled(p, b)
			rp.network.touch(p)
			break
		}
	}
}

// onSettled confirms to the flights the items of an acknowledged batch.
func (rp *replication) onSettled(p *peer, b *batch) {
	for i, f := range b.flights {
		if f != nil {
			b.flights[i] = nil
			rp.primary.onHeld(f, p)
		}
	}
}

func (rp *replication) flushAcks(p *peer) {
	if len(p.streams.acks) > 0 {
		rp.network.send(p, &message.Ack{Batches: p.streams.acks}, 0)
		p.streams.acks = nil
	}
}
