package message

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/record"
	"github.com/filch-hpc/filch/dht/varint"
)

// Decode decodes a message that [Encode] encoded. Decode allocates in proportion to the
// length of b; the message shares no memory with b.
func Decode(b []byte) (Message, error) {
	if len(b) == 0 || len(b) > MaxMessage {
		return nil, errMessage
	}
	d := &decoder{varint.Reader{B: b[1:]}}
	e := Envelope{d.Uvarint(), d.Uvarint(), d.Uvarint()}
	m := d.message(b[0], e)
	if m == nil {
		m = d.rosterMessage(b[0], e)
	}
	if d.Bad || m == nil || len(d.B) != 0 {
		return nil, errMessage
	}
	return m, nil
}

// decoder reads the parts of a message.
type decoder struct{ varint.Reader }

func (d *decoder) message(kind byte, e Envelope) Message {
	switch kind {
	case kindOps:
		return d.ops(e)
	case kindReplies:
		m := &Replies{Envelope: e}
		m.Replies = make([]Reply, 0, d.Count(8))
		for range cap(m.Replies) {
			m.Replies = append(m.Replies, Reply{d.Uvarint(), d.Uvarint(), d.result()})
		}
		return m
	case kindReplicate:
		return d.replicate(e)
	case kindAck:
		m := &Ack{Envelope: e}
		for range d.Count(2) {
			a := BatchAck{Number: d.Uvarint()}
			for range d.Count(1) {
				a.Over = append(a.Over, uint32(d.Uvarint()))
			}
			m.Batches = append(m.Batches, a)
		}
		return m
	case kindSnapshot:
		return &Snapshot{Envelope: e, Shard: d.shard(), Epoch: d.Uvarint(), Session: d.Uvarint(), Piece: d.Uvarint(), Last: d.Flag(), Items: d.keyed()}
	case kindSnapshotAck:
		return &SnapshotAck{Envelope: e, Shard: d.shard(), Epoch: d.Uvarint(), Session: d.Uvarint(), Piece: d.Uvarint()}
	case kindOffer:
		return &Offer{Envelope: e, Offers: d.offers()}
	case kindCount:
		return &Count{e, d.Uvarint()}
	case kindCounted:
		m := &Counted{Envelope: e, Nonce: d.Uvarint(), Seat: d.Uvarint(), Stamp: d.Uvarint()}
		f := d.Byte()
		m.Busy, m.Chosen, m.Astray = f&1 != 0, f&2 != 0, f&4 != 0
		if d.Flag() {
			m.Known = d.delta()
			d.Bad = d.Bad || m.Known == nil || m.Known.Base != 0
		}
		m.Images = d.offers()
		return m
	case kindRecover:
		return &Recover{Envelope: e, Shard: d.shard(), Epoch: d.Uvarint(), Offered: dht.ReadReplicas(&d.Reader, roster.MaxReplicas)}
	case kindFetch:
		return &Fetch{Envelope: e, Shard: d.shard(), Epoch: d.Uvarint(), After: d.key()}
	case kindImages:
		return &Images{Envelope: e, Shard: d.shard(), Epoch: d.Uvarint(), After: d.key(), More: d.Flag(), Items: d.keyed()}
	case kindWatch:
		m := &Watch{Envelope: e}
		for range d.Count(7) {
			m.Watches = append(m.Watches, WatchedKey{d.Uvarint(), d.shard(), d.Uvarint(), d.key(), dht.ReadVersion(&d.Reader), d.Flag()})
		}
		return m
	case kindChanged:
		m := &Changed{Envelope: e}
		for range d.Count(11) {
			m.Changes = append(m.Changes, Change{d.Uvarint(), d.shard(), d.Uvarint(), d.key(), d.result()})
		}
		return m
	case kindSeen:
		m := &Seen{Envelope: e}
		for range d.Count(6) {
			m.Seen = append(m.Seen, SeenVersion{d.Uvarint(), d.shard(), d.key(), dht.ReadVersion(&d.Reader), d.Flag()})
		}
		return m
	}
	return nil
}

func (d *decoder) rosterMessage(kind byte, e Envelope) Message {
	switch kind {
	case kindPrepare:
		return &Prepare{Envelope: e, Generation: d.Uvarint(), Ballot: d.ballot(), Have: d.ballot()}
	case kindPromise:
		m := &Promise{Envelope: e, Generation: d.Uvarint(), Ballot: d.ballot(), Accepted: d.ballot()}
		if d.Flag() {
			m.Value = d.delta()
			d.Bad = d.Bad || m.Value == nil || m.Value.Base != 0
		}
		return m
	case kindAccept:
		m := &Accept{Envelope: e, Generation: d.Uvarint(), Ballot: d.ballot(), Base: d.ballot(), Value: d.delta()}
		d.Bad = d.Bad || m.Value == nil
		return m
	case kindAccepted:
		return &Accepted{Envelope: e, Generation: d.Uvarint(), Ballot: d.ballot()}
	case kindRefuse:
		return &Refuse{Envelope: e, Generation: d.Uvarint(), Ballot: d.ballot(), Promised: d.ballot(), Unseated: d.Flag(), Whole: d.Flag()}
	case kindInstall:
		m := &Install{Envelope: e, Accepted: d.ballot(), Value: d.delta()}
		d.Bad = d.Bad || m.Value == nil || m.Value.Base != 0
		return m
	case kindRoster:
		m := &Roster{Envelope: e}
		for range d.Count(10) {
			x := d.delta()
			d.Bad = d.Bad || x == nil
			m.Deltas = append(m.Deltas, x)
		}
		return m
	case kindWant:
		return &Want{e}
	case kindHave:
		return &Have{e}
	case kindAsk:
		m := &Ask{Envelope: e}
		for range d.Count(5) {
			c := roster.Change{What: d.Byte(), Shard: d.shardOr0(), Epoch: d.Uvarint(), Who: d.replica()}
			d.Bad = d.Bad || c.What == 0 || c.What >= roster.Changes
			m.Changes = append(m.Changes, c)
		}
		return m
	}
	return nil
}

