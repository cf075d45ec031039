package slots

import "github.com/filch-hpc/filch"

// share is an amount of a node's resources, with the numbers of its slots and GPUs.
type share struct {
	room  filch.Room
	slots set
	gpus  set
}

// lend moves room to t: the lowest slots and GPUs of s.
func (s *share) lend(room filch.Room, t *share) {
	s.room, t.room = s.room.Minus(room), t.room.Plus(room)
	t.slots = s.slots.low(t.slots, room.Slots)
	if room.GPUs > 0 { // few tasks need a GPU, and a set costs an allocation
		t.gpus = s.gpus.low(t.gpus, room.GPUs)
	}
}

// giveBack moves room to t: the highest slots and GPUs of s. The sets of t are large
// enough.
func (s *share) giveBack(room filch.Room, t *share) {
	s.room, t.room = s.room.Minus(room), t.room.Plus(room)
	s.slots.high(t.slots, room.Slots)
	s.gpus.high(t.gpus, room.GPUs)
}

func (s *share) plus(t share) {
	s.room = s.room.Plus(t.room)
	s.slots = s.slots.grown(len(t.slots))
	s.slots.plus(t.slots)
	if len(t.gpus) > 0 {
		s.gpus = s.gpus.grown(len(t.gpus))
		s.gpus.plus(t.gpus)
	}
}

func (s *share) minus(t share) {
	s.room = s.room.Minus(t.room)
	s.slots.minus(t.slots)
	s.gpus.minus(t.gpus)
}

func (s share) clone() share { return share{s.room, s.slots.clone(), s.gpus.clone()} }

// meets reports whether a slot or GPU is in both shares.
func (s share) meets(t share) bool { return s.slots.meets(t.slots) || s.gpus.meets(t.gpus) }

// inside reports whether t has every slot and GPU of s.
func (s share) inside(t share) bool {
	rest := s.clone()
	rest.minus(t)
	return rest.slots.count()+rest.gpus.count() == 0
}

// counted reports whether the amount is that of the numbers.
func (s share) counted() bool {
	return s.slots.count() == s.room.Slots && s.gpus.count() == s.room.GPUs
}
