package roster

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/varint"
)

// MaxReplicas bounds the replicas of one config, learner and leavers included.
const MaxReplicas = 16

// Code visits a delta. Replicas are encoded once, in a table, and then by their place in
// the table: the members first, each member at its own place.
func (d *Delta) Code(c *varint.Coder) {
	depth := uint64(d.depth)
	c.Uint(&d.Base, &d.Epoch, &d.generation, &depth)
	dht.CodeName(c, &d.by)
	dht.CodeReplicas(c, &d.acceptors, MaxReplicas)
	dht.CodeReplicas(c, &d.next, MaxReplicas)
	t := newTable(c)
	varint.Slice(c, &d.members, 3, func(m *Member) {
		dht.CodeReplica(c, &m.Replica)
		c.Flags(&m.Leaving, &m.Sick)
		t.addMember(m.Replica)
	})
	var others []dht.Replica
	if c.Encodes {
		others = d.others(t)
	}
	dht.CodeReplicas(c, &others, 3*2<<dht.ShardBitsMax)
	for _, r := range others {
		t.add(r)
	}
	n := c.Count(len(d.shards), 6)
	c.Require(dht.ShardBitsMin <= depth && depth <= dht.ShardBitsMax && len(d.members) <= filch.MaxNodes && n <= 1<<min(depth, dht.ShardBitsMax))
	if !c.Encodes {
		d.depth = uint(depth)
	}
	varint.Elements(c, &d.shards, n, func(s *ShardConfig) {
		if !c.Encodes {
			s.config = &Config{}
		}
		dht.CodeShard(c, &s.shard)
		c.Require(s.shard.Depth() == d.depth)
		c.Uint(&s.config.Epoch)
		k := c.Count(len(s.config.Replicas), 1)
		c.Require(0 < k && k <= MaxReplicas)
		varint.Elements(c, &s.config.Replicas, k, func(r *dht.Replica) { t.code(c, r) })
		t.code(c, &s.config.Learner)
		t.code(c, &s.config.retire)
		c.Flag(&s.config.Recovered)
	})
}

// others returns the replicas of the configs that are not in the table yet.
func (d *Delta) others(t *table) (others []dht.Replica) {
	seen := map[dht.Replica]bool{}
	add := func(r dht.Replica) {
		if _, ok := t.places[r]; !ok && !seen[r] {
			seen[r] = true
			others = append(others, r)
		}
	}
	for _, s := range d.shards {
		for _, r := range s.config.Replicas {
			add(r)
		}
		add(s.config.Learner)
		add(s.config.retire)
	}
	return others
}

// table has the replicas of a delta; the first is no replica.
type table struct {
	all    []dht.Replica
	places map[dht.Replica]int // of an encoder
}

func newTable(c *varint.Coder) *table {
	t := &table{}
	if c.Encodes {
		t.places = map[dht.Replica]int{}
	}
	t.add(dht.Replica{})
	return t
}

func (t *table) add(r dht.Replica) {
	if t.places != nil {
		t.places[r] = len(t.all)
	}
	t.all = append(t.all, r)
}

// addMember adds a member, also a second incarnation of the member: the decoder counts
// each.
func (t *table) addMember(r dht.Replica) {
	if _, twice := t.places[r]; !twice || !mutantTwiceMember {
		t.add(r)
	}
}

// code visits a replica by its place.
func (t *table) code(c *varint.Coder, r *dht.Replica) {
	n := uint64(t.places[*r])
	c.Uint(&n)
	if c.Require(n < uint64(len(t.all))); !c.Encodes && !c.Bad {
		*r = t.all[n]
	}
}
