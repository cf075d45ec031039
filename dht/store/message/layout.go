package message

import (
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/varint"
)

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

// kinds make an empty message of each kind.
var kinds = [...]func() Message{
	kindPrepare: empty[Prepare], kindPromise: empty[Promise], kindAccept: empty[Accept], kindAccepted: empty[Accepted], kindRefuse: empty[Refuse], kindInstall: empty[Install],
	kindRoster: empty[Roster], kindWant: empty[Want], kindHave: empty[Have], kindAsk: empty[Ask], kindOps: empty[Ops], kindReplies: empty[Replies],
	kindReplicate: empty[Replicate], kindAck: empty[Ack], kindSnapshot: empty[Snapshot], kindSnapshotAck: empty[SnapshotAck], kindWatch: empty[Watch], kindChanged: empty[Changed],
	kindSeen: empty[Seen], kindOffer: empty[Offer], kindRecover: empty[Recover], kindFetch: empty[Fetch], kindImages: empty[Images], kindCount: empty[Count],
	kindCounted: empty[Counted],
}

func empty[T any, M interface {
	*T
	Message
}]() Message {
	return M(new(T))
}

// message visits all fields of a message.
func (c *coder) message(m Message) {
	if !c.operations(m) && !c.shardData(m) && !c.register(m) {
		panic(fmt.Sprintf("a store message of type %T", m))
	}
}

// operations visits the messages of operations and watches; false for other messages.
func (c *coder) operations(m Message) bool {
	switch m := m.(type) {
	case *Ops:
		c.head(kindOps, &m.Envelope)
		c.Uint(&m.Floor)
		var last filch.NodeName
		varint.Slice(&c.Coder, &m.Ops, 13, func(o *Op) { c.op(o, &last) })
	case *Replies:
		c.head(kindReplies, &m.Envelope)
		varint.Slice(&c.Coder, &m.Replies, 8, func(r *Reply) {
			c.Uint(&r.Number, &r.Epoch)
			c.result(&r.Result)
		})
	case *Replicate:
		c.head(kindReplicate, &m.Envelope)
		c.Uint(&m.Batch)
		n := c.Count(len(m.Items), 4)
		c.Flag(&m.Durable)
		varint.Elements(&c.Coder, &m.Items, n, c.item)
	case *Ack:
		c.head(kindAck, &m.Envelope)
		varint.Slice(&c.Coder, &m.Batches, 2, func(a *BatchAck) {
			c.Uint(&a.Number)
			varint.Slice(&c.Coder, &a.Over, 1, func(x *uint32) {
				n := uint64(*x)
				if c.Uint(&n); !c.Encodes {
					*x = uint32(n)
				}
			})
		})
	case *Watch:
		c.head(kindWatch, &m.Envelope)
		varint.Slice(&c.Coder, &m.Watches, 7, func(w *WatchedKey) {
			c.Uint(&w.Number)
			c.shard(&w.Shard)
			c.Uint(&w.Epoch)
			c.key(&w.Key)
			c.version(&w.Version)
			c.Flag(&w.End)
		})
	case *Changed:
		c.head(kindChanged, &m.Envelope)
		varint.Slice(&c.Coder, &m.Changes, 11, func(x *Change) {
			c.Uint(&x.Number)
			c.shard(&x.Shard)
			c.Uint(&x.Epoch)
			c.key(&x.Key)
			c.result(&x.Result)
		})
	case *Seen:
		c.head(kindSeen, &m.Envelope)
		varint.Slice(&c.Coder, &m.Seen, 6, func(x *SeenVersion) {
			c.Uint(&x.Number)
			c.shard(&x.Shard)
			c.key(&x.Key)
			c.version(&x.Version)
			c.Flag(&x.End)
		})
	default:
		return false
	}
	return true
}

// shardData visits the messages that copy shards, or tell which copies there are; false for other messages.
func (c *coder) shardData(m Message) bool {
	switch m := m.(type) {
	case *Snapshot:
		c.head(kindSnapshot, &m.Envelope)
		c.shard(&m.Shard)
		c.Uint(&m.Epoch, &m.Session, &m.Piece)
		c.Flag(&m.Last)
		c.keyed(&m.Items)
	case *SnapshotAck:
		c.head(kindSnapshotAck, &m.Envelope)
		c.shard(&m.Shard)
		c.Uint(&m.Epoch, &m.Session, &m.Piece)
	case *Offer:
		c.head(kindOffer, &m.Envelope)
		c.copies(&m.Offers)
	case *Recover:
		c.head(kindRecover, &m.Envelope)
		c.shard(&m.Shard)
		c.Uint(&m.Epoch)
		dht.CodeReplicas(&c.Coder, &m.Offered, roster.MaxReplicas)
	case *Fetch:
		c.head(kindFetch, &m.Envelope)
		c.shard(&m.Shard)
		c.Uint(&m.Epoch)
		c.key(&m.After)
	case *Images:
		c.head(kindImages, &m.Envelope)
		c.shard(&m.Shard)
		c.Uint(&m.Epoch)
		c.key(&m.After)
		c.Flag(&m.More)
		c.keyed(&m.Items)
	case *Count:
		c.head(kindCount, &m.Envelope)
		c.Uint(&m.Nonce)
	case *Counted:
		c.head(kindCounted, &m.Envelope)
		c.Uint(&m.Nonce, &m.Acceptor, &m.Stamp)
		c.Flags(&m.Busy, &m.Chosen, &m.Astray)
		c.maybe(&m.Known)
		c.copies(&m.Images)
	default:
		return false
	}
	return true
}

// register visits the messages of the register and the roster; false for other messages.
func (c *coder) register(m Message) bool {
	switch m := m.(type) {
	case *Prepare:
		c.head(kindPrepare, &m.Envelope)
		c.Uint(&m.Generation)
		c.ballots(&m.Ballot, &m.Have)
	case *Promise:
		c.head(kindPromise, &m.Envelope)
		c.Uint(&m.Generation)
		c.ballots(&m.Ballot, &m.Accepted)
		c.maybe(&m.Value)
	case *Accept:
		c.head(kindAccept, &m.Envelope)
		c.Uint(&m.Generation)
		c.ballots(&m.Ballot, &m.Base)
		c.delta(&m.Value)
	case *Accepted:
		c.head(kindAccepted, &m.Envelope)
		c.Uint(&m.Generation)
		c.ballots(&m.Ballot)
	case *Refuse:
		c.head(kindRefuse, &m.Envelope)
		c.Uint(&m.Generation)
		c.ballots(&m.Ballot, &m.Promised)
		c.Flag(&m.NoAcceptor)
		c.Flag(&m.Whole)
	case *Install:
		c.head(kindInstall, &m.Envelope)
		c.ballots(&m.Accepted)
		c.whole(&m.Value)
	case *Roster:
		c.head(kindRoster, &m.Envelope)
		varint.Slice(&c.Coder, &m.Deltas, 10, func(d **roster.Delta) { c.delta(d) })
	case *Want:
		c.head(kindWant, &m.Envelope)
	case *Have:
		c.head(kindHave, &m.Envelope)
	case *Ask:
		c.head(kindAsk, &m.Envelope)
		varint.Slice(&c.Coder, &m.Changes, 5, func(x *roster.Change) {
			c.Byte(&x.What)
			dht.CodeShardOr0(&c.Coder, &x.Shard)
			c.Uint(&x.Epoch)
			dht.CodeReplica(&c.Coder, &x.Who)
			c.Require(0 < x.What && x.What < roster.Changes)
		})
	default:
		return false
	}
	return true
}
