package record

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestLengthsAreExactToAThousandth(t *testing.T) {
	last := uint16(0)
	for d := time.Microsecond; d < 20*365*24*time.Hour; d += d/7 + 1 {
		code := lengthCode(d)
		if code < last {
			t.Errorf("%v has code %d, a shorter length %d", d, code, last)
		}
		last = code
		got, want := lengthOf(code), d.Truncate(time.Microsecond)
		if off := float64(want-got) / float64(want); off < 0 || off > 0.001 {
			t.Errorf("%v is read back as %v, off by %.5f", want, got, off)
		}
	}
	for code := range lengthCodes {
		if d := lengthOf(uint16(code)); d < 0 || code > 0 && d == 0 {
			t.Errorf("code %d of a foreign record is %v", code, d)
		}
	}
	if lengthCode(0) != 0 || lengthCode(1) != 1 || lengthCode(-1) != 0 || lengthOf(lengthCode(math.MaxInt64)) <= 0 {
		t.Error("a length at a bound is wrong")
	}
}

func TestLongestFirst(t *testing.T) {
	const sec = time.Second
	l := NewLengths([]time.Duration{2 * sec, 0, 5 * sec, 2 * sec, sec, 9 * sec})
	// Task 1 states none and counts as the mean, 3.8 s. Task 6 was added later.
	if got, want := l.LongestFirst(7), []int32{5, 2, 1, 0, 3, 4, 6}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := l.LongestFirst(2); !slices.Equal(got, []int32{1, 0}) {
		t.Errorf("of two tasks: %v", got)
	}
	if NewLengths(make([]time.Duration, 9)) != nil {
		t.Error("lengths of tasks that state none")
	}
	all := make([]time.Duration, LongChunk)
	for i := range all {
		all[i] = time.Duration(i+1) * time.Millisecond
	}
	l = NewLengths(all)
	if len(l) != 2 || CheckLong(l) != nil {
		t.Fatalf("%d chunks: %v", len(l), CheckLong(l))
	}
	if got := l.LongestFirst(LongChunk); got[0] < LongChunk-100 || got[LongChunk-1] != 0 {
		t.Errorf("first %d, last %d", got[0], got[LongChunk-1])
	}
	l[1] = nil
	if got := l.LongestFirst(LongChunk); got[0] >= LongChunk/2 || l.At(LongChunk-1) != 0 {
		t.Errorf("first %d, where the lengths of the longest are gone", got[0])
	}
}

// BenchmarkLongestFirst orders a million tasks.
func BenchmarkLongestFirst(b *testing.B) {
	all := make([]time.Duration, 1_000_000)
	for i := range all {
		all[i] = time.Duration(i*7919%1_000_003) * time.Millisecond
	}
	l := NewLengths(all)
	b.ReportAllocs()
	for b.Loop() {
		l.LongestFirst(int32(len(all)))
	}
}
