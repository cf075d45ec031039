package stealer

import "time"

// Policy is how a Gather goes about it. The zero Policy is the product's.
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
	// Accumulate keeps what was lent, widens the circle, then insists.
	Accumulate Kind = iota
	// ReleaseAll is the papers' policy (MATRIX 3.8): half of what is free from
	// every neighbor; where the sum is short all of it is released and the try
	// repeated after a doubling wait. It is here to be compared with.
	ReleaseAll
)
