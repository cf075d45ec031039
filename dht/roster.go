package dht

import (
	"fmt"
	"slices"

	"github.com/filch-hpc/filch"
)

// wantedReplicas is how many nodes hold a record, when there are so many.
const wantedReplicas = 3

// shardConfig says who holds a shard: the authority, whatever is near to what.
// It is immutable; rosters share it.
type shardConfig struct {
	epoch    uint64
	replicas []Replica // the first is the primary; at least one, dead or alive
	learner  Replica   // planned to join them, none if zero; not part of the config itself
	retire   Replica   // planned to go when the learner has joined
	// recovered: no replica of the epoch before was left; the one of this
	// epoch comes from their disks.
	recovered bool
}

func (c *shardConfig) primary() Replica { return c.replicas[0] }

func (c *shardConfig) has(r Replica) bool { return slices.Contains(c.replicas, r) }

// names reports whether a node is among the replicas, in whatever life.
func (c *shardConfig) names(n filch.NodeName) bool {
	return slices.ContainsFunc(c.replicas, func(r Replica) bool { return r.Name == n })
}

// next is the config that follows c with other replicas and no plan.
func (c *shardConfig) next(replicas []Replica) *shardConfig {
	return &shardConfig{epoch: c.epoch + 1, replicas: replicas}
}

func without(rs []Replica, r Replica) []Replica {
	return slices.DeleteFunc(slices.Clone(rs), func(x Replica) bool { return x == r })
}

// rosterMember is a node of the roster.
type rosterMember struct {
	Replica
	leaving bool // hands off what it has
	sick    bool // its disk takes nothing: it holds nothing either
}

// roster is the value of the register: who is there and who holds what. It is
// immutable once chosen.
type roster struct {
	epoch      uint64 // grows by one with each change
	generation uint64 // of the seats
	by         filch.NodeName
	depth      uint           // there are 1<<depth shards
	members    []rosterMember // in the order in which they came
	seats      []Replica      // the acceptors of this generation, each as it was when it was seated
	next       []Replica      // the acceptors of the next generation: this roster is sealed
	shards     []*shardConfig // by the bits of their number
}

func (r *roster) sealed() bool { return len(r.next) > 0 }

// config is that of a shard, nil if there is none of that number now.
func (r *roster) config(s Shard) *shardConfig {
	if r == nil || s == 0 || s.depth() != r.depth {
		return nil
	}
	return r.shards[int(s)&(1<<r.depth-1)]
}

func (r *roster) shardAt(i int) Shard { return Shard(1<<r.depth | i) }

// member returns the entry of a node, whatever its incarnation.
func (r *roster) member(n filch.NodeName) *rosterMember {
	for i := range r.members {
		if r.members[i].Name == n {
			return &r.members[i]
		}
	}
	return nil
}

func (r *roster) has(x Replica) bool {
	m := r.member(x.Name)
	return m != nil && m.Incarnation == x.Incarnation
}

func (r *roster) seated(n filch.NodeName) bool {
	return slices.ContainsFunc(r.seats, func(s Replica) bool { return s.Name == n })
}

// copy can be changed without a change of r.
func (r *roster) copy() *roster {
	c := *r
	c.members = slices.Clone(r.members)
	c.shards = slices.Clone(r.shards)
	return &c
}

// founding is the first roster of an instance.
func founding(self Replica) *roster {
	r := &roster{
		epoch: 1, generation: 1, by: self.Name, depth: shardBitsMin,
		members: []rosterMember{{Replica: self}}, seats: []Replica{self},
	}
	for range 1 << shardBitsMin {
		r.shards = append(r.shards, &shardConfig{epoch: 1, replicas: []Replica{self}})
	}
	return r
}

// opened is what a sealed roster turns into at its next seats. It follows from
// the sealed one alone, so that whoever knows that one knows this.
func (r *roster) opened() *roster {
	c := *r
	c.epoch++
	c.generation++
	c.seats, c.next = r.next, nil
	return &c
}

