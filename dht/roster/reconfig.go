package roster

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// The kinds of changes; these values cross the wire: append only.
const (
	ChangeExclude   = iota + 1 // a replica or learner does not answer the primary
	ChangeAdmit                // the learner has everything
	ChangeRecovered            // a node has the records of the last replicas' disks
	ChangeLoss                 // begin the shard again with the data still there
	ChangeLeaving              // a node hands off its shards
	ChangeSick                 // a node's disk accepts no entries
	ChangeWell                 // the disk accepts entries again
	ChangeDemote               // an acceptor lost the promises; Epoch is the generation
	ChangeStaying              // a leaving or departed node stays after all
	Changes
)

// Change is a wish for a change of the roster, made in an epoch of the shard. In another
// epoch the wish is void.
type Change struct {
	What  uint8
	Shard dht.Shard
	Epoch uint64
	Who   dht.Replica
}

// Standing is the state of a replica, as this node sees the replica.
type Standing uint8

const (
	Unseen Standing = iota
	Fine
	Silent
	// Gone, perhaps by mistake: the replica remains an acceptor, and keeps the shards
	// held by no other node.
	Away
	Over
)

// View is the instance as the proposer sees the nodes.
type View interface {
	Standing(dht.Replica) Standing
	// Up calls f with the present incarnations of the other nodes up on the member list,
	// by name.
	Up(f func(dht.Replica))
	// Stays reports whether this node does not leave.
	Stays() bool
	// Place returns the place of a node in the key space.
	Place(filch.NodeName) dht.Point
	// Knows reports whether a node is known to have the roster of an epoch.
	Knows(who dht.Replica, epoch uint64) bool
	// Confirmed reports whether a node has confirmed being a member.
	Confirmed(dht.Replica) bool
	// Promised reports whether an acceptor has answered the present proposal.
	Promised(filch.NodeName) bool
	// Excluded reports whether a replica failed a shard a short while ago.
	Excluded(dht.Shard, dht.Replica) bool
	// Exclude notes that a replica failed a shard.
	Exclude(dht.Shard, dht.Replica)
	// HasLeft reports whether a node left, and may still be on the member list.
	HasLeft(dht.Replica) bool
	// SetLeft notes that a node left, or stays.
	SetLeft(who dht.Replica, left bool)
	// Await names the nodes to answer before the roster can change further.
	Await([]filch.NodeName)
	// Outlived reports whether a replica has spoken since this node knows of the loss of
	// another, or has not answered for long.
	Outlived(who, lost dht.Replica) bool
	// Doubt names the nodes to speak before shards are left to them alone.
	Doubt([]filch.NodeName)
	// Random returns a number below n; only a planted fault calls Random.
	Random(n int) int
}

// reconfig computes a change of the roster.
type reconfig struct {
	view  View
	self  dht.Replica
	base  *Roster
	r     *Roster
	index map[filch.NodeName]int // of members
	stand []Standing             // by member
	place []dht.Point
	// Shards by member, planned learners included and retiring replicas not.
	load  []int
	homes []int // shards as primary
	able  int   // number of members able to hold shards

	who  [][]int // by shard: the replicas by member, -1 for others
	lost []bool  // by shard: no replica lives

	awaits []filch.NodeName // nodes to answer before more can change
	doubts []filch.NodeName // nodes to speak before shards are left to them
}

// Next computes the roster after base, from node self's view and the wishes in asks; nil
// when nothing changes.
func Next(v View, self dht.Replica, base *Roster, asks []Change) *Roster {
	e := &reconfig{view: v, self: self, base: base, r: base.Copy()}
	demoted := e.admitMembers(asks)
	if len(e.r.Members) == 0 {
		return nil // this node leaves, and sees no node to stay
	}
	e.measure()
	e.shrink()
	e.grant(asks)
	if 4*len(e.r.Members) > 1<<e.r.Depth && e.r.Depth < dht.ShardBitsMax && (mutantSplitEarly || !e.recovers()) {
		e.r.Split()
	}
	e.plan()
	e.moveAcceptors(demoted)
	e.forgetGone()
	e.renumber()
	v.Await(e.awaits)
	v.Doubt(e.doubts)
	if slices.Equal(e.r.Members, base.Members) && slices.Equal(e.r.Shards, base.Shards) && !e.r.Sealed() {
		return nil
	}
	e.r.Epoch++
	e.r.By = self.Name
	return e.r
}

