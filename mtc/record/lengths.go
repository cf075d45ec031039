package record

import (
	"math/bits"
	"slices"
	"time"
)

// Lengths are the stated run times of the tasks of a bag: chunks of the job, as of a [Long] text,
// with two bytes a task. A chunk that cannot be read is nil: its tasks have no stated length.
type Lengths [][]byte

// LengthsMax bounds the tasks of a bag with lengths.
const LengthsMax = LongTotalMax / lengthSize

// A length is a number of microseconds as a mantissa of lengthDigits bits and an exponent: exact
// up to 2 ms, and to a thousandth above. Code 0 is not stated.
const (
	lengthSize   = 2 // bytes of a code
	lengthDigits = 10
	lengthCodes  = 1 << (8 * lengthSize)
	lengthShift  = 42 // greatest exponent: 285 years
)

func lengthCode(d time.Duration) uint16 {
	if d <= 0 {
		return 0
	}
	us := uint64(max(d.Microseconds(), 1))
	e := min(max(bits.Len64(us)-lengthDigits-1, 0), lengthShift)
	return uint16(e)<<lengthDigits + uint16(us>>e)
}

func lengthOf(code uint16) time.Duration {
	e := min(max(int(code>>lengthDigits)-1, 0), lengthShift)
	us := int64(code)&(1<<lengthDigits-1) | min(int64(code)>>lengthDigits, 1)<<lengthDigits
	return time.Duration(us<<e) * time.Microsecond
}

// NewLengths makes the chunks of the lengths of tasks; 0 is not stated, and counts as the mean of
// the others. Without a stated length there are no chunks.
func NewLengths(all []time.Duration) (l Lengths) {
	n, sum := 0, 0.0
	for _, d := range all {
		if d > 0 {
			n, sum = n+1, sum+float64(d)
		}
	}
	if n == 0 {
		return nil
	}
	mean := time.Duration(sum / float64(n))
	for part := range slices.Chunk(all, LongChunk/lengthSize) {
		c := make([]byte, 0, lengthSize*len(part))
		for _, d := range part {
			if d <= 0 {
				d = mean
			}
			code := lengthCode(d)
			c = append(c, byte(code>>8), byte(code))
		}
		l = append(l, c)
	}
	return l
}

func (l Lengths) code(i int32) uint16 {
	const most = LongChunk / lengthSize
	if c, at := int(i/most), lengthSize*int(i%most); c < len(l) && at+1 < len(l[c]) {
		return uint16(l[c][at])<<8 | uint16(l[c][at+1])
	}
	return 0
}

// At is the stated length of a task, to a thousandth; 0: none is stated.
func (l Lengths) At(i int32) time.Duration { return lengthOf(l.code(i)) }

// LongestFirst are the tasks below total, the longest first. Tasks of the same length are in the
// order of their numbers.
func (l Lengths) LongestFirst(total int32) []int32 {
	next := make([]int32, lengthCodes) // the place of the next task with a code
	for i := range total {
		next[l.code(i)]++
	}
	for code, at := lengthCodes-1, int32(0); code >= 0; code-- {
		at, next[code] = at+next[code], at
	}
	order := make([]int32, total)
	for i := range total {
		code := l.code(i)
		order[next[code]] = i
		next[code]++
	}
	return order
}
