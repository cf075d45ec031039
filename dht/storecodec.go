package dht

import (
	"errors"
	"fmt"

	"github.com/filch-hpc/filch"
)

var errStoreMessage = errors.New("malformed store message")

// The kinds of store messages; they cross the wire: append only.
const (
	wirePrepare = iota + 1
	wirePromise
	wireAccept
	wireAccepted
	wireRefuse
	wireInstall
	wireRoster
	wireWant
	wireHave
	wireAsk
	wireOps
	wireReplies
	wireReplicate
	wireAck
	wireSnapshot
	wireSnapshotAck
	wireWatches
	wireChanged
	wireSeenBy
	wireOffers
	wireRecover
	wireFetch
	wireImages
	wireCount
	wireCounted
)

// begin lays out the kind and the envelope of a message.
func (e *envelope) begin(b []byte, kind byte) []byte {
	b = append(b, kind)
	return appendUvarints(b, e.from, e.to, e.roster)
}

// EncodeStore lays out a message in at most [MaxStoreMessage] bytes.
func EncodeStore(m StoreMessage) []byte { return AppendStore(nil, m) }

// AppendStore appends what EncodeStore lays out.
func AppendStore(b []byte, m StoreMessage) []byte {
	switch m := m.(type) {
	case *msgOps:
		return m.append(b)
	case *msgReplies:
		return m.append(b)
	case *msgReplicate:
		return m.append(b)
	case *msgAck:
		b = appendUvarints(m.begin(b, wireAck), uint64(len(m.batches)))
		for _, a := range m.batches {
			b = appendUvarints(b, a.number, uint64(len(a.over)))
			for _, x := range a.over {
				b = appendUvarints(b, uint64(x))
			}
		}
		return b
	case *msgSnapshot:
		b = appendUvarints(m.begin(b, wireSnapshot), uint64(m.shard), m.epoch, m.session, m.piece)
		return appendKeyed(appendBool(b, m.last), m.items)
	case *msgSnapshotAck:
		return appendUvarints(m.begin(b, wireSnapshotAck), uint64(m.shard), m.epoch, m.session, m.piece)
	case *msgOffer:
		return appendOffers(m.begin(b, wireOffers), m.offers)
	case *msgCount:
		return appendUvarints(m.begin(b, wireCount), m.nonce)
	case *msgCounted:
		b = appendUvarints(m.begin(b, wireCounted), m.nonce, m.seat, m.stamp)
		b = append(b, flags(m.busy, m.chosen, m.astray))
		return appendOffers(appendMaybe(b, m.known), m.images)
	case *msgRecover:
		return appendReplicas(appendUvarints(m.begin(b, wireRecover), uint64(m.shard), m.epoch), m.from)
	case *msgFetch:
		return appendBytes(appendUvarints(m.begin(b, wireFetch), uint64(m.shard), m.epoch), m.after)
	case *msgImages:
		b = appendBytes(appendUvarints(m.begin(b, wireImages), uint64(m.shard), m.epoch), m.after)
		return appendKeyed(appendBool(b, m.more), m.items)
	}
	return appendRosterMessage(b, m)
}

func appendRosterMessage(b []byte, m StoreMessage) []byte {
	switch m := m.(type) {
	case *msgPrepare:
		b = appendUvarints(m.begin(b, wirePrepare), m.generation)
		return appendBallot(appendBallot(b, m.ballot), m.have)
	case *msgPromise:
		b = appendUvarints(m.begin(b, wirePromise), m.generation)
		b = appendBallot(appendBallot(b, m.ballot), m.accepted)
		return appendMaybe(b, m.value)
	case *msgAccept:
		b = appendUvarints(m.begin(b, wireAccept), m.generation)
		b = appendBallot(appendBallot(b, m.ballot), m.base)
		return appendDelta(b, m.value)
	case *msgAccepted:
		return appendBallot(appendUvarints(m.begin(b, wireAccepted), m.generation), m.ballot)
	case *msgRefuse:
		b = appendUvarints(m.begin(b, wireRefuse), m.generation)
		b = appendBallot(appendBallot(b, m.ballot), m.promised)
		return appendBool(appendBool(b, m.unseated), m.whole)
	case *msgInstall:
		return appendDelta(appendBallot(m.begin(b, wireInstall), m.accepted), m.value)
	case *msgRoster:
		b = appendUvarints(m.begin(b, wireRoster), uint64(len(m.deltas)))
		for _, d := range m.deltas {
			b = appendDelta(b, d)
		}
		return b
	case *msgWant:
		return m.begin(b, wireWant)
	case *msgHave:
		return m.begin(b, wireHave)
	case *msgAsk:
		b = appendUvarints(m.begin(b, wireAsk), uint64(len(m.changes)))
		for _, c := range m.changes {
			b = appendUvarints(append(b, c.what), uint64(c.shard), c.epoch)
			b = appendReplica(b, c.who)
		}
		return b
	case *msgWatch:
		b = appendUvarints(m.begin(b, wireWatches), uint64(len(m.watches)))
		for _, w := range m.watches {
			b = appendUvarints(b, w.number, uint64(w.shard), w.epoch)
			b = appendBool(appendVersion(appendBytes(b, w.key), w.version), w.end)
		}
		return b
	case *msgChanged:
		b = appendUvarints(m.begin(b, wireChanged), uint64(len(m.changes)))
		for _, c := range m.changes {
			b = appendUvarints(b, c.number, uint64(c.shard), c.epoch)
			b = appendResult(appendBytes(b, c.key), &c.result)
		}
		return b
	case *msgSeen:
		b = appendUvarints(m.begin(b, wireSeenBy), uint64(len(m.seen)))
		for _, x := range m.seen {
			b = appendUvarints(b, x.number, uint64(x.shard))
			b = appendBool(appendVersion(appendBytes(b, x.key), x.version), x.end)
		}
		return b
	}
	panic(fmt.Sprintf("a store message of type %T", m))
}

