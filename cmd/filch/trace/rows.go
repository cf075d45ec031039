package trace

import (
	"maps"
	"slices"

	"github.com/filch-hpc/filch"
)

// rows are the rows of a node: a row for each slot, and further rows for spans without a known
// slot. Each row keeps its last span, which the next span of the row may cut.
type rows struct {
	slots  map[int32]*span // by lane
	others []span
	before span // what put returns
}

const (
	// laneOthers is the lane of the first row of spans without a known slot.
	laneOthers = filch.MaxSlot + 1
	// maxLanes bounds the rows of either kind. Further spans are on the last row of the others,
	// and lie on each other.
	maxLanes = 4096
	// lateMost bounds the time that a launcher may learn late of an end. A runner begins the next
	// task of a slot by itself, so that the next task may begin before the end was learnt.
	lateMost = int64(1e8) // ns
)

// lane returns the row for a span, and whether the row is new. A span that begins long before
// the end of the one before in its slot is not in the row of the slot.
func (r *rows) lane(s *span) (lane int32, fresh bool) {
	if s.Slot != anySlot {
		last := r.slots[s.Slot]
		switch {
		case last == nil && len(r.slots) < maxLanes:
			return s.Slot, true
		case last != nil && last.End-s.Begin <= lateMost:
			return s.Slot, false
		}
	}
	for i := range r.others {
		if r.others[i].End <= s.Begin {
			return laneOthers + int32(i), false
		}
	}
	n := int32(len(r.others))
	if n == maxLanes {
		return laneOthers + n - 1, false
	}
	return laneOthers + n, true
}

// put makes a span the last of a row, and returns the span before, which ends at the begin of s
// at the latest; nil if there is none. The next call changes the result.
func (r *rows) put(lane int32, s *span) *span {
	last := r.slots[lane]
	switch i := int(lane - laneOthers); {
	case last != nil:
	case lane < laneOthers:
		if r.slots == nil {
			r.slots = map[int32]*span{}
		}
		r.slots[lane] = new(*s)
		return nil
	case i == len(r.others):
		r.others = append(r.others, *s)
		return nil
	default:
		last = &r.others[i]
	}
	r.before, *last = *last, *s
	r.before.End = max(r.before.Begin, min(r.before.End, s.Begin))
	return &r.before
}

// busy is the number of tasks or ranks that run at a time, which is not before the begin of
// the last span.
func (r *rows) busy(at int64) (n int64) {
	count := func(s *span) {
		if s.End > at && !s.Further {
			n++
		}
	}
	for _, s := range r.slots { // in any order: a sum
		count(s)
	}
	for i := range r.others {
		count(&r.others[i])
	}
	return n
}

// each hands out the last span of each row.
func (r *rows) each(take func(lane int32, s *span)) {
	for _, lane := range slices.Sorted(maps.Keys(r.slots)) {
		take(lane, r.slots[lane])
	}
	for i := range r.others {
		take(laneOthers+int32(i), &r.others[i])
	}
}
