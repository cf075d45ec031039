package dht

import (
	"time"

	"github.com/filch-hpc/filch"
)

// maxReplicas bounds the replicas of one config, learner and leavers included.
const maxReplicas = 16

// DecodeStore reads what EncodeStore laid out. It allocates in proportion to
// the bytes that are there; nothing of what it returns is part of b.
func DecodeStore(b []byte) (StoreMessage, error) {
	if len(b) == 0 || len(b) > MaxStoreMessage {
		return nil, errStoreMessage
	}
	d := &decoder{b: b[1:]}
	e := envelope{d.uvarint(), d.uvarint(), d.uvarint()}
	m := d.message(b[0], e)
	if m == nil {
		m = d.rosterMessage(b[0], e)
	}
	if d.bad || m == nil || len(d.b) != 0 {
		return nil, errStoreMessage
	}
	return m, nil
}

func (d *decoder) message(kind byte, e envelope) StoreMessage {
	switch kind {
	case wireOps:
		return d.ops(e)
	case wireReplies:
		m := &msgReplies{envelope: e}
		m.replies = make([]wireReply, 0, d.count(8))
		for range cap(m.replies) {
			m.replies = append(m.replies, wireReply{d.uvarint(), d.uvarint(), d.result()})
		}
		return m
	case wireReplicate:
		return d.replicate(e)
	case wireAck:
		m := &msgAck{envelope: e}
		for range d.count(2) {
			a := batchAck{number: d.uvarint()}
			for range d.count(1) {
				a.over = append(a.over, uint32(d.uvarint()))
			}
			m.batches = append(m.batches, a)
		}
		return m
	case wireSnapshot:
		return &msgSnapshot{envelope: e, shard: d.shard(), epoch: d.uvarint(), session: d.uvarint(), piece: d.uvarint(), last: d.flag(), items: d.keyed()}
	case wireSnapshotAck:
		return &msgSnapshotAck{envelope: e, shard: d.shard(), epoch: d.uvarint(), session: d.uvarint(), piece: d.uvarint()}
	case wireOffers:
		return &msgOffer{envelope: e, offers: d.offers()}
	case wireCount:
		return &msgCount{e, d.uvarint()}
	case wireCounted:
		m := &msgCounted{envelope: e, nonce: d.uvarint(), seat: d.uvarint(), stamp: d.uvarint()}
		f := d.u8()
		m.busy, m.chosen, m.astray = f&1 != 0, f&2 != 0, f&4 != 0
		if d.flag() {
			m.known = d.delta()
			d.bad = d.bad || m.known == nil || m.known.base != 0
		}
		m.images = d.offers()
		return m
	case wireRecover:
		return &msgRecover{envelope: e, shard: d.shard(), epoch: d.uvarint(), from: d.replicas(maxReplicas)}
	case wireFetch:
		return &msgFetch{envelope: e, shard: d.shard(), epoch: d.uvarint(), after: d.key()}
	case wireImages:
		return &msgImages{envelope: e, shard: d.shard(), epoch: d.uvarint(), after: d.key(), more: d.flag(), items: d.keyed()}
	case wireWatches:
		m := &msgWatch{envelope: e}
		for range d.count(7) {
			m.watches = append(m.watches, wireWatch{d.uvarint(), d.shard(), d.uvarint(), d.key(), d.version(), d.flag()})
		}
		return m
	case wireChanged:
		m := &msgChanged{envelope: e}
		for range d.count(11) {
			m.changes = append(m.changes, wireChange{d.uvarint(), d.shard(), d.uvarint(), d.key(), d.result()})
		}
		return m
	case wireSeenBy:
		m := &msgSeen{envelope: e}
		for range d.count(6) {
			m.seen = append(m.seen, wireSeen{d.uvarint(), d.shard(), d.key(), d.version(), d.flag()})
		}
		return m
	}
	return nil
}

func (d *decoder) rosterMessage(kind byte, e envelope) StoreMessage {
	switch kind {
	case wirePrepare:
		return &msgPrepare{envelope: e, generation: d.uvarint(), ballot: d.ballot(), have: d.ballot()}
	case wirePromise:
		m := &msgPromise{envelope: e, generation: d.uvarint(), ballot: d.ballot(), accepted: d.ballot()}
		if d.flag() {
			m.value = d.delta()
			d.bad = d.bad || m.value == nil || m.value.base != 0
		}
		return m
	case wireAccept:
		m := &msgAccept{envelope: e, generation: d.uvarint(), ballot: d.ballot(), base: d.ballot(), value: d.delta()}
		d.bad = d.bad || m.value == nil
		return m
	case wireAccepted:
		return &msgAccepted{envelope: e, generation: d.uvarint(), ballot: d.ballot()}
	case wireRefuse:
		return &msgRefuse{envelope: e, generation: d.uvarint(), ballot: d.ballot(), promised: d.ballot(), unseated: d.flag(), whole: d.flag()}
	case wireInstall:
		m := &msgInstall{envelope: e, accepted: d.ballot(), value: d.delta()}
		d.bad = d.bad || m.value == nil || m.value.base != 0
		return m
	case wireRoster:
		m := &msgRoster{envelope: e}
		for range d.count(10) {
			x := d.delta()
			d.bad = d.bad || x == nil
			m.deltas = append(m.deltas, x)
		}
		return m
	case wireWant:
		return &msgWant{e}
	case wireHave:
		return &msgHave{e}
	case wireAsk:
		m := &msgAsk{envelope: e}
		for range d.count(5) {
			c := change{what: d.u8(), shard: d.shardOr0(), epoch: d.uvarint(), who: d.replica()}
			d.bad = d.bad || c.what == 0 || c.what >= changes
			m.changes = append(m.changes, c)
		}
		return m
	}
	return nil
}

