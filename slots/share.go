package slots

import "github.com/filch-hpc/filch"

// share is an amount of a node's resources, with the numbers of its slots and GPUs.
type share struct {
	room  filch.Room
	slots set
	gpus  devices
}

// fits is the number of ranks for which s suffices: base is taken once, each for every
// rank.
func (s *share) fits(base, each filch.Room) int32 {
	return min(s.room.Fits(base, each), s.gpus.fits(base.GPUs, each.GPUs))
}

// lend moves room for ranks that take each to t: the lowest slots and GPUs of s.
func (s *share) lend(room, each filch.Room, t *share) {
	s.room.Sub(&room)
	t.room.Add(&room)
	t.slots = s.slots.low(t.slots, room.Slots)
	if room.GPUs > 0 { // few tasks need a GPU, and a set costs an allocation
		t.gpus = s.gpus.lend(t.gpus, room.GPUs, unitOf(each.GPUs))
	}
}

// giveBack moves room for ranks that take each to t: the highest slots and GPUs of s. The
// sets of t are large enough.
func (s *share) giveBack(room, each filch.Room, t *share) {
	s.room.Sub(&room)
	t.room.Add(&room)
	s.slots.high(t.slots, room.Slots)
	s.gpus.giveBack(t.gpus, room.GPUs, unitOf(each.GPUs))
}

func (s *share) plus(t *share) {
	s.room.Add(&t.room)
	s.slots = s.slots.grown(len(t.slots))
	s.slots.plus(t.slots)
	for len(s.gpus) < len(t.gpus) {
		s.gpus = append(s.gpus, 0)
	}
	s.gpus.plus(t.gpus)
}

func (s *share) minus(t *share) {
	s.room.Sub(&t.room)
	s.slots.minus(t.slots)
	s.gpus.minus(t.gpus)
}

func (s share) clone() share { return share{s.room, s.slots.clone(), s.gpus.clone()} }

// meets reports whether a slot is in both shares, or more of a GPU than the GPU has.
func (s share) meets(t share) bool { return s.slots.meets(t.slots) || s.gpus.exceeds(t.gpus) }

// inside reports whether t has every slot and GPU of s.
func (s share) inside(t share) bool {
	rest := s.slots.clone()
	rest.minus(t.slots)
	return rest.count() == 0 && s.gpus.inside(t.gpus)
}

// counted reports whether the amount is that of the numbers.
func (s share) counted() bool {
	return s.slots.count() == s.room.Slots && s.gpus.sum() == s.room.GPUs
}
