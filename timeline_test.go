package filch_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

// TestTimelineOfCalls puts calls at random times: calls come by time, and calls of one time in the
// order of Push.
func TestTimelineOfCalls(t *testing.T) {
	type due struct {
		at time.Duration
		n  int
	}
	var q filch.Timeline[func()]
	var want, got []due
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 1000 {
		x := due{time.Duration(r.IntN(100)), n}
		want = append(want, x)
		q.Push(x.at, func() { got = append(got, x) })
	}
	slices.SortStableFunc(want, func(a, b due) int { return int(a.at - b.at) })
	for _, x := range want {
		if q.Next() != x.at {
			t.Fatalf("next call at %v, want %v", q.Next(), x.at)
		}
		_, call := q.Pop()
		call()
	}
	if !slices.Equal(got, want) {
		t.Errorf("calls %v, want %v", got, want)
	}
	if q.Next() != filch.Never {
		t.Errorf("an empty queue has a call at %v", q.Next())
	}
}

func TestTimelineKeepsTheTotalOrder(t *testing.T) {
	type made struct {
		at  time.Duration
		seq int
	}
	var q filch.Timeline[made]
	r := rand.New(rand.NewPCG(1, 1))
	seq := 0
	push := func(at time.Duration) { seq++; q.Push(at, made{at, seq}) }
	for range 1000 {
		push(time.Duration(r.IntN(50)))
	}
	var last made
	for popped := 0; q.Len() > 0; popped++ {
		next := q.Next()
		at, e := q.Pop()
		if at != e.at || at != next {
			t.Fatalf("event %d of %v came at %v after Next said %v", e.seq, e.at, at, next)
		}
		if popped > 0 && (e.at < last.at || e.at == last.at && e.seq < last.seq) {
			t.Fatalf("event %d of %v came after event %d of %v", e.seq, e.at, last.seq, last.at)
		}
		last = e
		if popped%3 == 0 && popped < 3000 {
			push(e.at + time.Duration(r.IntN(50)))
		}
	}
	if got, want := seq, 1500; got != want {
		t.Errorf("%d events were made, want %d", got, want)
	}
}