func (d *decoder) ops(e envelope) StoreMessage {
	m := &msgOps{envelope: e, floor: d.uvarint()}
	m.ops = make([]wireOp, d.count(13))
	var last filch.NodeName
	for i := range m.ops {
		o := &m.ops[i]
		o.number, o.shard, o.epoch = d.uvarint(), d.shardOr0(), d.uvarint()
		o.op.Code, o.op.Kind = OpCode(d.u8()), Kind(d.u8())
		f := d.u8()
		o.op.Consistent, o.op.Durable = f&1 != 0, f&2 != 0
		if f&4 != 0 {
			last = d.name()
		}
		o.op.ID = OpID{last, d.uvarint(), d.uvarint()}
		o.op.Key = d.key()
		o.op.Value = d.copied(MaxValue)
		o.op.Expect = d.version()
		o.op.Keep = d.duration()
		if d.bad || o.op.Code == 0 || o.op.Code >= opCodes || o.op.Key == "" {
			d.bad = true
			return m
		}
	}
	return m
}

func (d *decoder) result() Result {
	r := Result{Outcome: Outcome(d.u8()), Kind: Kind(d.u8())}
	f := d.u8()
	r.Stale = f&1 != 0
	r.Version = d.version()
	r.Value = d.copied(MaxValue)
	if f&2 == 0 {
		d.bad = d.bad || len(r.Value) > 0
		r.Value = nil
	}
	r.Err = string(d.bytes(1 << 10))
	d.bad = d.bad || r.Outcome == 0 || r.Outcome >= outcomes
	return r
}

func (d *decoder) replicate(e envelope) StoreMessage {
	m := &msgReplicate{envelope: e, batch: d.uvarint()}
	m.items = make([]item, d.count(4))
	m.durable = d.flag()
	for i := range m.items {
		it := &m.items[i]
		it.what, it.shard, it.epoch, it.session = d.u8(), d.shard(), d.uvarint(), d.uvarint()
		switch it.what {
		case itemRecord:
			it.key, it.rec = d.key(), d.record()
		case itemDrop:
			it.key, it.stamp = d.key(), d.version()
		case itemConfirm:
		default:
			d.bad = true
		}
		if d.bad {
			break
		}
	}
	return m
}

func (d *decoder) offers() []wireOffer {
	var out []wireOffer
	for range d.count(4) {
		out = append(out, wireOffer{d.shard(), d.uvarint(), d.uvarint(), d.flag()})
	}
	return out
}

func (d *decoder) keyed() []keyed {
	var out []keyed
	for range d.count(8) {
		out = append(out, keyed{d.key(), d.record()})
		if d.bad {
			return nil
		}
	}
	return out
}

// record takes an image; a copy, as it outlives the message.
func (d *decoder) record() *record {
	r, ok := decodeRecord(d.copied(MaxValue + recentMax))
	d.bad = d.bad || !ok
	return r
}

func (d *decoder) copied(limit int) []byte {
	f := d.bytes(limit)
	return append(make([]byte, 0, len(f)), f...)
}

func (d *decoder) key() Key { return Key(d.bytes(MaxKey)) }

func (d *decoder) name() filch.NodeName { return filch.NodeName(d.bytes(maxNodeName)) }

func (d *decoder) duration() time.Duration {
	return time.Duration(min(d.uvarint(), uint64(filch.Never)))
}

func (d *decoder) shardOr0() Shard {
	n := d.uvarint()
	if n >= 2<<shardBitsMax {
		d.bad = true
		return 0
	}
	return Shard(n)
}

func (d *decoder) shard() Shard {
	s := d.shardOr0()
	d.bad = d.bad || s < 1<<shardBitsMin
	return s
}

func (d *decoder) ballot() ballot { return ballot{d.uvarint(), d.name(), d.uvarint()} }

func (d *decoder) replica() Replica { return Replica{d.name(), d.uvarint()} }

func (d *decoder) replicas(limit int) []Replica {
	n := d.count(2)
	if n > limit {
		d.bad = true
		return nil
	}
	var out []Replica
	for range n {
		out = append(out, d.replica())
	}
	return out
}

// delta takes a change of the roster; nil if it makes no sense.
func (d *decoder) delta() *rosterDelta {
	r := &rosterDelta{base: d.uvarint(), epoch: d.uvarint(), generation: d.uvarint(), depth: uint(d.uvarint()), by: d.name()}
	r.seats, r.next = d.replicas(maxReplicas), d.replicas(maxReplicas)
	table := []Replica{{}}
	for range d.count(3) {
		m := rosterMember{Replica: d.replica()}
		f := d.u8()
		m.leaving, m.sick = f&1 != 0, f&2 != 0
		r.members = append(r.members, m)
		table = append(table, m.Replica)
	}
	table = append(table, d.replicas(3*2<<shardBitsMax)...)
	at := func() Replica {
		i := d.uvarint()
		if i >= uint64(len(table)) {
			d.bad = true
			return Replica{}
		}
		return table[i]
	}
	n := d.count(6)
	if d.bad || r.depth < shardBitsMin || r.depth > shardBitsMax || len(r.members) > MaxMembers || n > 1<<r.depth {
		d.bad = true
		return nil
	}
	for range n {
		s, c := d.shard(), &shardConfig{epoch: d.uvarint()}
		k := d.count(1)
		for range min(k, maxReplicas) {
			c.replicas = append(c.replicas, at())
		}
		c.learner, c.retire, c.recovered = at(), at(), d.flag()
		if d.bad || k == 0 || k > maxReplicas || s.depth() != r.depth {
			d.bad = true
			return nil
		}
		r.shards = append(r.shards, shardChange{s, c})
	}
	return r
}