// admitMembers adds new nodes and drops dead members.
func (e *reconfig) admitMembers(asks []Change) (demoted []dht.Replica) {
	e.r.Members = slices.DeleteFunc(e.r.Members, func(m Member) bool { return e.view.Standing(m.Replica) == Over })
	if e.r.Member(e.self.Name) == nil && e.view.Stays() {
		e.r.Members = append(e.r.Members, Member{Replica: e.self})
	}
	for _, c := range asks {
		if c.What == ChangeStaying {
			e.view.SetLeft(c.Who, false)
		}
	}
	e.view.Up(func(x dht.Replica) {
		// A remaining member of that name has the same incarnation, or a later
		// incarnation than the member list knows.
		if (e.r.Member(x.Name) == nil || mutantTwiceMember && !e.r.Has(x)) && (!e.view.HasLeft(x) || e.needs(x.Name)) {
			e.r.Members = append(e.r.Members, Member{Replica: x})
		}
	})
	for _, c := range asks {
		if c.What == ChangeDemote && c.Epoch == e.r.Generation {
			demoted = append(demoted, c.Who)
		}
		m := e.r.Member(c.Who.Name)
		if m == nil || m.Replica != c.Who {
			continue
		}
		switch c.What {
		case ChangeLeaving:
			m.Leaving = true
		case ChangeStaying:
			m.Leaving = false
		case ChangeSick:
			m.Sick = true
		case ChangeWell:
			m.Sick = false
		}
	}
	return demoted
}

// needs reports whether the disk of a node may have the last records of a shard: then the
// node becomes a member again although it has left.
func (e *reconfig) needs(n filch.NodeName) bool {
	return slices.ContainsFunc(e.r.Shards, func(c *Config) bool {
		return c.names(n) && e.isLost(c)
	})
}

// measure counts the shards and primaries of every member.
func (e *reconfig) measure() {
	n := len(e.r.Members)
	e.index = make(map[filch.NodeName]int, n)
	e.stand, e.place = make([]Standing, n), make([]dht.Point, n)
	e.load, e.homes, e.able = make([]int, n), make([]int, n), 0
	for i, m := range e.r.Members {
		e.index[m.Name] = i
		e.stand[i] = e.view.Standing(m.Replica)
		e.place[i] = e.view.Place(m.Name)
		if !m.Leaving && !m.Sick {
			e.able++
		}
	}
	e.who, e.lost = make([][]int, len(e.r.Shards)), make([]bool, len(e.r.Shards))
	for i, c := range e.r.Shards {
		e.who[i], e.lost[i] = e.numbers(c), e.isLost(c)
		e.count(i, 1)
	}
}

// isLost reports whether no replica of a shard lives.
func (e *reconfig) isLost(c *Config) bool {
	return !slices.ContainsFunc(c.Replicas, func(r dht.Replica) bool { return e.view.Standing(r) != Over })
}

// numbers returns the replicas of a config by member.
func (e *reconfig) numbers(c *Config) []int {
	out := make([]int, len(c.Replicas))
	for j, r := range c.Replicas {
		m, ok := e.at(r)
		if !ok {
			m = -1
		}
		out[j] = m
	}
	return out
}

func (e *reconfig) count(i, by int) {
	c := e.r.Shards[i]
	for j, m := range e.who[i] {
		if m >= 0 && c.Replicas[j] != c.retire {
			e.load[m] += by
		}
		if m >= 0 && j == 0 {
			e.homes[m] += by
		}
	}
	if m, ok := e.at(c.Learner); ok {
		e.load[m] += by
	}
}

// at returns the number of a member.
func (e *reconfig) at(r dht.Replica) (int, bool) {
	i, ok := e.index[r.Name]
	return i, ok && e.r.Members[i].Incarnation == r.Incarnation
}

// was returns the config of shard i before this change.
func (e *reconfig) was(i int) *Config {
	return e.base.Shards[i>>(e.r.Depth-e.base.Depth)]
}

// recovers reports whether this change recovers a shard from a disk. Only the first
// config of the recovered epoch shows this; the halves of a split shard would not.
func (e *reconfig) recovers() bool {
	return slices.ContainsFunc(e.r.Shards, func(c *Config) bool { return c.Recovered && !slices.Contains(e.base.Shards, c) })
}

// may reports whether shard i can get a config in this change: the primary must have been
// in the config before (I2). Another primary takes two changes.
func (e *reconfig) may(i int, c *Config) bool {
	return e.was(i).Has(c.Primary()) || c.Recovered || mutantNaiveHome
}

// set gives shard i another config, if allowed; see may.
func (e *reconfig) set(i int, c *Config) bool {
	if !e.may(i, c) {
		return false
	}
	e.count(i, -1)
	e.r.Shards[i], e.who[i] = c, e.numbers(c)
	e.count(i, 1)
	return true
}

