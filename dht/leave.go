package dht

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
)

// seatWait is how long a new seat waits for its installation before it says
// that it cannot be one.
const seatWait = 2 * time.Second

// Leave hands off what this node holds; out.Left tells the end.
func (s *Store) Leave(now time.Duration, out *StoreOut) {
	s.begin(now, out)
	defer s.end()
	s.course = goes
	s.leaving()
}

// Return ends a Leave, also one that has ended: this node keeps records again.
func (s *Store) Return(now time.Duration, out *StoreOut) {
	s.begin(now, out)
	defer s.end()
	if s.course == goes {
		s.course = saysBack
		s.returning()
	}
}

// returning asks to be a member that stays.
func (s *Store) returning() {
	switch {
	case s.course > backs:
		s.course--
	case s.course < backs || !s.unwanted():
		return
	}
	s.ask(change{what: changeStaying, who: s.self})
	s.in(wishEvery, timedFunc((*Store).returning))
}

// unwanted reports whether the roster takes this node for one that leaves, or left.
func (s *Store) unwanted() bool {
	if s.roster == nil {
		return false
	}
	m := s.roster.member(s.self.Name)
	return m == nil || m.Replica != s.self || m.leaving
}

// leaving asks to be let go until the roster has this node no more.
func (s *Store) leaving() {
	r := s.roster
	if s.course != goes {
		return
	}
	if r == nil && s.blank() || r != nil && (s.letGo() || len(r.members) == 1 && s.last()) {
		s.out.Left = true
		return
	}
	s.ask(change{what: changeLeaving, who: s.self})
	s.in(wishEvery, timedFunc((*Store).leaving))
}

// blank reports whether the disk of this node held nothing that others may
// want. If it did, only a roster tells that they do not.
func (s *Store) blank() bool { return s.seat.generation == 0 && len(s.disk.images) == 0 }

// last reports whether everybody else has left. Who is dead, or only cut off,
// may come back for what is here.
func (s *Store) last() bool {
	return !slices.ContainsFunc(s.peers.order, func(p *peer) bool { return p.listed && p.state != PeerLeft })
}

// checkCourse tells at once when this node was let go, or is not where it goes: who
// left may be taken in again by a steward that has not heard of it, and of who came
// back a wish to leave may come late.
func (s *Store) checkCourse() {
	switch {
	case s.course == goes && s.letGo():
		s.out.Left = true
	case s.course == goes && !s.unwanted():
		s.leaving()
	case s.course == backs && s.unwanted():
		s.course = saysBack
		s.returning()
	}
}

// letGo reports whether the roster has this node no more, and nothing of it:
// one that was declared dead on its way out may hold a seat, or the last of a
// shard, and comes back with it first.
func (s *Store) letGo() bool {
	r := s.roster
	for _, id := range s.imaged() {
		if c := r.config(id); c != nil {
			if _, needed := s.disk.images[id].replica(s.self.Name, c); needed {
				return false
			}
		}
	}
	return !r.has(s.self) && !r.seated(s.self.Name) && !slices.ContainsFunc(r.shards, func(c *shardConfig) bool { return c.has(s.self) })
}

// checkSeat looks whether this node can be the seat that the roster says it is.
func (s *Store) checkSeat() {
	r := s.roster
	if !r.seated(s.self.Name) || s.seat.generation >= r.generation {
		return
	}
	s.in(seatWait, timedFunc(func(s *Store) {
		r := s.roster
		if !r.seated(s.self.Name) || s.seat.generation >= r.generation {
			return
		}
		if s.disk.reason != "" { // it may be back before the roster says that it was gone
			s.checkSeat()
			return
		}
		s.onInstall(s.peers.me, &msgInstall{value: r.since(nil)})
		if s.seat.generation < r.generation {
			// Its promises are lost; it must not make others.
			s.ask(change{what: changeUnseat, epoch: r.generation, who: s.self})
			s.checkSeat()
		}
	}))
}

// Homed are the records whose keys begin with prefix and whose primary is
// this node, by key.
func (s *Store) Homed(prefix Key) iter.Seq[HomedRecord] {
	type found struct {
		k Key
		r *record
	}
	var all []found
	for _, sh := range s.hold.shards { // any order
		if !sh.home {
			continue
		}
		for k, r := range sh.records { // any order
			if !r.gone && strings.HasPrefix(string(k), string(prefix)) {
				all = append(all, found{k, r})
			}
		}
	}
	slices.SortFunc(all, func(a, b found) int { return strings.Compare(string(a.k), string(b.k)) })
	return func(yield func(HomedRecord) bool) {
		for _, f := range all {
			if !yield(HomedRecord{f.k, f.r.kind, f.r.version, f.r.value}) {
				return
			}
		}
	}
}

// Status is for people.
func (s *Store) Status() StoreStatus {
	st := StoreStatus{Pending: s.calls.count, DiskReason: s.disk.reason}
	for _, sh := range s.hold.shards { // any order
		st.Records += len(sh.records)
		if sh.cfg.has(s.self) {
			st.Replicas++
		}
		if sh.home {
			st.Homes++
		}
	}
	r := s.roster
	if r == nil {
		return st
	}
	st.Known, st.Epoch, st.Generation = true, r.epoch, r.generation
	st.Seated = r.seated(s.self.Name) && s.seat.generation == r.generation
	st.Sealed = st.Seated && s.seat.value != nil && s.seat.value.sealed() && s.seat.value.epoch > r.epoch
	st.Shards = len(r.shards)
	able := 0
	for _, m := range r.members {
		st.Members = append(st.Members, m.Replica)
		if !m.leaving && !m.sick {
			able++
		}
	}
	for _, x := range r.seats {
		st.Seats = append(st.Seats, x.Name)
	}
	slices.Sort(st.Seats)
	for i, c := range r.shards {
		if len(c.replicas) < min(wantedReplicas, able) {
			st.Short++
		}
		if c.learner != (Replica{}) {
			st.Learners++
		}
		if s.lost(c) {
			st.Lost = append(st.Lost, r.shardAt(i))
		}
	}
	return st
}

// EachMember calls f with the members of the roster, in the order in which they
// came; there is none before the roster is known.
func (s *Store) EachMember(f func(filch.NodeName)) {
	if s.roster == nil {
		return
	}
	for _, m := range s.roster.members {
		f(m.Name)
	}
}
