package engine

import (
	"slices"
	"testing"
	"time"
)

func TestNetworkCutsAndClogs(t *testing.T) {
	w := NewNetwork(3, Quiet(), NewDice(1, 1))
	w.Cut(0, 1, 1)
	if _, n := w.Arrivals(0, 0, 1); n != 0 {
		t.Errorf("%d messages passed a cut, want 0", n)
	}
	if _, n := w.Arrivals(0, 1, 0); n != 1 {
		t.Errorf("%d messages passed the other way, want 1", n)
	}
	w.Cut(0, 1, -1)
	w.Clog(0, 1, time.Second)
	at, n := w.Arrivals(0, 0, 1)
	if n != 1 || at[0] < time.Second || at[0] > time.Second+80*time.Microsecond {
		t.Errorf("%d messages at %v, want one just after the clog of 1 s", n, at[0])
	}
}

func TestDiceAreTheSameEverywhere(t *testing.T) {
	d := NewDice(42, 7)
	got := []uint64{d.Next(), d.Next(), d.Next()}
	e := NewDice(42, 7)
	if want := []uint64{e.Next(), e.Next(), e.Next()}; !slices.Equal(got, want) {
		t.Errorf("dice of one seed gave %v and %v", got, want)
	}
	if NewDice(42, 8).Next() == got[0] {
		t.Error("another stream of a seed gave the same first number")
	}
}

// TestPausedInOrder hands a process that stands still what came meanwhile, in
// order, whether its pause is made longer or ends early.
func TestPausedInOrder(t *testing.T) {
	tests := []struct {
		name string
		then func(h *Host)
		ends time.Duration
	}{
		{"longer", func(h *Host) { h.Pause(2 * time.Second) }, 2 * time.Second},
		{"shorter does not count", func(h *Host) { h.Pause(time.Millisecond) }, time.Second},
		{"ends early", func(h *Host) { h.Resume() }, 100 * time.Millisecond},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			e := New(Options{Hosts: 1})
			var h Host
			e.Add(&h, "n1")
			h.Start(0, func() {})
			var got []int
			var at time.Duration
			take := func(i int) {
				h.Input(e.Now(), func() { got, at = append(got, i), e.Now() })
			}
			h.Pause(time.Second)
			take(0)
			take(1)
			e.Run(100 * time.Millisecond)
			x.then(&h)
			take(2)
			take(3)
			e.Run(5 * time.Second)
			if want := []int{0, 1, 2, 3}; !slices.Equal(got, want) || at != x.ends {
				t.Errorf("got %v, the last at %v; want %v at %v", got, at, want, x.ends)
			}
		})
	}
}
