package policy

import (
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
}

// DurationsMax bounds the remembered durations; durationsStale is how many additions to a
// full list may pass before Limit is computed again.
const (
	DurationsMax   = 64
	durationsStale = 8
)

// Add adds a duration.
func (t *Durations) Add(d time.Duration) {
	d = max(d, time.Microsecond)
	t.stale++
	if len(t.last) < DurationsMax {
		t.last = append(t.last, d)
		return
	}
	t.last[t.next] = d
	t.next = (t.next + 1) % DurationsMax
}

// Count is the number of remembered durations.
func (t *Durations) Count() int { return len(t.last) }

// Limit is the duration that nine of ten did not exceed, of fewer than ten the longest; 0
// if none is remembered.
func (t *Durations) Limit() time.Duration {
	if n := len(t.last); t.stale > 0 && (n < DurationsMax || t.stale >= durationsStale) {
		all := slices.Sorted(slices.Values(t.last))
		t.limit, t.stale = all[n-1-n/10], 0
	}
	return t.limit
}

// Estimates keeps the durations of several names.
type Estimates struct {
	byName map[string]*Durations
	names  []string // oldest name first
}

// estimatesMax bounds the names.
const estimatesMax = 1024

// Add adds a duration for a name; "" is none.
func (h *Estimates) Add(name string, d time.Duration) {
	if name == "" {
		return
	}
	t := h.byName[name]
	if t == nil {
		if h.byName == nil {
			h.byName = make(map[string]*Durations)
		}
		if len(h.names) == estimatesMax {
			delete(h.byName, h.names[0])
			h.names = h.names[1:]
		}
		t = &Durations{}
		h.byName[name] = t
		h.names = append(h.names, name)
	}
	t.Add(d)
}

// Limit is [Durations.Limit] of a name.
func (h *Estimates) Limit(name string) time.Duration {
	if t := h.byName[name]; t != nil {
		return t.Limit()
	}
	return 0
}
