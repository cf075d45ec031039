package message

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/varint"
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

func (m *Prepare) code(c *coder) {
	c.head(kindPrepare, &m.Envelope)
	c.Uint(&m.Generation)
	c.ballots(&m.Ballot, &m.Have)
}

func (m *Promise) code(c *coder) {
	c.head(kindPromise, &m.Envelope)
	c.Uint(&m.Generation)
	c.ballots(&m.Ballot, &m.Accepted)
	c.maybe(&m.Value)
}

func (m *Accept) code(c *coder) {
	c.head(kindAccept, &m.Envelope)
	c.Uint(&m.Generation)
	c.ballots(&m.Ballot, &m.Base)
	c.delta(&m.Value)
}

func (m *Accepted) code(c *coder) {
	c.head(kindAccepted, &m.Envelope)
	c.Uint(&m.Generation)
	c.ballots(&m.Ballot)
}

func (m *Refuse) code(c *coder) {
	c.head(kindRefuse, &m.Envelope)
	c.Uint(&m.Generation)
	c.ballots(&m.Ballot, &m.Promised)
	c.Flag(&m.Unseated)
	c.Flag(&m.Whole)
}

func (m *Install) code(c *coder) {
	c.head(kindInstall, &m.Envelope)
	c.ballots(&m.Accepted)
	c.whole(&m.Value)
}

func (m *Roster) code(c *coder) {
	c.head(kindRoster, &m.Envelope)
	varint.Slice(&c.Coder, &m.Deltas, 10, func(d **roster.Delta) { c.delta(d) })
}

func (m *Want) code(c *coder) { c.head(kindWant, &m.Envelope) }

func (m *Have) code(c *coder) { c.head(kindHave, &m.Envelope) }

func (m *Ask) code(c *coder) {
	c.head(kindAsk, &m.Envelope)
	varint.Slice(&c.Coder, &m.Changes, 5, func(x *roster.Change) {
		c.Byte(&x.What)
		dht.CodeShardOr0(&c.Coder, &x.Shard)
		c.Uint(&x.Epoch)
		dht.CodeReplica(&c.Coder, &x.Who)
		c.Require(0 < x.What && x.What < roster.Changes)
	})
}

func (m *Ops) code(c *coder) {
	c.head(kindOps, &m.Envelope)
	c.Uint(&m.Floor)
	var last filch.NodeName
	varint.Slice(&c.Coder, &m.Ops, 13, func(o *Op) { c.op(o, &last) })
}

func (m *Replies) code(c *coder) {
	c.head(kindReplies, &m.Envelope)
	varint.Slice(&c.Coder, &m.Replies, 8, func(r *Reply) {
		c.Uint(&r.Number, &r.Epoch)
		c.result(&r.Result)
	})
}

func (m *Replicate) code(c *coder) {
	c.head(kindReplicate, &m.Envelope)
	c.Uint(&m.Batch)
	n := c.Count(len(m.Items), 4)
	c.Flag(&m.Durable)
	varint.Elements(&c.Coder, &m.Items, n, c.item)
}

func (m *Ack) code(c *coder) {
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
}

func (m *Snapshot) code(c *coder) {
	c.head(kindSnapshot, &m.Envelope)
	c.shard(&m.Shard)
	c.Uint(&m.Epoch, &m.Session, &m.Piece)
	c.Flag(&m.Last)
	c.keyed(&m.Items)
}

func (m *SnapshotAck) code(c *coder) {
	c.head(kindSnapshotAck, &m.Envelope)
	c.shard(&m.Shard)
	c.Uint(&m.Epoch, &m.Session, &m.Piece)
}

func (m *Watch) code(c *coder) {
	c.head(kindWatch, &m.Envelope)
	varint.Slice(&c.Coder, &m.Watches, 7, func(w *WatchedKey) {
		c.Uint(&w.Number)
		c.shard(&w.Shard)
		c.Uint(&w.Epoch)
		c.key(&w.Key)
		c.version(&w.Version)
		c.Flag(&w.End)
	})
}

func (m *Changed) code(c *coder) {
	c.head(kindChanged, &m.Envelope)
	varint.Slice(&c.Coder, &m.Changes, 11, func(x *Change) {
		c.Uint(&x.Number)
		c.shard(&x.Shard)
		c.Uint(&x.Epoch)
		c.key(&x.Key)
		c.result(&x.Result)
	})
}

func (m *Seen) code(c *coder) {
	c.head(kindSeen, &m.Envelope)
	varint.Slice(&c.Coder, &m.Seen, 6, func(x *SeenVersion) {
		c.Uint(&x.Number)
		c.shard(&x.Shard)
		c.key(&x.Key)
		c.version(&x.Version)
		c.Flag(&x.End)
	})
}

func (m *Offer) code(c *coder) {
	c.head(kindOffer, &m.Envelope)
	c.copies(&m.Offers)
}

func (m *Recover) code(c *coder) {
	c.head(kindRecover, &m.Envelope)
	c.shard(&m.Shard)
	c.Uint(&m.Epoch)
	dht.CodeReplicas(&c.Coder, &m.Offered, roster.MaxReplicas)
}

func (m *Fetch) code(c *coder) {
	c.head(kindFetch, &m.Envelope)
	c.shard(&m.Shard)
	c.Uint(&m.Epoch)
	c.key(&m.After)
}

func (m *Images) code(c *coder) {
	c.head(kindImages, &m.Envelope)
	c.shard(&m.Shard)
	c.Uint(&m.Epoch)
	c.key(&m.After)
	c.Flag(&m.More)
	c.keyed(&m.Items)
}

func (m *Count) code(c *coder) {
	c.head(kindCount, &m.Envelope)
	c.Uint(&m.Nonce)
}

func (m *Counted) code(c *coder) {
	c.head(kindCounted, &m.Envelope)
	c.Uint(&m.Nonce, &m.Seat, &m.Stamp)
	c.Flags(&m.Busy, &m.Chosen, &m.Astray)
	c.maybe(&m.Known)
	c.copies(&m.Images)
}
