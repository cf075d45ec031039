package filch

import (
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Slots are the numbers of slots of one node, in ascending order. The zero Slots has none. A task
// with neighboring slots has one run, which needs no memory beside the Slots.
type Slots struct {
	First, Count int32     // the first run
	More         []SlotRun // at most MaxSlotRuns - 1
}

// SlotRun is Count slots with consecutive numbers.
type SlotRun struct{ First, Count int32 }

// MaxSlotRuns bounds the runs of a Slots; slots after these are left out.
const MaxSlotRuns = 12

// MaxSlot bounds the numbers of slots.
const MaxSlot = 1 << 20

// SlotsOf are the slots of a list, in any order and each once.
func SlotsOf(list []int32) (s Slots) {
	if !slices.IsSorted(list) {
		list = slices.Sorted(slices.Values(list))
	}
	for _, n := range list {
		first, count := &s.First, &s.Count // of the last run
		if k := len(s.More); k > 0 {
			first, count = &s.More[k-1].First, &s.More[k-1].Count
		}
		switch {
		case *count == 0:
			*first, *count = n, 1
		case n == *first+*count:
			*count++
		case len(s.More) == MaxSlotRuns-1:
			return s
		default:
			s.More = append(s.More, SlotRun{n, 1})
		}
	}
	return s
}

// Runs are the runs, in ascending order.
func (s *Slots) Runs() iter.Seq[SlotRun] {
	return func(yield func(SlotRun) bool) {
		if s.Count == 0 || !yield(SlotRun{s.First, s.Count}) {
			return
		}
		for _, r := range s.More {
			if !yield(r) {
				return
			}
		}
	}
}

// Len is how many slots there are.
func (s *Slots) Len() (n int32) {
	for r := range s.Runs() {
		n += r.Count
	}
	return n
}

// String lists the slots, as in "0-3,8"; "" without slots. See [ParseSlots].
func (s Slots) String() string {
	var b []byte
	for r := range s.Runs() {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(r.First), 10)
		if r.Count > 1 {
			b = strconv.AppendInt(append(b, '-'), int64(r.First+r.Count-1), 10)
		}
	}
	return string(b)
}

// ParseSlots reads the text of [Slots.String]. A text with other content, with numbers out of
// order or with more than MaxSlotRuns runs is not ok.
func ParseSlots(text string) (s Slots, ok bool) {
	if text == "" {
		return s, true
	}
	next := int32(0) // the least number of the next run
	for part := range strings.SplitSeq(text, ",") {
		from, to, many := strings.Cut(part, "-")
		first, err := strconv.ParseInt(from, 10, 32)
		last := first
		if err == nil && many {
			last, err = strconv.ParseInt(to, 10, 32)
		}
		if err != nil || first < int64(next) || last < first || last > MaxSlot || len(s.More) == MaxSlotRuns-1 {
			return Slots{}, false
		}
		r := SlotRun{int32(first), int32(last - first + 1)}
		if s.Count == 0 {
			s.First, s.Count = r.First, r.Count
		} else {
			s.More = append(s.More, r)
		}
		next = int32(last) + 2
	}
	return s, true
}

// MarshalText writes the text of [Slots.String].
func (s Slots) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Slots) UnmarshalText(text []byte) error {
	got, ok := ParseSlots(string(text))
	if !ok {
		return Errorf(Invalid, "%q are no slots", text[:min(len(text), 40)])
	}
	*s = got
	return nil
}

// IsZero reports whether there are no slots.
func (s Slots) IsZero() bool { return s.Count == 0 }
