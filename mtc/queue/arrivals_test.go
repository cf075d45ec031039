package queue

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch/mtc/record"
)

// TestArrivalsAreBounded: a node remembers the last arrivals, and lists those of a task in
// order.
func TestArrivalsAreBounded(t *testing.T) {
	var a Arrivals
	a.Add(1, 0, 1000, "", 1)
	a.Add(1, 10, 20, "n2", 2)
	if list := a.Of(1, 15); len(list) != 2 || list[0].From != "" || list[1].From != "n2" || list[1].At != 2 {
		t.Errorf("of task 15: %v", list)
	}
	if list := a.Of(1, 20); len(list) != 1 {
		t.Errorf("of task 20: %v", list)
	}
	for i := range int32(arrivalsMax - 1) {
		a.Add(2, i, i+1, "", time.Duration(i))
	}
	a.Add(1, 15, 16, "n3", 9)
	if list := a.Of(1, 15); len(list) != 1 || list[0].From != "n3" || len(a.ring) != arrivalsMax {
		t.Errorf("of task 15 after %d more: %v", arrivalsMax, list)
	}
}

// TestStages: the wait in the queue counts from the stamp, beyond the 32 bits of a stamp too;
// without a stamp and files there are no stages.
func TestStages(t *testing.T) {
	if s := StagesOf(0, time.Hour, 0, 0); s != nil {
		t.Errorf("stages without a stamp: %v", s)
	}
	for _, at := range []time.Duration{0, time.Hour, (1<<32 - 3) * time.Millisecond, 1 << 32 * time.Millisecond} {
		s := StagesOf(Stamp(at), at+5*time.Millisecond, 2, 3)
		if s == nil || s.Queued < 4*time.Millisecond || s.Queued > 5*time.Millisecond || s.In != 2 || s.Out != 3 {
			t.Errorf("stages of a task queued at %v: %v", at, s)
		}
	}
	if s := StagesOf(Stamp(time.Second), time.Second, 0, 0); *s != (record.Stages{Queued: time.Millisecond}) {
		t.Errorf("a task without a wait: %v", s)
	}
}
