package policy

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch/mtc/record"
)

// Range is a part of a bag in the queue of a node: the node owns the range, and no node
// has started its tasks.
type Range struct {
	Next, Hi int32
	Front    int32 // committed: indices below may be started without a commit
	Ask      int32 // where the higher front under proposal begins
	Asking   bool
	Hop      uint32
}

// Left is the number of tasks.
func (s *Range) Left() int64 { return int64(s.Hi - s.Next) }

// without returns the parts of the range below and above lo..hi; a part may be empty. The
// part above asks for no front of its own, and the answer to a front under way may be a
// refusal for the range between.
func (s Range) without(lo, hi int32) (below, above Range) {
	below, above = s, s
	below.Hi, below.Front = min(s.Hi, lo), min(s.Front, lo)
	above.Next, above.Front, above.Asking = max(s.Next, hi), max(s.Front, hi), false
	return below, above
}

// Lacks returns the bounds of the next front to commit: w indices ahead, and less than
// one zone of so many indices. ok is false if the front suffices, or an answer is awaited.
func (s *Range) Lacks(w, zone int32) (lo, front, end int32, ok bool) {
	if s.Asking || s.Front >= s.Hi || s.Front-s.Next > w/2 {
		return 0, 0, 0, false
	}
	lo = max(s.Front, s.Next)
	end = min(s.Hi, (lo/zone+1)*zone)
	return lo, min(lo+w, end), end, true
}

// Bounds of the window of a range whose tasks may start without a commit. Tasks in the
// window without a recorded end may have been started when their node dies.
const (
	windowMin  = 64
	WindowMax  = 8192
	windowTime = 50 * time.Millisecond // of work
)

// Window is how far ahead of the next index to start the front is committed, on so many slots
// for tasks of a mean length.
func Window(slots int32, mean time.Duration) int32 {
	mean = max(mean, time.Microsecond) // built-in tasks take no time at all
	w := float64(slots) * (2 + float64(windowTime)/float64(mean))
	return int32(min(max(w, windowMin), WindowMax))
}

// Ranges are the ranges of a bag on a node, by first index, without overlaps.
type Ranges []Range

// Left is the number of tasks in all ranges.
func (q Ranges) Left() (n int64) {
	for i := range q {
		n += q[i].Left()
	}
	return n
}

// Add adds a range. If the list already has a part of the range, other nodes called this
// node gone, and the range went elsewhere and came back: of the overlap, the higher hop
// counts.
func (q *Ranges) Add(s Range) {
	for i, old := range *q {
		if s.Next >= old.Hi || old.Next >= s.Hi {
			continue
		}
		if old.Hop < s.Hop {
			*q = slices.Delete(*q, i, i+1)
			q.addParts(old, s.Next, s.Hi)
			q.Add(s)
		} else {
			q.addParts(s, old.Next, old.Hi)
		}
		return
	}
	i, _ := slices.BinarySearchFunc(*q, s.Next, func(a Range, n int32) int { return int(a.Next - n) })
	*q = slices.Insert(*q, i, s)
}

// addParts adds the parts of a range outside lo..hi.
func (q *Ranges) addParts(s Range, lo, hi int32) {
	below, above := s.without(lo, hi)
	if below.Next < below.Hi {
		q.Add(below)
	}
	if above.Next < above.Hi {
		q.Add(above)
	}
}

// Pop takes the next index of the first range.
func (q *Ranges) Pop() (index int32) {
	s := &(*q)[0]
	index = s.Next
	if s.Next++; s.Next == s.Hi {
		*q = slices.Delete(*q, 0, 1)
	}
	return index
}

// Halve takes about half off the end of each range, at most want in all, in most parts.
func (q *Ranges) Halve(want int64, most int) (cut []Range) {
	for i := len(*q) - 1; i >= 0 && want > 0 && len(cut) < most; i-- {
		if n := min(Half((*q)[i].Left()), want); n > 0 {
			cut = append(cut, q.cut(i, n))
			want -= n
		}
	}
	return cut
}

// Take takes ranges off the end, want tasks at most, in most parts.
func (q *Ranges) Take(want int64, most int) (cut []Range) {
	for len(*q) > 0 && want > 0 && len(cut) < most {
		i := len(*q) - 1
		n := min((*q)[i].Left(), want)
		cut = append(cut, q.cut(i, n))
		want -= n
	}
	if mutantPushedTwice {
		for _, s := range cut {
			q.Add(s)
		}
	}
	return cut
}

// cut takes n tasks off the end of the i-th range.
func (q *Ranges) cut(i int, n int64) Range {
	s := &(*q)[i]
	mid := s.Hi - int32(n)
	cut := Range{Next: mid, Hi: s.Hi, Front: mid, Hop: s.Hop}
	s.Hi = mid
	s.Front = min(s.Front, mid)
	if s.Left() == 0 {
		*q = slices.Delete(*q, i, i+1)
	}
	return cut
}

// Fronted takes in the answer about the front that begins at lo, for ranges of a hop: the
// committed front, or refused if the range belongs to another node now. Fronted returns
// the range that the node lost, if any.
func (q *Ranges) Fronted(lo, front int32, hop uint32, refused bool) (lost Range, ok bool) {
	for i := range *q {
		s := &(*q)[i]
		if s.Hop != hop || !s.Asking || s.Ask != lo {
			continue
		}
		s.Asking = false
		switch {
		case lo >= s.Hi: // given away meanwhile
		case refused:
			lost = *s
			*q = slices.Delete(*q, i, i+1)
			return lost, true
		default:
			s.Front = min(max(s.Front, front), s.Hi)
		}
		return lost, false
	}
	return lost, false
}

// Check panics where ranges are empty, overlap or are out of order.
func (q Ranges) Check() {
	last := int32(-1)
	for _, s := range q {
		if s.Next >= s.Hi || s.Next < last {
			panic(fmt.Sprintf("policy: a range from %d to %d after %d", s.Next, s.Hi, last))
		}
		last = s.Hi
	}
}

// Cut takes the tasks off the ranges that within lists for a range. The rest asks for no
// front of its own: the answer to a front under way may be a refusal for the part that is
// gone.
func (q *Ranges) Cut(within func(lo, hi int32) []record.Pick) (cut []Range) {
	var keep []Range
	for _, s := range *q {
		for _, p := range within(s.Next, s.Hi) {
			gone := s
			gone.Next, gone.Hi = p.From, p.From+p.Count
			cut = append(cut, gone)
			below, above := s.without(gone.Next, gone.Hi)
			if below.Asking, s = false, above; below.Next < below.Hi {
				keep = append(keep, below)
			}
		}
		if s.Next < s.Hi {
			keep = append(keep, s)
		}
	}
	*q = keep
	return cut
}
