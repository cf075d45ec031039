package dht

import "time"

// Found makes this node the first of its instance. It does nothing if there
// is one already, on its disk or as far as it was told: the disk may be damaged,
// and have no more of it than some records or what a seat knew.
//
// The seat's value goes to the disk first, and nobody hears of this node before it is
// there. So a founding that a crash ended is on the disk, and goes on from there, or
// nobody knows of it, and the next life founds anew.
func (s *Store) Found(now time.Duration, out *StoreOut) {
	s.begin(now, out)
	defer s.end()
	d := &s.disk
	if s.roster != nil || s.seat.generation != 0 || len(d.images) > 0 || len(d.orphans) > 0 || d.recall.value != nil {
		s.kick()
		return
	}
	r := founding(s.self)
	d.born = s.self.Incarnation
	s.seat = seat{generation: r.generation, value: r}
	s.logSeat()
	d.gate.founded = d.logged
	s.log(diskBorn, appendUvarints(nil, d.born))
	s.adopt(r)
}

// finishFounding has this node hold all shards of the roster that a life before it
// founded, also those of which a crash kept the markers from the disk. Its seat knows
// no other roster, so there was none.
func (s *Store) finishFounding() {
	if v := s.seat.value; v == nil || v.epoch > 1 {
		return
	}
	for i, c := range s.roster.shards {
		id, who := s.roster.shardAt(i), c.primary()
		if who.Name != s.self.Name || who == s.self || s.disk.images[id] != nil {
			continue
		}
		s.disk.images[id] = &image{incarnation: who.Incarnation, records: map[Key]*record{}}
		s.log(markerKey(id), s.disk.images[id].marker())
	}
}