// renumber combines all changes of a shard in this change into a single epoch.
func (e *reconfig) renumber() {
	for i, c := range e.r.Shards {
		if was := e.was(i); c.Epoch > was.Epoch+1 {
			n := *c
			n.Epoch = was.Epoch + 1
			e.r.Shards[i] = &n
		}
	}
}

// shrink drops dead and gone replicas from each config in which a replica known to live
// remains, and drops plans with such learners. If a dropped replica still lives, the
// effect is the same as an exclusion for silence: an epoch is over for the dropped
// replica.
//
// A remaining replica may have died unnoticed, before the others. Its disk alone would
// count then, and may lack what the disks of the dropped replicas have. So one of the
// remaining replicas must have spoken since this node knows of the others' loss.
//
// A known limit: this replica may die after its answer, before the config has another
// replica. To use the disks of the dropped replicas then, the roster would have to record
// that the remaining replica has acknowledged nothing alone. This would cost another
// change of the roster for each death, and no writes until the change is chosen.
func (e *reconfig) shrink() {
	for i, c := range e.r.Shards {
		var fine, dropped []dht.Replica
		left := slices.DeleteFunc(slices.Clone(c.Replicas), func(r dht.Replica) bool {
			m, ok := e.at(r)
			if ok && e.stand[m] == Fine {
				// A silent replica may be dead: other replicas are not dropped before the
				// silent replica's state is known, as their disks may be needed.
				fine = append(fine, r)
			}
			drop := ok && e.stand[m] == Away || !ok && e.view.Standing(r) == Over
			if drop {
				dropped = append(dropped, r)
			}
			return drop
		})
		if len(fine) == 0 {
			continue
		}
		if !slices.ContainsFunc(fine, func(r dht.Replica) bool { return e.outlived(r, dropped) }) {
			e.doubt(fine)
			continue
		}
		if mutantNaiveHome && !slices.Contains(left, c.Primary()) {
			any := e.r.Members[e.view.Random(len(e.r.Members))].Replica
			left = slices.Insert(Without(left, any), 0, any)
		}
		m, learning := e.at(c.Learner)
		lost := c.Learner != dht.Replica{} && (!learning || e.stand[m] == Away)
		if len(dropped) > 0 || lost {
			// With a new epoch the primary knows that the learner was not admitted, and
			// needs no more acknowledgments of the learner.
			e.set(i, c.Next(left))
		}
	}
}

// outlived reports whether a replica has spoken since the loss of all the others is known.
func (e *reconfig) outlived(r dht.Replica, others []dht.Replica) bool {
	return r == e.self || !slices.ContainsFunc(others, func(o dht.Replica) bool { return !e.view.Outlived(r, o) })
}

// doubt notes replicas of which one must speak before the others of its shard are dropped.
func (e *reconfig) doubt(rs []dht.Replica) {
	for _, r := range rs {
		if !slices.Contains(e.doubts, r.Name) {
			e.doubts = append(e.doubts, r.Name)
		}
	}
}

// grant carries out the wishes of replicas for the present configs.
func (e *reconfig) grant(asks []Change) {
	for _, a := range asks {
		c := e.r.Config(a.Shard)
		if c == nil || c.Epoch != a.Epoch {
			continue
		}
		i := int(a.Shard) & (1<<e.r.Depth - 1)
		switch a.What {
		case ChangeExclude:
			if c.Has(a.Who) && slices.ContainsFunc(c.Replicas, func(r dht.Replica) bool { return r != a.Who && e.view.Standing(r) == Fine }) {
				e.view.Exclude(a.Shard, a.Who)
				e.set(i, c.Next(Without(c.Replicas, a.Who)))
			} else if c.Learner == a.Who && a.Who != (dht.Replica{}) {
				e.view.Exclude(a.Shard, a.Who)
				e.set(i, c.Next(c.Replicas))
			}
		case ChangeAdmit:
			if _, ok := e.at(a.Who); ok && c.Learner == a.Who {
				next := append(slices.Clone(c.Replicas), a.Who)
				if !e.set(i, c.Next(Without(next, c.retire))) {
					e.set(i, c.Next(next))
				}
			}
		case ChangeRecovered:
			if _, ok := e.at(a.Who); ok && e.isLost(c) {
				n := c.Next([]dht.Replica{a.Who})
				n.Recovered = true
				e.set(i, n)
			}
		case ChangeLoss:
			if e.isLost(c) {
				e.renounce(i, c)
			}
		}
	}
}

