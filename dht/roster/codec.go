package roster

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/varint"
)

// MaxReplicas bounds the replicas of one config, learner and leavers included.
const MaxReplicas = 16

// AppendDelta appends the encoding of a delta. Replicas are encoded once, in a table, and
// then by their place in the table: the members first, each member at its own place.
func AppendDelta(b []byte, d *Delta) []byte {
	b = varint.AppendUvarints(b, d.Base, d.Epoch, d.generation, uint64(d.depth))
	b = varint.AppendBytes(b, d.by)
	b = dht.AppendReplicas(dht.AppendReplicas(b, d.seats), d.next)
	b = varint.AppendUvarints(b, uint64(len(d.members)))
	table, place := []dht.Replica{{}}, map[dht.Replica]int{{}: 0}
	at := func(r dht.Replica) uint64 {
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
		b = append(dht.AppendReplica(b, m.Replica), varint.Flags(m.Leaving, m.Sick))
	}
	known := len(table)
	for _, c := range d.shards {
		for _, r := range c.config.Replicas {
			at(r)
		}
		at(c.config.Learner)
		at(c.config.retire)
	}
	b = dht.AppendReplicas(b, table[known:])
	b = varint.AppendUvarints(b, uint64(len(d.shards)))
	for _, c := range d.shards {
		b = varint.AppendUvarints(b, uint64(c.shard), c.config.Epoch, uint64(len(c.config.Replicas)))
		for _, r := range c.config.Replicas {
			b = varint.AppendUvarints(b, at(r))
		}
		b = varint.AppendUvarints(b, at(c.config.Learner), at(c.config.retire))
		b = varint.AppendFlag(b, c.config.Recovered)
	}
	return b
}

// ReadDelta decodes a delta; nil if the encoding is invalid.
func ReadDelta(d *varint.Reader) *Delta {
	r := &Delta{Base: d.Uvarint(), Epoch: d.Uvarint(), generation: d.Uvarint(), depth: uint(d.Uvarint()), by: dht.ReadName(d)}
	r.seats, r.next = dht.ReadReplicas(d, MaxReplicas), dht.ReadReplicas(d, MaxReplicas)
	table := []dht.Replica{{}}
	for range d.Count(3) {
		m := Member{Replica: dht.ReadReplica(d)}
		f := d.Byte()
		m.Leaving, m.Sick = f&1 != 0, f&2 != 0
		r.members = append(r.members, m)
		table = append(table, m.Replica)
	}
	table = append(table, dht.ReadReplicas(d, 3*2<<dht.ShardBitsMax)...)
	at := func() dht.Replica {
		i := d.Uvarint()
		if i >= uint64(len(table)) {
			d.Bad = true
			return dht.Replica{}
		}
		return table[i]
	}
	n := d.Count(6)
	if d.Bad || r.depth < dht.ShardBitsMin || r.depth > dht.ShardBitsMax || len(r.members) > filch.MaxNodes || n > 1<<r.depth {
		d.Bad = true
		return nil
	}
	for range n {
		s, c := dht.ReadShard(d), &Config{Epoch: d.Uvarint()}
		k := d.Count(1)
		for range min(k, MaxReplicas) {
			c.Replicas = append(c.Replicas, at())
		}
		c.Learner, c.retire, c.Recovered = at(), at(), d.Flag()
		if d.Bad || k == 0 || k > MaxReplicas || s.Depth() != r.depth {
			d.Bad = true
			return nil
		}
		r.shards = append(r.shards, ShardConfig{s, c})
	}
	return r
}
