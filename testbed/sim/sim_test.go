package sim

import (
	"slices"
	"testing"
	"time"
)

func TestQueueKeepsTheTotalOrder(t *testing.T) {
	var q queue
	d := newDice(1, 1)
	for range 1000 {
		q.push(event{at: time.Duration(d.n(50))})
	}
	var last event
	for popped := 0; len(q.heap) > 0; popped++ {
		e := q.pop()
		if popped > 0 && !before(&last, &e) {
			t.Fatalf("event %d of %v came after event %d of %v", e.seq, e.at, last.seq, last.at)
		}
		last = e
		if popped%3 == 0 && popped < 3000 {
			q.push(event{at: e.at + time.Duration(d.n(50))})
		}
	}
	if got, want := int(q.seq), 1500; got != want {
		t.Errorf("%d events were made, want %d", got, want)
	}
}

func TestOracleIsFirstComeFirstServed(t *testing.T) {
	s := time.Second
	jobs := []demand{{0, 6, 10 * s}, {1, 8, 5 * s}, {2, 2, 3 * s}, {3, 4, 20 * s}}
	tests := []struct {
		name string
		easy bool
		want []time.Duration
	}{
		{"fifo", false, []time.Duration{0, 10 * s, 10 * s, 15 * s}},
		{"easy", true, []time.Duration{0, 10 * s, 2, 15 * s}},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			if got := oracle(10, jobs, x.easy); !slices.Equal(got, x.want) {
				t.Errorf("starts at %v, want %v", got, x.want)
			}
		})
	}
}

func TestNetworkCutsAndClogs(t *testing.T) {
	w := newNetwork(3, quiet(), newDice(1, 1))
	w.cut(0, 1, 1)
	if _, n := w.arrivals(0, 0, 1); n != 0 {
		t.Errorf("%d messages passed a cut, want 0", n)
	}
	if _, n := w.arrivals(0, 1, 0); n != 1 {
		t.Errorf("%d messages passed the other way, want 1", n)
	}
	w.cut(0, 1, -1)
	w.clog(0, 1, time.Second)
	at, n := w.arrivals(0, 0, 1)
	if n != 1 || at[0] < time.Second || at[0] > time.Second+80*time.Microsecond {
		t.Errorf("%d messages at %v, want one just after the clog of 1 s", n, at[0])
	}
}

func TestDiceAreTheSameEverywhere(t *testing.T) {
	d := newDice(42, 7)
	got := []uint64{d.next(), d.next(), d.next()}
	e := newDice(42, 7)
	if want := []uint64{e.next(), e.next(), e.next()}; !slices.Equal(got, want) {
		t.Errorf("dice of one seed gave %v and %v", got, want)
	}
	if newDice(42, 8).next() == got[0] {
		t.Error("another stream of a seed gave the same first number")
	}
}