// renounce begins a lost shard again, empty, at a live node.
func (e *reconfig) renounce(i int, c *Config) {
	m := e.nearest(e.r.ShardAt(i), func(int) bool { return true })
	if m < 0 {
		return
	}
	n := c.Next([]dht.Replica{e.r.Members[m].Replica})
	n.Recovered = true
	e.set(i, n)
}

// forgetGone removes members after leaving: such members hold no shard, have no lost
// shard on disk, and are no acceptors.
func (e *reconfig) forgetGone() {
	busy := map[dht.Replica]bool{}
	needed := map[filch.NodeName]bool{}
	for _, c := range e.r.Shards {
		lost := e.isLost(c)
		for _, r := range c.Replicas {
			busy[r] = true
			if lost {
				needed[r.Name] = true
			}
		}
	}
	e.r.Members = slices.DeleteFunc(e.r.Members, func(m Member) bool {
		if !m.Leaving || busy[m.Replica] || needed[m.Name] || e.r.IsAcceptor(m.Name) || len(e.r.Members) == 1 {
			return false
		}
		e.view.SetLeft(m.Replica, true)
		return true
	})
}

// moveAcceptors moves the register to other acceptors where needed.
//
// A known limit: with two able members the register moves to a single acceptor, as with
// three acceptors the death of either able member would stop the register. A move
// accepted by a majority may still complete after the proposer is gone and the new
// acceptor's disk was damaged: the new acceptor cannot know that no promise was lost, and
// refuses to act. Then the roster is lost, and [store.Store.AcceptLoss] forces a new
// roster.
func (e *reconfig) moveAcceptors(demoted []dht.Replica) {
	want := 1
	switch n := e.able; {
	case n >= 16 || n >= 9 && len(e.r.Acceptors) == 5:
		want = 5 // falls back to 3 only well below 16: each move costs a generation
	case n >= 3:
		want = 3
	}
	good := func(n filch.NodeName) bool {
		i, ok := e.index[n]
		return ok && !e.r.Members[i].Leaving && !e.r.Members[i].Sick && e.stand[i] != Over
	}
	// An acceptor without its promises is no longer an acceptor, but may be an acceptor
	// of the next generation, in which the node has made no promises: there may be no
	// other node.
	lost := func(n filch.NodeName) bool {
		return slices.ContainsFunc(demoted, func(r dht.Replica) bool { return r.Name == n })
	}
	var next []dht.Replica
	for _, r := range e.r.Acceptors {
		if good(r.Name) && !lost(r.Name) {
			next = append(next, e.r.Members[e.index[r.Name]].Replica)
		}
	}
	if want < len(e.r.Acceptors) {
		next = e.surest(next, want)
	}
	kept := len(next)
	var unconfirmed []dht.Replica
	for i, m := range e.r.Members {
		switch {
		case len(next) == want || !good(m.Name) || e.stand[i] != Fine || slices.Contains(next, m.Replica):
		case e.view.Confirmed(m.Replica):
			next = append(next, m.Replica)
		default:
			unconfirmed = append(unconfirmed, m.Replica)
		}
	}
	if len(next) < want {
		e.await(unconfirmed)
		return // no member can replace the missing acceptor
	}
	if kept == len(e.r.Acceptors) && kept == want || want <= len(e.r.Acceptors) && !e.most(next) {
		return
	}
	e.r.next = next
}

// surest returns the acceptors that remain when their number falls. The last acceptor may
// have died unnoticed with its disk, and then the roster would be lost. So acceptors with
// an answer come first, and silent acceptors are left out.
func (e *reconfig) surest(acceptors []dht.Replica, want int) []dht.Replica {
	acceptors = slices.DeleteFunc(acceptors, func(r dht.Replica) bool { return e.stand[e.index[r.Name]] != Fine })
	slices.SortStableFunc(acceptors, func(a, b dht.Replica) int {
		switch x, y := e.surely(a), e.surely(b); {
		case x && !y:
			return -1
		case y && !x:
			return 1
		}
		return 0
	})
	return acceptors[:min(want, len(acceptors))]
}

// surely reports whether an acceptor has answered this proposal, or an earlier message.
func (e *reconfig) surely(r dht.Replica) bool {
	return e.view.Promised(r.Name) || e.answered(r)
}

// most reports whether most of the given acceptors have answered: if the others died
// unnoticed, the roster may be lost.
func (e *reconfig) most(acceptors []dht.Replica) bool {
	mute := slices.DeleteFunc(slices.Clone(acceptors), e.surely)
	if 2*len(mute) < len(acceptors) {
		return true
	}
	e.await(mute)
	return false
}
