package message

import (
	"errors"
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/varint"
)

var errMessage = errors.New("malformed store message")

// The kinds of store messages; they cross the wire: append only.
const (
	kindPrepare = iota + 1
	kindPromise
	kindAccept
	kindAccepted
	kindRefuse
	kindInstall
	kindRoster
	kindWant
	kindHave
	kindAsk
	kindOps
	kindReplies
	kindReplicate
	kindAck
	kindSnapshot
	kindSnapshotAck
	kindWatch
	kindChanged
	kindSeen
	kindOffer
	kindRecover
	kindFetch
	kindImages
	kindCount
	kindCounted
)

// begin encodes the kind and the envelope of a message.
func (e *Envelope) begin(b []byte, kind byte) []byte {
	b = append(b, kind)
	return varint.AppendUvarints(b, e.From, e.To, e.Roster)
}

// Encode encodes a message in at most [MaxMessage] bytes.
func Encode(m Message) []byte { return Append(nil, m) }

// Append appends the encoding of a message, as [Encode] returns.
func Append(b []byte, m Message) []byte {
	switch m := m.(type) {
	case *Ops:
		return m.append(b)
	case *Replies:
		return m.append(b)
	case *Replicate:
		return m.append(b)
	case *Ack:
		b = varint.AppendUvarints(m.begin(b, kindAck), uint64(len(m.Batches)))
		for _, a := range m.Batches {
			b = varint.AppendUvarints(b, a.Number, uint64(len(a.Over)))
			for _, x := range a.Over {
				b = varint.AppendUvarints(b, uint64(x))
			}
		}
		return b
	case *Snapshot:
		b = varint.AppendUvarints(m.begin(b, kindSnapshot), uint64(m.Shard), m.Epoch, m.Session, m.Piece)
		return appendKeyed(varint.AppendFlag(b, m.Last), m.Items)
	case *SnapshotAck:
		return varint.AppendUvarints(m.begin(b, kindSnapshotAck), uint64(m.Shard), m.Epoch, m.Session, m.Piece)
	case *Offer:
		return appendOffers(m.begin(b, kindOffer), m.Offers)
	case *Count:
		return varint.AppendUvarints(m.begin(b, kindCount), m.Nonce)
	case *Counted:
		b = varint.AppendUvarints(m.begin(b, kindCounted), m.Nonce, m.Seat, m.Stamp)
		b = append(b, varint.Flags(m.Busy, m.Chosen, m.Astray))
		return appendOffers(appendMaybe(b, m.Known), m.Images)
	case *Recover:
		return dht.AppendReplicas(varint.AppendUvarints(m.begin(b, kindRecover), uint64(m.Shard), m.Epoch), m.Offered)
	case *Fetch:
		return varint.AppendBytes(varint.AppendUvarints(m.begin(b, kindFetch), uint64(m.Shard), m.Epoch), m.After)
	case *Images:
		b = varint.AppendBytes(varint.AppendUvarints(m.begin(b, kindImages), uint64(m.Shard), m.Epoch), m.After)
		return appendKeyed(varint.AppendFlag(b, m.More), m.Items)
	}
	return appendRosterMessage(b, m)
}

func appendRosterMessage(b []byte, m Message) []byte {
	switch m := m.(type) {
	case *Prepare:
		b = varint.AppendUvarints(m.begin(b, kindPrepare), m.Generation)
		return AppendBallot(AppendBallot(b, m.Ballot), m.Have)
	case *Promise:
		b = varint.AppendUvarints(m.begin(b, kindPromise), m.Generation)
		b = AppendBallot(AppendBallot(b, m.Ballot), m.Accepted)
		return appendMaybe(b, m.Value)
	case *Accept:
		b = varint.AppendUvarints(m.begin(b, kindAccept), m.Generation)
		b = AppendBallot(AppendBallot(b, m.Ballot), m.Base)
		return roster.AppendDelta(b, m.Value)
	case *Accepted:
		return AppendBallot(varint.AppendUvarints(m.begin(b, kindAccepted), m.Generation), m.Ballot)
	case *Refuse:
		b = varint.AppendUvarints(m.begin(b, kindRefuse), m.Generation)
		b = AppendBallot(AppendBallot(b, m.Ballot), m.Promised)
		return varint.AppendFlag(varint.AppendFlag(b, m.Unseated), m.Whole)
	case *Install:
		return roster.AppendDelta(AppendBallot(m.begin(b, kindInstall), m.Accepted), m.Value)
	case *Roster:
		b = varint.AppendUvarints(m.begin(b, kindRoster), uint64(len(m.Deltas)))
		for _, d := range m.Deltas {
			b = roster.AppendDelta(b, d)
		}
		return b
	case *Want:
		return m.begin(b, kindWant)
	case *Have:
		return m.begin(b, kindHave)
	case *Ask:
		b = varint.AppendUvarints(m.begin(b, kindAsk), uint64(len(m.Changes)))
		for _, c := range m.Changes {
			b = varint.AppendUvarints(append(b, c.What), uint64(c.Shard), c.Epoch)
			b = dht.AppendReplica(b, c.Who)
		}
		return b
	case *Watch:
		b = varint.AppendUvarints(m.begin(b, kindWatch), uint64(len(m.Watches)))
		for _, w := range m.Watches {
			b = varint.AppendUvarints(b, w.Number, uint64(w.Shard), w.Epoch)
			b = varint.AppendFlag(dht.AppendVersion(varint.AppendBytes(b, w.Key), w.Version), w.End)
		}
		return b
	case *Changed:
		b = varint.AppendUvarints(m.begin(b, kindChanged), uint64(len(m.Changes)))
		for _, c := range m.Changes {
			b = varint.AppendUvarints(b, c.Number, uint64(c.Shard), c.Epoch)
			b = appendResult(varint.AppendBytes(b, c.Key), &c.Result)
		}
		return b
	case *Seen:
		b = varint.AppendUvarints(m.begin(b, kindSeen), uint64(len(m.Seen)))
		for _, x := range m.Seen {
			b = varint.AppendUvarints(b, x.Number, uint64(x.Shard))
			b = varint.AppendFlag(dht.AppendVersion(varint.AppendBytes(b, x.Key), x.Version), x.End)
		}
		return b
	}
	panic(fmt.Sprintf("a store message of type %T", m))
}

