package store

import (
	"iter"
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/record"
)

// View returns the config of a key's shard as this node knows the shard: the epoch, 0 if
// none is known, and the replicas, the primary first.
func (s *Store) View(k dht.Key) (shard dht.Shard, epoch uint64, replicas []dht.Replica) {
	if s.view.roster == nil {
		return 0, 0, nil
	}
	shard, c := s.view.roster.HomeOf(k)
	return shard, c.Epoch, slices.Clone(c.Replicas)
}

// Homed returns the records whose keys begin with prefix and whose primary is this node,
// by key.
func (s *Store) Homed(prefix dht.Key) iter.Seq[HomedRecord] {
	type found struct {
		k dht.Key
		r *record.Record
	}
	var all []found
	for _, sh := range s.replica.shards { // any order
		if !sh.home {
			continue
		}
		for k, r := range sh.records { // any order
			if !r.Gone && strings.HasPrefix(string(k), string(prefix)) {
				all = append(all, found{k, r})
			}
		}
	}
	slices.SortFunc(all, func(a, b found) int { return strings.Compare(string(a.k), string(b.k)) })
	return func(yield func(HomedRecord) bool) {
		for _, f := range all {
			if !yield(HomedRecord{f.k, f.r.Kind, f.r.Version, f.r.Value}) {
				return
			}
		}
	}
}

// Status returns the store's state, for people.
func (s *Store) Status() Status {
	st := Status{Pending: s.requests.count, DiskReason: s.disk.reason}
	for _, sh := range s.replica.shards { // any order
		st.Records += len(sh.records)
		if sh.cfg.Has(s.self) {
			st.Replicas++
		}
		if sh.home {
			st.Homes++
		}
	}
	r := s.view.roster
	if r == nil {
		return st
	}
	st.Known, st.Epoch, st.Generation = true, r.Epoch, r.Generation
	st.Acceptor = r.IsAcceptor(s.self.Name) && s.acceptor.generation == r.Generation
	st.Sealed = st.Acceptor && s.acceptor.value != nil && s.acceptor.value.Sealed() && s.acceptor.value.Epoch > r.Epoch
	st.Shards = len(r.Shards)
	able := 0
	for _, m := range r.Members {
		st.Members = append(st.Members, m.Replica)
		if !m.Leaving && !m.Sick {
			able++
		}
	}
	for _, x := range r.Acceptors {
		st.Acceptors = append(st.Acceptors, x.Name)
	}
	slices.Sort(st.Acceptors)
	for i, c := range r.Shards {
		if len(c.Replicas) < min(roster.Replicas, able) {
			st.Short++
		}
		if c.Learner != (dht.Replica{}) {
			st.Learners++
		}
		if s.view.lost(c) {
			st.Lost = append(st.Lost, r.ShardAt(i))
		}
	}
	return st
}

// EachMember calls f with the members of the roster, in order of joining. Without a
// roster there are no calls.
func (s *Store) EachMember(f func(filch.NodeName)) {
	if s.view.roster == nil {
		return
	}
	for _, m := range s.view.roster.Members {
		f(m.Name)
	}
}
