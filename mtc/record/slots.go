package record

import "github.com/filch-hpc/filch"

// stateSlots is a bit beside the state of an end: the slots follow. Nearly all ends have slots,
// and one of the flags of a task would cost each of these ends a byte.
const stateSlots = 1 << 6

// endState is the state of an end, and whether slots follow.
func (c *Codec) endState(s *filch.State, slotted bool) bool {
	v := uint64(*s)
	if slotted {
		v |= stateSlots
	}
	v = c.UpTo(v, stateSlots|uint64(filch.Cancelled))
	*s = filch.State(v &^ stateSlots)
	c.Require(*s <= filch.Cancelled)
	return v&stateSlots != 0
}

// slots are at least one slot. The number of one slot below 64 takes a byte; else the lowest bit
// of the first number is set, and the lengths of the runs and of the gaps between them follow.
func slots(c *Codec, s *filch.Slots) {
	head := uint64(s.First) << 1
	if s.Count != 1 || len(s.More) > 0 {
		head |= 1
	}
	head = c.UpTo(head, filch.MaxSlot<<1|1)
	s.First = int32(head >> 1)
	if head&1 == 0 {
		s.Count = 1
		return
	}
	next := s.First
	count := func(n *int32, c *Codec) {
		*n = int32(c.UpTo(uint64(*n), filch.MaxSlot))
		next += *n
		c.Require(*n > 0 && next <= filch.MaxSlot+1)
	}
	count(&s.Count, c)
	List(c, &s.More, filch.MaxSlotRuns-1, 2, func(r *filch.SlotRun, c *Codec) {
		gap := c.UpTo(uint64(r.First-next), filch.MaxSlot)
		c.Require(gap > 0)
		next += int32(gap)
		r.First = next
		count(&r.Count, c)
	})
	if len(s.More) == 0 {
		s.More = nil
		c.Require(s.Count > 1)
	}
}
