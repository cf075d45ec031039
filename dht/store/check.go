package store

import (
	"fmt"
	"slices"

	"github.com/filch-hpc/filch/dht"
)

// The invariants of the store:
//
//	I1  one config for each epoch of a shard, one roster for each epoch
//	I2  the primary of an epoch was a replica in the epoch before
//	I3  no two epochs of a shard commit at the same time
//	I4  a committed change is on all replicas
//	I5  a value shown to a reader is on all replicas, in a version of this epoch
//	I6  an unacknowledged change surfaces or is overwritten, never both
//	I7  records only grow
//
// Every new roster is checked for I1 and I2. [CheckAll] and [Store.Check] check I4 to I7
// as far as a single moment allows. The simulator checks histories for I3, I5 and I6. I8
// to I10 are about tasks.

const checkedRecords = 64 // of a shard in each Check, as Check runs after every input

// Check panics when the store contradicts itself.
func (s *Store) Check() {
	if s.acceptor.promised.Less(s.acceptor.accepted) {
		panic(fmt.Sprintf("acceptor %s accepted %v and promised %v", s.self.Name, s.acceptor.accepted, s.acceptor.promised))
	}
	open := 0
	for _, p := range s.requests.open {
		if !p.done {
			open++
		}
	}
	if open != s.requests.count {
		panic(fmt.Sprintf("%s waits for %d operations and counts %d", s.self.Name, open, s.requests.count))
	}
	s.disk.check()
	for _, sh := range s.replica.shards { // any order
		s.checkShard(sh)
	}
	if s.view.roster == nil {
		return
	}
	if s.view.roster.By == s.self.Name {
		s.view.roster.CheckMembers()
	}
	for i, c := range s.view.roster.Shards {
		if id := s.view.roster.ShardAt(i); c.Has(s.self) && s.replica.shards[id] == nil {
			panic(fmt.Sprintf("%s does not hold shard %d of epoch %d", s.self.Name, id, c.Epoch))
		}
	}
}

func (s *Store) checkShard(sh *shard) {
	c := s.view.roster.Config(sh.id)
	if c == nil || sh.over || sh.cfg.Epoch != c.Epoch || sh.home != (c.Primary() == s.self) {
		panic(fmt.Sprintf("%s holds shard %d in epoch %d, home %t, against the roster", s.self.Name, sh.id, sh.cfg.Epoch, sh.home))
	}
	if !sh.home && (len(sh.turns) > 0 || len(sh.readers) > 0 || sh.round != nil || sh.learn != nil) {
		panic(fmt.Sprintf("%s has %d operations under way on shard %d, which is at home elsewhere", s.self.Name, len(sh.turns), sh.id))
	}
	for k, t := range sh.turns { // any order
		if t.flight == nil || t.flight.done || t.flight.epoch != c.Epoch || t.key != k {
			panic(fmt.Sprintf("%s waits on %q in shard %d for nobody", s.self.Name, k, sh.id))
		}
	}
	n := 0
	for k, r := range sh.records { // any order
		if n++; n > checkedRecords {
			break
		}
		if !sh.id.Holds(dht.PointOf(k)) || c.Epoch < r.Stamp.Epoch || r.Stamp.Less(r.Version) {
			panic(fmt.Sprintf("%s holds %q of %v, stamped %v, in shard %d of epoch %d (I7)", s.self.Name, k, r.Version, r.Stamp, sh.id, c.Epoch))
		}
		if sh.home && r.Stamp.Epoch == c.Epoch && r.Stamp.Seq > sh.seq {
			panic(fmt.Sprintf("%s shows %q of %v after %d operations in shard %d", s.self.Name, k, r.Stamp, sh.seq, sh.id))
		}
	}
}

// CheckAll panics when stores of one instance contradict each other.
func CheckAll(all ...*Store) {
	rosters := map[uint64]*Store{}
	for _, s := range all {
		if s.view.roster == nil {
			continue
		}
		if o := rosters[s.view.roster.Epoch]; o != nil && !o.view.roster.Same(s.view.roster) {
			panic(fmt.Sprintf("%s and %s know different rosters of epoch %d (I1)", s.self.Name, o.self.Name, s.view.roster.Epoch))
		}
		rosters[s.view.roster.Epoch] = s
	}
	type configID struct {
		shard dht.Shard
		epoch uint64
	}
	configs := map[configID][]dht.Replica{}
	homes := map[configID]*Store{}
	for _, s := range all {
		for _, sh := range s.replica.held() {
			id := configID{sh.id, sh.cfg.Epoch}
			if rs := configs[id]; rs != nil && !slices.Equal(rs, sh.cfg.Replicas) {
				panic(fmt.Sprintf("shard %d has %v and %v in epoch %d (I1)", id.shard, rs, sh.cfg.Replicas, id.epoch))
			}
			configs[id] = sh.cfg.Replicas
			if sh.home {
				if o := homes[id]; o != nil {
					panic(fmt.Sprintf("shard %d is at home on %s and %s in epoch %d (I3)", id.shard, o.self.Name, s.self.Name, id.epoch))
				}
				homes[id] = s
			}
		}
	}
	for _, s := range all {
		for _, sh := range s.replica.held() {
			if h := homes[configID{sh.id, sh.cfg.Epoch}]; h != nil && h != s && sh.cfg.Has(s.self) {
				checkHeld(h, s, sh.id)
			}
		}
	}
}

// checkHeld compares the records of this epoch on a home with another replica (I4).
func checkHeld(home, s *Store, id dht.Shard) {
	mine, theirs := home.replica.shards[id], s.replica.shards[id]
	for _, k := range mine.keys() {
		r := mine.records[k]
		if r.Stamp.Epoch != mine.cfg.Epoch {
			continue
		}
		if o := theirs.records[k]; o == nil && theirs.floor.Less(r.Stamp) || o != nil && o.Stamp.Less(r.Stamp) {
			panic(fmt.Sprintf("%s committed %q as %v, %s in epoch %d does not have it (I4)", home.self.Name, k, r.Stamp, s.self.Name, mine.cfg.Epoch))
		}
	}
}
