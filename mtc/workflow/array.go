package workflow

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// Limits on arrays.
const (
	RangesMax = 1000                 // of an array
	IndexMax  = int64(1)<<31 - 1     // an index fits an int32
	BagMax    = int64(1_000_000_000) // tasks of a bag
)

// Range is the indices First, First+Step ... up to Last.
type Range struct{ First, Last, Step int64 }

func (r Range) count() int64 { return (r.Last-r.First)/r.Step + 1 }

// Array is the indices of an array job, in the order of the text, and the bound of tasks
// that may run at once.
type Array struct {
	Ranges []Range
	Cap    int32 // 0: no cap
}

// ParseArray reads the syntax of sbatch's --array: 1-1000000:2%50, or 1,3,5-7.
func ParseArray(s string) (Array, error) {
	var a Array
	bad := func(why string, args ...any) (Array, error) {
		return Array{}, filch.Errorf(filch.Invalid, "the array %s makes no sense: "+why, append([]any{quote(s)}, args...)...).
			WithHint("for example 1-100, 0-15:4, 1,3,5-7, or 1-1000000%%50 for at most 50 at once")
	}
	list, limit, capped := strings.Cut(s, "%")
	if capped {
		n, ok := index(limit)
		if !ok || n < 1 {
			return bad("%s is not a number of tasks to run at once", quote(limit))
		}
		a.Cap = int32(n)
	}
	total := int64(0)
	for part := range strings.SplitSeq(list, ",") {
		if len(a.Ranges) == RangesMax {
			return bad("more than %d ranges", RangesMax)
		}
		r, ok := parseRange(part)
		if far := tooFar(part); !ok && far != "" {
			return bad("the index %s is above %d", far, IndexMax)
		}
		if !ok {
			return bad("%s is no range of indices from 0 to %d", quote(part), IndexMax)
		}
		for _, o := range a.Ranges {
			if i, both := r.meets(o); both {
				return bad("the index %d is there twice", i)
			}
		}
		a.Ranges = append(a.Ranges, r)
		if total += r.count(); total > BagMax {
			return bad("more than %d tasks", BagMax)
		}
	}
	return a, nil
}

// tooFar is the first number of a range that is larger than an index may be; "" for none.
func tooFar(s string) string {
	for n := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '-' || r == ':' }) {
		if digits := strings.Trim(n, "0123456789") == ""; digits {
			if _, ok := index(n); !ok {
				return n
			}
		}
	}
	return ""
}

func parseRange(s string) (Range, bool) {
	span, step, stepped := strings.Cut(s, ":")
	first, last, isSpan := strings.Cut(span, "-")
	r := Range{Step: 1}
	var ok1, ok2, ok3 bool
	r.First, ok1 = index(first)
	r.Last, ok2 = r.First, true
	if isSpan {
		r.Last, ok2 = index(last)
	}
	ok3 = true
	if stepped {
		r.Step, ok3 = index(step)
	}
	if !ok1 || !ok2 || !ok3 || r.Step < 1 || r.Last < r.First || stepped && !isSpan {
		return Range{}, false
	}
	r.Last -= (r.Last - r.First) % r.Step
	return r, true
}

func index(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n >= 0 && n <= IndexMax && s[0] != '+'
}

// meets finds the least common index of both ranges: two arithmetic progressions meet
// there, by the extended Euclidean algorithm.
func (r Range) meets(o Range) (int64, bool) {
	from, to := max(r.First, o.First), min(r.Last, o.Last)
	if from > to {
		return 0, false
	}
	g, p, _ := euclid(r.Step, o.Step)
	if (o.First-r.First)%g != 0 {
		return 0, false
	}
	// r.First + r.Step*k = o.First (mod o.Step); all below 2^31, so that
	// products fit.
	m := o.Step / g
	k := ((o.First-r.First)/g%m*(p%m)%m + m) % m
	period := r.Step * m
	i := r.First + r.Step*k
	if i < from {
		i += (from - i + period - 1) / period * period
	}
	return i, i <= to
}

// euclid is the greatest common divisor g of a and b, with x*a + y*b = g.
func euclid(a, b int64) (g, x, y int64) {
	if b == 0 {
		return a, 1, 0
	}
	g, x, y = euclid(b, a%b)
	return g, y, x - a/b*y
}

// Len is the number of indices.
func (a Array) Len() int64 {
	n := int64(0)
	for _, r := range a.Ranges {
		n += r.count()
	}
	return n
}

// At is the index of task i, counted from 0.
func (a Array) At(i int64) (int64, bool) {
	for _, r := range a.Ranges {
		if n := r.count(); i < n {
			return r.First + i*r.Step, i >= 0
		} else {
			i -= n
		}
	}
	return 0, false
}

// check is for arrays that [ParseArray] did not make.
func (a Array) check() error {
	total := int64(0)
	for _, r := range a.Ranges {
		if r.Step < 1 || r.First < 0 || r.Last < r.First || r.Last > IndexMax {
			return filch.Errorf(filch.Invalid, "the range %d-%d:%d makes no sense", r.First, r.Last, r.Step)
		}
		if total += r.count(); total > BagMax {
			break
		}
	}
	if len(a.Ranges) > RangesMax || total > BagMax || a.Cap < 0 || slices.Contains(a.Ranges, Range{}) {
		return filch.Errorf(filch.Invalid, "an array of %d ranges and %d tasks, at most %d at once, makes no sense", len(a.Ranges), total, a.Cap)
	}
	return nil
}

// Span is the size of an array, its bounds, and the distance of its indices, which is 1 for a
// list of ranges.
func (a Array) Span() (count, low, high, step int64) {
	low, step = math.MaxInt64, 1
	for _, r := range a.Ranges {
		low, high = min(low, r.First), max(high, r.Last-(r.Last-r.First)%r.Step)
	}
	if len(a.Ranges) == 1 {
		step = a.Ranges[0].Step
	}
	return a.Len(), low, high, step
}
