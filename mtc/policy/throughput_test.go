package policy

import (
	"testing"
	"time"
)

// TestIdleTimeIsNoSlowWork: FLDS estimates how long the dedicated tasks take (MATRIX v2,
// III.B.3) by the rate at which tasks ended while the node had tasks. 1,000 tasks end in
// 10 s, an idle hour follows, and 100 tasks come: at 100 tasks a second none moves.
func TestIdleTimeIsNoSlowWork(t *testing.T) {
	var ends Throughput
	ends.Begin(time.Minute)
	for range 1000 {
		ends.Ended(10 * time.Millisecond)
	}
	ends.Rest(time.Minute + 10*time.Second)
	now := time.Minute + 10*time.Second + time.Hour
	ends.Begin(now)
	if rate := ends.Rate(now); rate < 99 || rate > 101 {
		t.Errorf("%.3f tasks a second after an idle hour, want 100", rate)
	}
	if n := excess(100, ends.Rate(now), LocalTime); n != 0 {
		t.Errorf("FLDS moves %d of 100 tasks that take a second", n)
	}
	ends.Begin(now + 5*time.Second) // another task beside
	if rate := ends.Rate(now + 10*time.Second); rate < 49 || rate > 51 {
		t.Errorf("%.3f tasks a second after 10 s without an end, want 50", rate)
	}
}

// TestMeanOfEndedTasks: a task is taken to be as long as the tasks that ended here took in the mean
// (MATRIX v2, III.B.2b); before the first end, as long as the policy guesses, else a second.
func TestMeanOfEndedTasks(t *testing.T) {
	var ends Throughput
	if got := ends.Mean(0); got != time.Second {
		t.Errorf("without an end and a guess a task takes %v, want 1s", got)
	}
	if got := ends.Mean(time.Minute); got != time.Minute {
		t.Errorf("without an end a task takes %v, want the guess of 1m0s", got)
	}
	for _, took := range []time.Duration{2 * time.Second, 3 * time.Second, 7 * time.Second} {
		ends.Ended(took)
	}
	if got := ends.Mean(time.Minute); got != 4*time.Second {
		t.Errorf("after tasks of 2, 3 and 7 s a task takes %v, want 4s", got)
	}
}
