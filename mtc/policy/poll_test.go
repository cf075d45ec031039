package policy

import (
	"testing"
	"time"
)

// TestThiefWidens is MATRIX v2, III.A: after three failures in a row a thief asks two more of its
// neighbors, and two more after each further three, until it has asked enough; a success makes the
// number sqrt(N) again.
func TestThiefWidens(t *testing.T) {
	const n = 99
	var p Poll
	p.Told(0)
	for failures, want := range []int{10, 10, 10, 12, 12, 12, 14, 14, 14, 16} {
		if got := p.Width(n); got != want {
			t.Errorf("after %d failures a thief of %d nodes asks %d, want %d", failures, n+1, got, want)
		}
		p.Asked(0, p.Width(n))
		p.Failed(Random, n, time.Second)
	}
	for range 30 {
		p.Asked(0, p.Width(n))
		p.Failed(Random, n, time.Second)
	}
	if got := p.Width(n); got != 10 {
		t.Errorf("a thief that has asked 2N nodes in vain asks %d at its next look, want 10", got)
	}
	p.Succeeded()
	if got := p.Width(n); got != 10 {
		t.Errorf("after a success the thief asks %d, want 10", got)
	}
	if got := p.Width(3); got != 2 {
		t.Errorf("a thief of 4 nodes asks %d, want 2", got)
	}
	if got := p.Width(1 << 20); got != neighborsMax {
		t.Errorf("a thief of a million nodes asks %d, want %d", got, neighborsMax)
	}
}

// TestBackOff: the wait after a failure doubles from 1 ms to the bound, and a success makes it
// short again (MATRIX v2, III.A).
func TestBackOff(t *testing.T) {
	var p Poll
	p.Told(0)
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 100, 100} {
		if got, _ := p.Failed(Random, 99, 100*time.Millisecond); got != want*time.Millisecond {
			t.Errorf("wait %v, want %v", got, want*time.Millisecond)
		}
	}
	p.Succeeded()
	if got, _ := p.Failed(Random, 99, 100*time.Millisecond); got != PollMin {
		t.Errorf("after a success the first wait is %v, want %v", got, PollMin)
	}
}