func (m *Ops) append(b []byte) []byte {
	b = varint.AppendUvarints(m.begin(b, kindOps), m.Floor, uint64(len(m.Ops)))
	var last filch.NodeName
	for i := range m.Ops {
		o := &m.Ops[i]
		b = varint.AppendUvarints(b, o.Number, uint64(o.Shard), o.Epoch)
		b = append(b, byte(o.Op.Code), byte(o.Op.Kind), varint.Flags(o.Op.Consistent, o.Op.Durable, o.Op.ID.Node != last))
		if o.Op.ID.Node != last {
			b = varint.AppendBytes(b, o.Op.ID.Node)
			last = o.Op.ID.Node
		}
		b = varint.AppendUvarints(b, o.Op.ID.Incarnation, o.Op.ID.Seq)
		b = dht.AppendVersion(varint.AppendBytes(varint.AppendBytes(b, o.Op.Key), o.Op.Value), o.Op.Expect)
		b = varint.AppendUvarints(b, uint64(o.Op.Keep))
	}
	return b
}

func (m *Replies) append(b []byte) []byte {
	b = varint.AppendUvarints(m.begin(b, kindReplies), uint64(len(m.Replies)))
	for i := range m.Replies {
		b = varint.AppendUvarints(b, m.Replies[i].Number, m.Replies[i].Epoch)
		b = appendResult(b, &m.Replies[i].Result)
	}
	return b
}

func appendResult(b []byte, r *dht.Result) []byte {
	b = append(b, byte(r.Outcome), byte(r.Kind), varint.Flags(r.Stale, r.Value != nil))
	b = dht.AppendVersion(b, r.Version)
	return varint.AppendBytes(varint.AppendBytes(b, r.Value), r.Err)
}

func (m *Replicate) append(b []byte) []byte {
	b = varint.AppendUvarints(m.begin(b, kindReplicate), m.Batch, uint64(len(m.Items)))
	b = varint.AppendFlag(b, m.Durable)
	for i := range m.Items {
		it := &m.Items[i]
		b = varint.AppendUvarints(append(b, it.What), uint64(it.Shard), it.Epoch, it.Session)
		switch it.What {
		case ItemRecord:
			b = varint.AppendBytes(varint.AppendBytes(b, it.Key), it.Rec.Image)
		case ItemDrop:
			b = dht.AppendVersion(varint.AppendBytes(b, it.Key), it.Stamp)
		}
	}
	return b
}

func appendKeyed(b []byte, items []Keyed) []byte {
	b = varint.AppendUvarints(b, uint64(len(items)))
	for _, x := range items {
		b = varint.AppendBytes(varint.AppendBytes(b, x.Key), x.Rec.Image)
	}
	return b
}

func appendOffers(b []byte, offers []roster.DiskCopy) []byte {
	b = varint.AppendUvarints(b, uint64(len(offers)))
	for _, o := range offers {
		b = varint.AppendFlag(varint.AppendUvarints(b, uint64(o.Shard), o.Epoch, o.Incarnation), o.Guess)
	}
	return b
}

func appendMaybe(b []byte, d *roster.Delta) []byte {
	if d == nil {
		return append(b, 0)
	}
	return roster.AppendDelta(append(b, 1), d)
}

// AppendBallot encodes a ballot, in messages and on the disk.
func AppendBallot(b []byte, v Ballot) []byte {
	b = varint.AppendUvarints(b, v.N)
	b = varint.AppendBytes(b, v.Name)
	return varint.AppendUvarints(b, v.Incarnation)
}
