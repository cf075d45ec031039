package policy

import (
	"slices"
	"testing"

	"github.com/filch-hpc/filch"
)

// A range that comes back to a node that still has it from before is there once,
// under the higher hop, whichever came first.
func TestRangeComesBack(t *testing.T) {
	before, back := Range{Next: 10, Hi: 100, Front: 40, Hop: 1}, Range{Next: 40, Hi: 80, Front: 60, Hop: 3}
	want := Ranges{{Next: 10, Hi: 40, Front: 40, Hop: 1}, back, {Next: 80, Hi: 100, Front: 80, Hop: 1}}
	for _, order := range [][]Range{{before, back}, {back, before}} {
		var q Ranges
		for _, s := range order {
			q.Add(s)
			q.Check()
		}
		if !slices.Equal(q, want) {
			t.Errorf("%+v then %+v: got %+v, want %+v", order[0], order[1], q, want)
		}
	}
}

// Whatever is cut off, every index is in one place.
func TestRangesLoseNothing(t *testing.T) {
	for seed := range uint64(200) {
		r := filch.Rand(seed + 1)
		var q Ranges
		seen := make([]int, 1000)
		for lo := int32(0); lo < 1000; {
			n := 1 + int32(r.IntN(200))
			hi := min(lo+n, 1000)
			q.Add(Range{Next: lo, Hi: hi, Front: lo, Hop: uint32(r.IntN(3))})
			lo = hi
		}
		note := func(cut []Range) {
			for _, s := range cut {
				for i := s.Next; i < s.Hi; i++ {
					seen[i]++
				}
			}
		}
		for len(q) > 0 {
			left, want, most := q.Left(), int64(1+r.IntN(300)), 1+r.IntN(3)
			var cut []Range
			switch r.IntN(3) {
			case 0:
				cut = q.Halve(want, most)
			case 1:
				cut = q.Take(want, most)
			default:
				i := q.Pop()
				cut = []Range{{Next: i, Hi: i + 1}}
				want, most = 1, 1
			}
			note(cut)
			q.Check()
			if took := Ranges(cut).Left(); took == 0 || took > want || len(cut) > most || q.Left() != left-took {
				t.Fatalf("seed %d: %d tasks in %d parts of %d, want at most %d in %d; %d are left", seed, took, len(cut), left, want, most, q.Left())
			}
		}
		if i := slices.IndexFunc(seen, func(n int) bool { return n != 1 }); i >= 0 {
			t.Fatalf("seed %d: index %d was taken %d times", seed, i, seen[i])
		}
	}
}
