package dht

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/varint"
)

// CodeName visits the name of a node.
func CodeName(c *varint.Coder, n *filch.NodeName) { c.Text((*string)(n), filch.MaxNodeName) }

// CodeShardOr0 visits a shard, or 0 for none.
func CodeShardOr0(c *varint.Coder, s *Shard) {
	n := uint64(*s)
	c.Uint(&n)
	c.Require(n < 2<<ShardBitsMax)
	if !c.Encodes {
		*s = Shard(n)
	}
}

// CodeShard visits a shard.
func CodeShard(c *varint.Coder, s *Shard) {
	CodeShardOr0(c, s)
	c.Require(*s >= 1<<ShardBitsMin)
}

// CodeReplica visits a replica.
func CodeReplica(c *varint.Coder, r *Replica) {
	CodeName(c, &r.Name)
	c.Uint(&r.Incarnation)
}

// CodeReplicas visits at most limit replicas, with their number in front.
func CodeReplicas(c *varint.Coder, rs *[]Replica, limit int) {
	n := c.Count(len(*rs), 2)
	c.Require(n <= limit)
	varint.Elements(c, rs, n, func(r *Replica) { CodeReplica(c, r) })
}

// CodeVersion visits a version.
func CodeVersion(c *varint.Coder, v *Version) { c.Uint(&v.Epoch, &v.Seq) }

// CodeDuration visits a duration, which is not negative.
func CodeDuration(c *varint.Coder, d *time.Duration) {
	n := uint64(*d)
	c.Uint(&n)
	if !c.Encodes {
		*d = time.Duration(min(n, uint64(filch.Never)))
	}
}
