package stealer

import "time"

// Policy is how a Gather collects slots. The zero Policy is the product's.
type Policy struct {
	Kind Kind
	// PollMin and PollMax bound the doubling wait of ReleaseAll between two
	// tries; 0 are the defaults of 1 ms and 1 s.
	PollMin, PollMax time.Duration
}

// Kind is a kind of policy.
type Kind uint8

// The kinds.
const (
	// Accumulate keeps grants, widens the circle, then insists.
	Accumulate Kind = iota
	// ReleaseAll is the papers' policy (MATRIX 3.8): ask every neighbor for half of
	// the free room; if the sum is short, release everything and try again after a
	// doubling wait. ReleaseAll exists for comparison.
	ReleaseAll
)