func (d *decoder) ops(e Envelope) Message {
	m := &Ops{Envelope: e, Floor: d.Uvarint()}
	m.Ops = make([]Op, d.Count(13))
	var last filch.NodeName
	for i := range m.Ops {
		o := &m.Ops[i]
		o.Number, o.Shard, o.Epoch = d.Uvarint(), d.shardOr0(), d.Uvarint()
		o.Op.Code, o.Op.Kind = dht.OpCode(d.Byte()), dht.Kind(d.Byte())
		f := d.Byte()
		o.Op.Consistent, o.Op.Durable = f&1 != 0, f&2 != 0
		if f&4 != 0 {
			last = d.name()
		}
		o.Op.ID = dht.OpID{Node: last, Incarnation: d.Uvarint(), Seq: d.Uvarint()}
		o.Op.Key = d.key()
		o.Op.Value = d.copied(dht.MaxValue)
		o.Op.Expect = dht.ReadVersion(&d.Reader)
		o.Op.Keep = d.duration()
		if d.Bad || o.Op.Code == 0 || o.Op.Code >= dht.OpCodes || o.Op.Key == "" {
			d.Bad = true
			return m
		}
	}
	return m
}

func (d *decoder) result() dht.Result {
	r := dht.Result{Outcome: dht.Outcome(d.Byte()), Kind: dht.Kind(d.Byte())}
	f := d.Byte()
	r.Stale = f&1 != 0
	r.Version = dht.ReadVersion(&d.Reader)
	r.Value = d.copied(dht.MaxValue)
	if f&2 == 0 {
		d.Bad = d.Bad || len(r.Value) > 0
		r.Value = nil
	}
	r.Err = string(d.Bytes(1 << 10))
	d.Bad = d.Bad || r.Outcome == 0 || r.Outcome >= dht.Outcomes
	return r
}

func (d *decoder) replicate(e Envelope) Message {
	m := &Replicate{Envelope: e, Batch: d.Uvarint()}
	m.Items = make([]Item, d.Count(4))
	m.Durable = d.Flag()
	for i := range m.Items {
		it := &m.Items[i]
		it.What, it.Shard, it.Epoch, it.Session = d.Byte(), d.shard(), d.Uvarint(), d.Uvarint()
		switch it.What {
		case ItemRecord:
			it.Key, it.Rec = d.key(), d.record()
		case ItemDrop:
			it.Key, it.Stamp = d.key(), dht.ReadVersion(&d.Reader)
		case ItemConfirm:
		default:
			d.Bad = true
		}
		if d.Bad {
			break
		}
	}
	return m
}

func (d *decoder) offers() []roster.DiskCopy {
	var out []roster.DiskCopy
	for range d.Count(4) {
		out = append(out, roster.DiskCopy{Shard: d.shard(), Epoch: d.Uvarint(), Incarnation: d.Uvarint(), Guess: d.Flag()})
	}
	return out
}

func (d *decoder) keyed() []Keyed {
	var out []Keyed
	for range d.Count(8) {
		out = append(out, Keyed{d.key(), d.record()})
		if d.Bad {
			return nil
		}
	}
	return out
}

// record decodes a copy of an image, as the record outlives the message.
func (d *decoder) record() *record.Record {
	r, ok := record.Decode(d.copied(record.MaxImage))
	d.Bad = d.Bad || !ok
	return r
}

func (d *decoder) copied(limit int) []byte {
	f := d.Bytes(limit)
	return append(make([]byte, 0, len(f)), f...)
}

func (d *decoder) key() dht.Key { return dht.Key(d.Bytes(dht.MaxKey)) }

func (d *decoder) duration() time.Duration {
	return time.Duration(min(d.Uvarint(), uint64(filch.Never)))
}

func (d *decoder) ballot() Ballot { return ReadBallot(&d.Reader) }

// ReadBallot reads the encoding of appendBallot.
func ReadBallot(d *varint.Reader) Ballot {
	return Ballot{d.Uvarint(), dht.ReadName(d), d.Uvarint()}
}

func (d *decoder) name() filch.NodeName { return dht.ReadName(&d.Reader) }

func (d *decoder) shardOr0() dht.Shard { return dht.ReadShardOr0(&d.Reader) }

func (d *decoder) shard() dht.Shard { return dht.ReadShard(&d.Reader) }

func (d *decoder) replica() dht.Replica { return dht.ReadReplica(&d.Reader) }

func (d *decoder) delta() *roster.Delta { return roster.ReadDelta(&d.Reader) }
