package policy

import (
	"testing"
	"time"
)

// TestFactorOfANode: a node where tasks of one kind take ten times as long as elsewhere is
// slow for tasks of other kinds, too. A node whose kinds ended nowhere else is as fast as any.
func TestFactorOfANode(t *testing.T) {
	var e Estimates
	for range 40 {
		for _, n := range []string{"a", "b", "c", "d"} {
			e.Add("sort", "n1", time.Second)
			e.Add(n, "n3", time.Minute)
		}
		e.Add("sort", "n2", 10*time.Second)
	}
	if got := e.On("n2", time.Minute); got < 2*time.Minute || got > 10*time.Minute {
		t.Errorf("a task of a minute takes %v on the slow node", got)
	}
	if got := e.On("n1", time.Minute); got > time.Minute {
		t.Errorf("a task of a minute takes %v on a fast node", got)
	}
	if got := e.On("n3", time.Minute); got != time.Minute {
		t.Errorf("a task of a minute takes %v on a node that was compared with none", got)
	}
	if mean := e.Mean("sort"); mean < 2*time.Second || mean > 4*time.Second || e.Limit("sort") != 10*time.Second || e.Mean("none") != 0 {
		t.Errorf("mean %v and limit %v", mean, e.Limit("sort"))
	}
}

// TestBandwidth: 10 Gb/s before the first transfer, then a moving average of those that are
// long enough.
func TestBandwidth(t *testing.T) {
	var e Estimates
	if TransferTime(1.25e9, e.Bandwidth()) != time.Second {
		t.Errorf("with nothing measured the bandwidth is %g bytes per second", e.Bandwidth())
	}
	e.Moved(100, time.Second) // latency
	e.Moved(1e8, time.Second)
	if e.Bandwidth() != 1e8 {
		t.Errorf("after one transfer the bandwidth is %g bytes per second, want 1e8", e.Bandwidth())
	}
	for range 30 {
		e.Moved(2e8, time.Second)
	}
	if e.Bandwidth() < 1.9e8 || e.Bandwidth() > 2e8 {
		t.Errorf("after many transfers the bandwidth is %g bytes per second, want 2e8", e.Bandwidth())
	}
}
