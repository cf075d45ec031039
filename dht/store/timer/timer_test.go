package timer

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

// TestOrder puts calls at random times: calls come by time, and calls of one time in the
// order of Put.
func TestOrder(t *testing.T) {
	type due struct {
		at time.Duration
		n  int
	}
	var q Queue
	var want, got []due
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 1000 {
		x := due{time.Duration(r.IntN(100)), n}
		want = append(want, x)
		q.Put(x.at, func() { got = append(got, x) })
	}
	slices.SortStableFunc(want, func(a, b due) int { return int(a.at - b.at) })
	for _, x := range want {
		if q.Next() != x.at {
			t.Fatalf("next call at %v, want %v", q.Next(), x.at)
		}
		q.Pop()()
	}
	if !slices.Equal(got, want) {
		t.Errorf("calls %v, want %v", got, want)
	}
	if q.Next() != filch.Never {
		t.Errorf("an empty queue has a call at %v", q.Next())
	}
}
