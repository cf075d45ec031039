package dht

import (
	"fmt"
	"slices"
)

// The invariants, as consistency demands them:
//
//	I1  one config for each epoch of a shard, one roster for each epoch
//	I2  the primary of an epoch was a replica of the one before
//	I3  no two epochs of a shard commit at the same time
//	I4  what was committed is on all replicas
//	I5  what was shown is on all replicas, in a version of this epoch
//	I6  what was not acknowledged surfaces or is overwritten, never both
//	I7  records only grow
//
// I1 and I2 are looked at with every roster, I4 to I7 by [CheckStores] and
// [Store.Check] as far as a moment shows them; I3, I5 and I6 are what the
// histories of the simulator are checked for. I8 to I10 are about tasks.

const checkedRecords = 64 // of a shard in one Check: it runs after every input

// Check panics when the store contradicts itself.
func (s *Store) Check() {
	if s.seat.promised.less(s.seat.accepted) {
		panic(fmt.Sprintf("seat %s accepted %v and promised %v", s.self.Name, s.seat.accepted, s.seat.promised))
	}
	open := 0
	for _, p := range s.calls.open {
		if !p.done {
			open++
		}
	}
	if open != s.calls.count {
		panic(fmt.Sprintf("%s waits for %d operations and counts %d", s.self.Name, open, s.calls.count))
	}
	s.checkGate()
	for _, sh := range s.hold.shards { // any order
		s.checkShard(sh)
	}
	if s.roster == nil {
		return
	}
	if s.roster.by == s.self.Name {
		s.roster.checkMembers()
	}
	for i, c := range s.roster.shards {
		if id := s.roster.shardAt(i); c.has(s.self) && s.hold.shards[id] == nil {
			panic(fmt.Sprintf("%s does not hold shard %d of epoch %d", s.self.Name, id, c.epoch))
		}
	}
}

// checkMembers panics when a node is a member twice, in whatever lives.
func (r *roster) checkMembers() {
	for i, m := range r.members {
		if r.member(m.Name) != &r.members[i] {
			panic(fmt.Sprintf("roster %d names %s twice: %v", r.epoch, m.Name, r.members))
		}
	}
}

func (s *Store) checkShard(sh *shard) {
	c := s.roster.config(sh.id)
	if c == nil || sh.over || sh.cfg.epoch != c.epoch || sh.home != (c.primary() == s.self) {
		panic(fmt.Sprintf("%s holds shard %d in epoch %d, home %t, against the roster", s.self.Name, sh.id, sh.cfg.epoch, sh.home))
	}
	if !sh.home && (len(sh.turns) > 0 || len(sh.readers) > 0 || sh.round != nil || sh.learn != nil) {
		panic(fmt.Sprintf("%s has %d operations under way on shard %d, which is at home elsewhere", s.self.Name, len(sh.turns), sh.id))
	}
	for k, t := range sh.turns { // any order
		if t.flight == nil || t.flight.done || t.flight.epoch != c.epoch || t.key != k {
			panic(fmt.Sprintf("%s waits on %q in shard %d for nobody", s.self.Name, k, sh.id))
		}
	}
	n := 0
	for k, r := range sh.records { // any order
		if n++; n > checkedRecords {
			break
		}
		if !sh.id.holds(pointOf(k)) || c.epoch < r.stamp.Epoch || r.stamp.Less(r.version) {
			panic(fmt.Sprintf("%s holds %q of %v, stamped %v, in shard %d of epoch %d (I7)", s.self.Name, k, r.version, r.stamp, sh.id, c.epoch))
		}
		if sh.home && r.stamp.Epoch == c.epoch && r.stamp.Seq > sh.seq {
			panic(fmt.Sprintf("%s shows %q of %v after %d operations in shard %d", s.self.Name, k, r.stamp, sh.seq, sh.id))
		}
	}
}

// CheckStores panics when stores of one instance contradict each other.
func CheckStores(all ...*Store) {
	rosters := map[uint64]*Store{}
	for _, s := range all {
		if s.roster == nil {
			continue
		}
		if o := rosters[s.roster.epoch]; o != nil && !o.roster.same(s.roster) {
			panic(fmt.Sprintf("%s and %s know different rosters of epoch %d (I1)", s.self.Name, o.self.Name, s.roster.epoch))
		}
		rosters[s.roster.epoch] = s
	}
	type configID struct {
		shard Shard
		epoch uint64
	}
	configs := map[configID][]Replica{}
	homes := map[configID]*Store{}
	for _, s := range all {
		for _, sh := range s.held() {
			id := configID{sh.id, sh.cfg.epoch}
			if rs := configs[id]; rs != nil && !slices.Equal(rs, sh.cfg.replicas) {
				panic(fmt.Sprintf("shard %d has %v and %v in epoch %d (I1)", id.shard, rs, sh.cfg.replicas, id.epoch))
			}
			configs[id] = sh.cfg.replicas
			if sh.home {
				if o := homes[id]; o != nil {
					panic(fmt.Sprintf("shard %d is at home on %s and %s in epoch %d (I3)", id.shard, o.self.Name, s.self.Name, id.epoch))
				}
				homes[id] = s
			}
		}
	}
	for _, s := range all {
		for _, sh := range s.held() {
			if h := homes[configID{sh.id, sh.cfg.epoch}]; h != nil && h != s && sh.cfg.has(s.self) {
				checkHeld(h, s, sh.id)
			}
		}
	}
}

// checkHeld compares what a home shows of its epoch with another replica (I4).
func checkHeld(home, s *Store, id Shard) {
	mine, theirs := home.hold.shards[id], s.hold.shards[id]
	for _, k := range mine.keys() {
		r := mine.records[k]
		if r.stamp.Epoch != mine.cfg.epoch {
			continue
		}
		if o := theirs.records[k]; o == nil && theirs.floor.Less(r.stamp) || o != nil && o.stamp.Less(r.stamp) {
			panic(fmt.Sprintf("%s committed %q as %v, %s in epoch %d does not have it (I4)", home.self.Name, k, r.stamp, s.self.Name, mine.cfg.epoch))
		}
	}
}