// split doubles the number of shards; both halves of each keep its replicas.
func (r *roster) split() {
	shards := make([]*shardConfig, 0, 2*len(r.shards))
	for _, c := range r.shards {
		shards = append(shards, c.next(c.replicas), c.next(c.replicas))
	}
	r.shards = shards
	r.depth++
}

// shardChange is one config of a delta.
type shardChange struct {
	shard  Shard
	config *shardConfig
}

// rosterDelta leads from the roster of one epoch to that of another. Members
// are told whole when they changed: they are few beside the shards.
type rosterDelta struct {
	base       uint64 // 0: from nothing
	epoch      uint64
	generation uint64
	by         filch.NodeName
	depth      uint
	members    []rosterMember // nil: as before
	seats      []Replica
	next       []Replica
	shards     []shardChange
}

// since returns what changed from old to r; old may be nil.
func (r *roster) since(old *roster) *rosterDelta {
	d := &rosterDelta{epoch: r.epoch, generation: r.generation, by: r.by, depth: r.depth, seats: r.seats, next: r.next}
	if old != nil {
		d.base = old.epoch
	}
	if old == nil || !slices.Equal(old.members, r.members) {
		d.members = r.members
	}
	split := old == nil || old.depth != r.depth
	for i, c := range r.shards {
		if split || old.shards[i] != c {
			d.shards = append(d.shards, shardChange{r.shardAt(i), c})
		}
	}
	return d
}

// applied is the roster after d; nil if d does not begin at old or is not whole.
func (d *rosterDelta) applied(old *roster) *roster {
	if old != nil && d.base == old.epoch || d.base == 0 {
		r := &roster{epoch: d.epoch, generation: d.generation, by: d.by, depth: d.depth, members: d.members, seats: d.seats, next: d.next}
		if d.base != 0 && d.members == nil {
			r.members = old.members
		}
		if d.base != 0 && old.depth == d.depth {
			r.shards = slices.Clone(old.shards)
		} else {
			r.shards = make([]*shardConfig, 1<<d.depth)
		}
		for _, c := range d.shards {
			if c.shard.depth() != d.depth {
				return nil
			}
			r.shards[int(c.shard)&(1<<d.depth-1)] = c.config
		}
		if slices.Contains(r.shards, nil) || len(r.seats) == 0 || len(r.members) == 0 {
			return nil
		}
		return r
	}
	return nil
}

// follows panics unless r may come after old: I1 and I2.
func (r *roster) follows(old *roster) {
	if r.epoch != old.epoch+1 || r.depth < old.depth {
		panic(fmt.Sprintf("roster %d of depth %d cannot follow %d of depth %d", r.epoch, r.depth, old.epoch, old.depth))
	}
	if len(r.members) == 0 {
		panic(fmt.Sprintf("roster %d has no member: nobody would take it in", r.epoch))
	}
	for i, c := range r.shards {
		was := old.shards[i>>(r.depth-old.depth)]
		if c == was || c.epoch == was.epoch && slices.Equal(c.replicas, was.replicas) && r.depth == old.depth {
			continue
		}
		if c.epoch != was.epoch+1 {
			panic(fmt.Sprintf("shard %d goes from epoch %d to %d (I1)", r.shardAt(i), was.epoch, c.epoch))
		}
		if len(c.replicas) == 0 {
			panic(fmt.Sprintf("shard %d has no replica in epoch %d", r.shardAt(i), c.epoch))
		}
		if !was.has(c.primary()) && (!c.recovered || len(c.replicas) > 1) && !mutantNaiveHome {
			panic(fmt.Sprintf("shard %d goes to %v in epoch %d, which was not among %v (I2)", r.shardAt(i), c.primary(), c.epoch, was.replicas))
		}
	}
}

// homeOf is where a key is at home.
func (r *roster) homeOf(k Key) (Shard, *shardConfig) {
	s := pointOf(k).shard(r.depth)
	return s, r.config(s)
}
