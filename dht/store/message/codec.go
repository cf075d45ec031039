package message

import (
	"errors"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/record"
	"github.com/filch-hpc/filch/varint"
)

var errMessage = errors.New("malformed store message")

// Encode encodes a message in at most [MaxMessage] bytes.
func Encode(m Message) []byte { return Append(nil, m) }

// Append appends the encoding of a message, as [Encode] returns.
func Append(b []byte, m Message) []byte {
	c := coder{varint.Encoder(b)}
	c.message(m)
	return c.B
}

// Decode decodes a message that [Encode] encoded. Decode allocates in proportion to the
// length of b; the message shares no memory with b.
func Decode(b []byte) (Message, error) {
	if len(b) == 0 || len(b) > MaxMessage || int(b[0]) >= len(kinds) || kinds[b[0]] == nil {
		return nil, errMessage
	}
	c := coder{varint.Decoder(b)}
	m := kinds[b[0]]()
	c.message(m)
	if c.Bad || c.Left() != 0 {
		return nil, errMessage
	}
	return m, nil
}

// coder visits the parts of messages.
type coder struct{ varint.Coder }

// head visits the kind and the envelope of a message.
func (c *coder) head(kind uint8, e *Envelope) {
	c.Byte(&kind)
	c.Uint(&e.From, &e.To, &e.Roster)
}

func (c *coder) key(k *dht.Key) { c.Text((*string)(k), dht.MaxKey) }

func (c *coder) shard(s *dht.Shard) { dht.CodeShard(&c.Coder, s) }

func (c *coder) version(v *dht.Version) { dht.CodeVersion(&c.Coder, v) }

// ballots visits ballots.
func (c *coder) ballots(all ...*Ballot) {
	for _, b := range all {
		b.Code(&c.Coder)
	}
}

// Code visits a ballot, in messages and on the disk.
func (b *Ballot) Code(c *varint.Coder) {
	c.Uint(&b.N)
	dht.CodeName(c, &b.Name)
	c.Uint(&b.Incarnation)
}

func (c *coder) delta(p **roster.Delta) {
	if !c.Encodes {
		*p = &roster.Delta{}
	}
	(*p).Code(&c.Coder)
}

// whole visits a delta from nothing.
func (c *coder) whole(p **roster.Delta) {
	c.delta(p)
	c.Require((*p).Base == 0)
}

// maybe visits a delta from nothing, or nil.
func (c *coder) maybe(p **roster.Delta) {
	is := *p != nil
	if c.Flag(&is); is {
		c.whole(p)
	}
}

// bytes visits bytes, of which a decoder makes a copy.
func (c *coder) bytes(p *[]byte, limit int) {
	if c.Bytes(p, limit); !c.Encodes {
		*p = append(make([]byte, 0, len(*p)), *p...)
	}
}

// record visits the image of a record, of which a decoder makes a copy: the record
// outlives the message.
func (c *coder) record(p **record.Record) {
	var image []byte
	if c.Encodes {
		image = (*p).Image
	}
	if c.bytes(&image, record.MaxImage); !c.Encodes {
		r, ok := record.Decode(image)
		c.Require(ok)
		*p = r
	}
}

func (c *coder) result(r *dht.Result) {
	c.Byte((*uint8)(&r.Outcome))
	c.Byte((*uint8)(&r.Kind))
	has := r.Value != nil
	c.Flags(&r.Stale, &has)
	c.version(&r.Version)
	c.bytes(&r.Value, dht.MaxValue)
	if !c.Encodes && !has {
		c.Require(len(r.Value) == 0)
		r.Value = nil
	}
	c.Text(&r.Err, 1<<10)
	c.Require(0 < r.Outcome && r.Outcome < dht.Outcomes)
}

func (c *coder) keyed(all *[]Keyed) {
	varint.Slice(&c.Coder, all, 8, func(x *Keyed) {
		c.key(&x.Key)
		c.record(&x.Rec)
	})
}

func (c *coder) copies(all *[]roster.DiskCopy) {
	varint.Slice(&c.Coder, all, 4, func(x *roster.DiskCopy) {
		c.shard(&x.Shard)
		c.Uint(&x.Epoch, &x.Incarnation)
		c.Flag(&x.Guess)
	})
}

// op visits an operation. An operation of the node last does not name the node again.
func (c *coder) op(o *Op, last *filch.NodeName) {
	c.Uint(&o.Number)
	dht.CodeShardOr0(&c.Coder, &o.Shard)
	c.Uint(&o.Epoch)
	c.Byte((*uint8)(&o.Op.Code))
	c.Byte((*uint8)(&o.Op.Kind))
	other := o.Op.ID.Node != *last
	c.Flags(&o.Op.Consistent, &o.Op.Durable, &other)
	if other {
		dht.CodeName(&c.Coder, &o.Op.ID.Node)
		*last = o.Op.ID.Node
	} else if !c.Encodes {
		o.Op.ID.Node = *last
	}
	c.Uint(&o.Op.ID.Incarnation, &o.Op.ID.Seq)
	c.key(&o.Op.Key)
	c.bytes(&o.Op.Value, dht.MaxValue)
	c.version(&o.Op.Expect)
	dht.CodeDuration(&c.Coder, &o.Op.Keep)
	c.Require(0 < o.Op.Code && o.Op.Code < dht.OpCodes && o.Op.Key != "")
}

func (c *coder) item(it *Item) {
	c.Byte(&it.What)
	c.shard(&it.Shard)
	c.Uint(&it.Epoch, &it.Session)
	switch it.What {
	case ItemRecord:
		c.key(&it.Key)
		c.record(&it.Rec)
	case ItemDrop:
		c.key(&it.Key)
		c.version(&it.Stamp)
	default:
		c.Require(it.What == ItemConfirm)
	}
}
