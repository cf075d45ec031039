package policy

import (
	"math"
	"slices"
	"time"
)

// Durations remembers how long the last successful tasks of a job, or runs of a name,
// took.
type Durations struct {
	last  []time.Duration // the oldest duration is replaced first
	next  int
	stale int // added since limit was computed
	limit time.Duration
	sum   time.Duration
	total int64 // all that were added
}

// DurationsMax bounds the remembered durations; durationsStale is how many additions to a
// full list may pass before Limit is computed again.
const (
	DurationsMax   = 64
	durationsStale = 8
)

// Add adds a duration.
func (t *Durations) Add(d time.Duration) {
	d = min(max(d, time.Microsecond), math.MaxInt64/DurationsMax)
	t.stale++
	t.total++
	t.sum += d
	if len(t.last) < DurationsMax {
		t.last = append(t.last, d)
		return
	}
	t.sum -= t.last[t.next]
	t.last[t.next] = d
	t.next = (t.next + 1) % DurationsMax
}

// Count is the number of remembered durations.
func (t *Durations) Count() int { return len(t.last) }

// Total is how many durations were added.
func (t *Durations) Total() int64 { return t.total }

// Mean is the mean of the remembered durations; 0 if none is remembered.
func (t *Durations) Mean() time.Duration {
	if len(t.last) == 0 {
		return 0
	}
	return t.sum / time.Duration(len(t.last))
}

// Spread is the mean, the standard deviation and the number of the remembered durations.
func (t *Durations) Spread() (mean, deviation time.Duration, n int) {
	mean, n = t.Mean(), len(t.last)
	squares := 0.0
	for _, d := range t.last {
		off := (d - mean).Seconds()
		squares += off * off
	}
	if n > 1 {
		deviation = time.Duration(math.Sqrt(squares/float64(n-1)) * float64(time.Second))
	}
	return mean, deviation, n
}

// Limit is the duration that nine of ten did not exceed, of fewer than ten the longest; 0
// if none is remembered.
func (t *Durations) Limit() time.Duration {
	if n := len(t.last); t.stale > 0 && (n < DurationsMax || t.stale >= durationsStale) {
		all := slices.Sorted(slices.Values(t.last))
		t.limit, t.stale = all[n-1-n/10], 0
	}
	return t.limit
}
