package roster

import (
	"fmt"
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// Replicas is the number of nodes that hold a record, if there are enough nodes.
const Replicas = 3

// Config names the replicas of a shard. The config decides, not nearness in the key
// space. A config is immutable; rosters share configs.
type Config struct {
	Epoch    uint64
	Replicas []dht.Replica // the first is the primary; at least one, dead or alive
	// The replica planned to join Replicas, none if zero; not part of the config itself.
	Learner dht.Replica
	retire  dht.Replica // planned to go when the learner has joined
	// Recovered: no replica of the epoch before was left; the replica of this epoch
	// recovered the shard from their disks.
	Recovered bool
}

// Primary returns the replica that carries out the shard's operations.
func (c *Config) Primary() dht.Replica { return c.Replicas[0] }

// Has reports whether an incarnation of a node is among the replicas.
func (c *Config) Has(r dht.Replica) bool { return slices.Contains(c.Replicas, r) }

// names reports whether a node is among the replicas, in any incarnation.
func (c *Config) names(n filch.NodeName) bool {
	return slices.ContainsFunc(c.Replicas, func(r dht.Replica) bool { return r.Name == n })
}

// Next returns the config after c, with other replicas and no plan.
func (c *Config) Next(replicas []dht.Replica) *Config {
	return &Config{Epoch: c.Epoch + 1, Replicas: replicas}
}

// Without returns a new slice of rs without r.
func Without(rs []dht.Replica, r dht.Replica) []dht.Replica {
	return slices.DeleteFunc(slices.Clone(rs), func(x dht.Replica) bool { return x == r })
}

// Member is a node of the roster.
type Member struct {
	dht.Replica
	Leaving bool // hands off its shards
	Sick    bool // the disk accepts no entries, so the node holds no shards
}

// Roster is the value of the register: the members, and the replicas of every shard. A
// roster is immutable once chosen.
type Roster struct {
	Epoch      uint64 // grows by one with each change
	Generation uint64 // of the acceptors
	By         filch.NodeName
	Depth      uint     // there are 1<<depth shards
	Members    []Member // in order of joining
	// The acceptors of this generation, each with the incarnation that became an
	// acceptor.
	Acceptors []dht.Replica
	// The acceptors of the next generation: this roster is sealed.
	next   []dht.Replica
	Shards []*Config // by the bits of their number
}

// Sealed reports whether the acceptors of the next generation are chosen.
func (r *Roster) Sealed() bool { return len(r.next) > 0 }

// Config returns the config of a shard, nil if there is no shard of that number now.
func (r *Roster) Config(s dht.Shard) *Config {
	if r == nil || s == 0 || s.Depth() != r.Depth {
		return nil
	}
	return r.Shards[int(s)&(1<<r.Depth-1)]
}

// ShardAt returns the shard at place i of Shards.
func (r *Roster) ShardAt(i int) dht.Shard { return dht.Shard(1<<r.Depth | i) }

// Member returns the entry of a node, with any incarnation.
func (r *Roster) Member(n filch.NodeName) *Member {
	for i := range r.Members {
		if r.Members[i].Name == n {
			return &r.Members[i]
		}
	}
	return nil
}

// EachChild calls f for the children of the member n in a tree of all members, where each
// has width children. The root is the named member, or the first if there is no such
// member. Where f returns true, the children of the child follow.
func (r *Roster) EachChild(root, n filch.NodeName, width int, f func(Member) bool) {
	place := func(n filch.NodeName) int {
		return max(slices.IndexFunc(r.Members, func(m Member) bool { return m.Name == n }), 0)
	}
	first, count := place(root), len(r.Members)
	var walk func(at int)
	walk = func(at int) {
		for i := width*at + 1; i <= width*(at+1) && i < count; i++ {
			if f(r.Members[(first+i)%count]) {
				walk(i)
			}
		}
	}
	walk((place(n) - first + count) % count)
}

// Has reports whether an incarnation of a node is a member.
func (r *Roster) Has(x dht.Replica) bool {
	m := r.Member(x.Name)
	return m != nil && m.Incarnation == x.Incarnation
}

// IsAcceptor reports whether a node, with any incarnation, is an acceptor.
func (r *Roster) IsAcceptor(n filch.NodeName) bool {
	return slices.ContainsFunc(r.Acceptors, func(s dht.Replica) bool { return s.Name == n })
}

// Copy returns a copy that can change without changing r.
func (r *Roster) Copy() *Roster {
	c := *r
	c.Members = slices.Clone(r.Members)
	c.Shards = slices.Clone(r.Shards)
	return &c
}

// New returns the first roster of an instance.
func New(self dht.Replica) *Roster {
	r := &Roster{
		Epoch: 1, Generation: 1, By: self.Name, Depth: dht.ShardBitsMin,
		Members: []Member{{Replica: self}}, Acceptors: []dht.Replica{self},
	}
	for range 1 << dht.ShardBitsMin {
		r.Shards = append(r.Shards, &Config{Epoch: 1, Replicas: []dht.Replica{self}})
	}
	return r
}

// Opened returns the roster that follows a sealed roster, at the next acceptors. Opened
// depends on the sealed roster alone, so that any node with the sealed roster can compute
// the next.
func (r *Roster) Opened() *Roster {
	c := *r
	c.Epoch++
	c.Generation++
	c.Acceptors, c.next = r.next, nil
	return &c
}

// Split doubles the number of shards; both halves of each shard keep its replicas.
func (r *Roster) Split() {
	shards := make([]*Config, 0, 2*len(r.Shards))
	for _, c := range r.Shards {
		shards = append(shards, c.Next(c.Replicas), c.Next(c.Replicas))
	}
	r.Shards = shards
	r.Depth++
}

// ShardConfig is the config of a shard in a delta.
type ShardConfig struct {
	shard  dht.Shard
	config *Config
}

// Delta is the change from one roster to a later roster. If any member changed, the delta
// has all members: members are few beside the shards.
type Delta struct {
	Base       uint64 // 0: from nothing
	Epoch      uint64
	generation uint64
	by         filch.NodeName
	depth      uint
	members    []Member // nil: as before
	acceptors  []dht.Replica
	next       []dht.Replica
	shards     []ShardConfig
}

// Since returns the delta from old to r; old may be nil.
func (r *Roster) Since(old *Roster) *Delta {
	d := &Delta{Epoch: r.Epoch, generation: r.Generation, by: r.By, depth: r.Depth, acceptors: r.Acceptors, next: r.next}
	if old != nil {
		d.Base = old.Epoch
	}
	if old == nil || !slices.Equal(old.Members, r.Members) {
		d.members = r.Members
	}
	split := old == nil || old.Depth != r.Depth
	for i, c := range r.Shards {
		if split || old.Shards[i] != c {
			d.shards = append(d.shards, ShardConfig{r.ShardAt(i), c})
		}
	}
	return d
}

// Applied returns the roster after d; nil if d does not begin at old or is incomplete.
func (d *Delta) Applied(old *Roster) *Roster {
	if old != nil && d.Base == old.Epoch || d.Base == 0 {
		r := &Roster{Epoch: d.Epoch, Generation: d.generation, By: d.by, Depth: d.depth, Members: d.members, Acceptors: d.acceptors, next: d.next}
		if d.Base != 0 && d.members == nil {
			r.Members = old.Members
		}
		if d.Base != 0 && old.Depth == d.depth {
			r.Shards = slices.Clone(old.Shards)
		} else {
			r.Shards = make([]*Config, 1<<d.depth)
		}
		for _, c := range d.shards {
			if c.shard.Depth() != d.depth {
				return nil
			}
			r.Shards[int(c.shard)&(1<<d.depth-1)] = c.config
		}
		if slices.Contains(r.Shards, nil) || len(r.Acceptors) == 0 || len(r.Members) == 0 {
			return nil
		}
		return r
	}
	return nil
}

// Follows panics unless r may come after old: I1 and I2.
func (r *Roster) Follows(old *Roster) {
	if r.Epoch != old.Epoch+1 || r.Depth < old.Depth {
		panic(fmt.Sprintf("roster %d of depth %d cannot follow %d of depth %d", r.Epoch, r.Depth, old.Epoch, old.Depth))
	}
	if len(r.Members) == 0 {
		panic(fmt.Sprintf("roster %d has no member: nobody would take it in", r.Epoch))
	}
	for i, c := range r.Shards {
		was := old.Shards[i>>(r.Depth-old.Depth)]
		if c == was || c.Epoch == was.Epoch && slices.Equal(c.Replicas, was.Replicas) && r.Depth == old.Depth {
			continue
		}
		if c.Epoch != was.Epoch+1 {
			panic(fmt.Sprintf("shard %d goes from epoch %d to %d (I1)", r.ShardAt(i), was.Epoch, c.Epoch))
		}
		if len(c.Replicas) == 0 {
			panic(fmt.Sprintf("shard %d has no replica in epoch %d", r.ShardAt(i), c.Epoch))
		}
		if !was.Has(c.Primary()) && (!c.Recovered || len(c.Replicas) > 1) && !mutantNaiveHome {
			panic(fmt.Sprintf("shard %d goes to %v in epoch %d, which was not among %v (I2)", r.ShardAt(i), c.Primary(), c.Epoch, was.Replicas))
		}
	}
}

// HomeOf returns the shard of a key, and the shard's config.
func (r *Roster) HomeOf(k dht.Key) (dht.Shard, *Config) {
	s := dht.PointOf(k).Shard(r.Depth)
	return s, r.Config(s)
}

// Same reports whether two rosters are equal; shards are compared by content.
func (r *Roster) Same(o *Roster) bool {
	return r.Generation == o.Generation && slices.Equal(r.Members, o.Members) && slices.Equal(r.Acceptors, o.Acceptors) &&
		slices.Equal(r.next, o.next) && slices.EqualFunc(r.Shards, o.Shards, func(a, b *Config) bool {
		return a == b || a.Epoch == b.Epoch && slices.Equal(a.Replicas, b.Replicas) && a.Learner == b.Learner && a.retire == b.retire
	})
}