func (m *msgOps) append(b []byte) []byte {
	b = appendUvarints(m.begin(b, wireOps), m.floor, uint64(len(m.ops)))
	var last filch.NodeName
	for i := range m.ops {
		o := &m.ops[i]
		b = appendUvarints(b, o.number, uint64(o.shard), o.epoch)
		b = append(b, byte(o.op.Code), byte(o.op.Kind), flags(o.op.Consistent, o.op.Durable, o.op.ID.Node != last))
		if o.op.ID.Node != last {
			b = appendBytes(b, o.op.ID.Node)
			last = o.op.ID.Node
		}
		b = appendUvarints(b, o.op.ID.Incarnation, o.op.ID.Seq)
		b = appendVersion(appendBytes(appendBytes(b, o.op.Key), o.op.Value), o.op.Expect)
		b = appendUvarints(b, uint64(o.op.Keep))
	}
	return b
}

func flags(all ...bool) byte {
	var f byte
	for i, x := range all {
		if x {
			f |= 1 << i
		}
	}
	return f
}

func (m *msgReplies) append(b []byte) []byte {
	b = appendUvarints(m.begin(b, wireReplies), uint64(len(m.replies)))
	for i := range m.replies {
		b = appendUvarints(b, m.replies[i].number, m.replies[i].epoch)
		b = appendResult(b, &m.replies[i].result)
	}
	return b
}

func appendResult(b []byte, r *Result) []byte {
	b = append(b, byte(r.Outcome), byte(r.Kind), flags(r.Stale, r.Value != nil))
	b = appendVersion(b, r.Version)
	return appendBytes(appendBytes(b, r.Value), r.Err)
}

func (m *msgReplicate) append(b []byte) []byte {
	b = appendUvarints(m.begin(b, wireReplicate), m.batch, uint64(len(m.items)))
	b = appendBool(b, m.durable)
	for i := range m.items {
		it := &m.items[i]
		b = appendUvarints(append(b, it.what), uint64(it.shard), it.epoch, it.session)
		switch it.what {
		case itemRecord:
			b = appendBytes(appendBytes(b, it.key), it.rec.image)
		case itemDrop:
			b = appendVersion(appendBytes(b, it.key), it.stamp)
		}
	}
	return b
}

func appendKeyed(b []byte, items []keyed) []byte {
	b = appendUvarints(b, uint64(len(items)))
	for _, x := range items {
		b = appendBytes(appendBytes(b, x.key), x.rec.image)
	}
	return b
}

func appendOffers(b []byte, offers []wireOffer) []byte {
	b = appendUvarints(b, uint64(len(offers)))
	for _, o := range offers {
		b = appendBool(appendUvarints(b, uint64(o.shard), o.epoch, o.incarnation), o.guess)
	}
	return b
}

func appendReplica(b []byte, r Replica) []byte {
	return appendUvarints(appendBytes(b, r.Name), r.Incarnation)
}

func appendReplicas(b []byte, rs []Replica) []byte {
	b = appendUvarints(b, uint64(len(rs)))
	for _, r := range rs {
		b = appendReplica(b, r)
	}
	return b
}

func appendMaybe(b []byte, d *rosterDelta) []byte {
	if d == nil {
		return append(b, 0)
	}
	return appendDelta(append(b, 1), d)
}

// appendDelta lays out a delta. Replicas are told once, in a table, and by
// their place in it from then on: the members first, each at its own.
func appendDelta(b []byte, d *rosterDelta) []byte {
	b = appendUvarints(b, d.base, d.epoch, d.generation, uint64(d.depth))
	b = appendBytes(b, d.by)
	b = appendReplicas(appendReplicas(b, d.seats), d.next)
	b = appendUvarints(b, uint64(len(d.members)))
	table, place := []Replica{{}}, map[Replica]int{{}: 0}
	at := func(r Replica) uint64 {
		i, ok := place[r]
		if !ok {
			i = len(table)
			place[r] = i
			table = append(table, r)
		}
		return uint64(i)
	}
	for _, m := range d.members {
		if _, twice := place[m.Replica]; !twice || !mutantTwiceMember {
			place[m.Replica] = len(table)
			table = append(table, m.Replica)
		}
		b = append(appendReplica(b, m.Replica), flags(m.leaving, m.sick))
	}
	known := len(table)
	for _, c := range d.shards {
		for _, r := range c.config.replicas {
			at(r)
		}
		at(c.config.learner)
		at(c.config.retire)
	}
	b = appendReplicas(b, table[known:])
	b = appendUvarints(b, uint64(len(d.shards)))
	for _, c := range d.shards {
		b = appendUvarints(b, uint64(c.shard), c.config.epoch, uint64(len(c.config.replicas)))
		for _, r := range c.config.replicas {
			b = appendUvarints(b, at(r))
		}
		b = appendUvarints(b, at(c.config.learner), at(c.config.retire))
		b = appendBool(b, c.config.recovered)
	}
	return b
}
