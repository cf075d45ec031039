package dht

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/varint"
)

// ReadName reads the name of a node.
func ReadName(d *varint.Reader) filch.NodeName { return filch.NodeName(d.Bytes(filch.MaxNodeName)) }

// ReadShardOr0 reads a shard, or 0 for none.
func ReadShardOr0(d *varint.Reader) Shard {
	n := d.Uvarint()
	if n >= 2<<ShardBitsMax {
		d.Bad = true
		return 0
	}
	return Shard(n)
}

// ReadShard reads a shard.
func ReadShard(d *varint.Reader) Shard {
	s := ReadShardOr0(d)
	d.Bad = d.Bad || s < 1<<ShardBitsMin
	return s
}

// ReadReplica reads the encoding of [AppendReplica].
func ReadReplica(d *varint.Reader) Replica {
	return Replica{Name: ReadName(d), Incarnation: d.Uvarint()}
}

// ReadReplicas reads the encoding of [AppendReplicas], of at most limit replicas.
func ReadReplicas(d *varint.Reader, limit int) []Replica {
	n := d.Count(2)
	if n > limit {
		d.Bad = true
		return nil
	}
	var out []Replica
	for range n {
		out = append(out, ReadReplica(d))
	}
	return out
}

// ReadVersion reads the encoding of [AppendVersion].
func ReadVersion(d *varint.Reader) Version { return Version{Epoch: d.Uvarint(), Seq: d.Uvarint()} }

// AppendVersion encodes a version.
func AppendVersion(b []byte, v Version) []byte { return varint.AppendUvarints(b, v.Epoch, v.Seq) }

// AppendReplica encodes a replica.
func AppendReplica(b []byte, r Replica) []byte {
	return varint.AppendUvarints(varint.AppendBytes(b, r.Name), r.Incarnation)
}

// AppendReplicas encodes replicas with their number in front.
func AppendReplicas(b []byte, rs []Replica) []byte {
	b = varint.AppendUvarints(b, uint64(len(rs)))
	for _, r := range rs {
		b = AppendReplica(b, r)
	}
	return b
}
