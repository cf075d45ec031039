package policy

import (
	"slices"
	"testing"
	"time"
)

func TestTookLimit(t *testing.T) {
	secs := func(from, to int) (list []int) {
		for i := from; i <= to; i++ {
			list = append(list, i)
		}
		return list
	}
	for _, c := range []struct {
		name string
		took []int // seconds
		want int
	}{
		{"nothing", nil, 0},
		{"one", []int{7}, 7},
		{"few: the longest", []int{3, 9, 1}, 9},
		{"nine: the longest", secs(1, 9), 9},
		{"ten: without the longest", secs(1, 10), 9},
		{"sixty-four: without the six longest", secs(1, 64), 58},
		{"a straggler among many", append(secs(1, 20), 1000), 19},
		{"many: the last ones count", append(slices.Repeat([]int{100}, 64), slices.Repeat([]int{2}, 64)...), 2},
	} {
		var took Durations
		for _, s := range c.took {
			took.Add(time.Duration(s) * time.Second)
		}
		if got := took.Limit(); got != time.Duration(c.want)*time.Second {
			t.Errorf("%s: got %v, want %ds", c.name, got, c.want)
		}
	}
	var busy Durations // asked after each one, as by a node that starts many
	for range 100 {
		busy.Add(time.Second)
		busy.Limit()
	}
	for range 64 + durationsStale {
		busy.Add(time.Minute)
		busy.Limit()
	}
	if got := busy.Limit(); got != time.Minute {
		t.Errorf("after all of them changed: got %v, want 1m", got)
	}
	var instant Durations
	if instant.Add(0); instant.Limit() <= 0 {
		t.Error("what takes no time at all counts as unknown")
	}
}

func TestHabitsAreBounded(t *testing.T) {
	var h Estimates
	h.Add("", "", time.Second)
	for i := range estimatesMax + 1 {
		h.Add(string(rune('a'+i)), "", time.Second)
	}
	if n := len(h.kinds); n != estimatesMax || len(h.names) != n {
		t.Errorf("%d names are remembered, want %d", n, estimatesMax)
	}
	if h.Limit("a") != 0 || h.Limit("b") != time.Second || h.Limit("") != 0 {
		t.Error("it was not the oldest name that went")
	}
}

func TestWalltimeFits(t *testing.T) {
	stays := Walltime{}
	ends := Walltime{End: 100 * time.Second, Drain: 30 * time.Second}
	late := Walltime{End: 100 * time.Second}
	for _, c := range []struct {
		name      string
		w         Walltime
		now, need int // seconds
		want      bool
	}{
		{"no end", stays, 1_000_000, 1_000_000, true},
		{"known, in time", ends, 10, 80, true},
		{"known, just", ends, 10, 89, true},
		{"known, too long", ends, 10, 90, false},
		{"known, in the drain", ends, 90, 5, true},
		{"unknown, early", ends, 69, 0, true},
		{"unknown, in the drain", ends, 70, 0, false},
		{"unknown, no drain", late, 99, 0, true},
	} {
		if got := c.w.Fits(time.Duration(c.now)*time.Second, time.Duration(c.need)*time.Second); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

func TestSpread(t *testing.T) {
	var e Estimates
	if mean, off, n := e.Spread("a"); mean != 0 || off != 0 || n != 0 {
		t.Errorf("got %s, %s, %d of an unknown kind", mean, off, n)
	}
	e.Add("a", "", 2*time.Second)
	if mean, off, n := e.Spread("a"); mean != 2*time.Second || off != 0 || n != 1 {
		t.Errorf("got %s, %s, %d of one end", mean, off, n)
	}
	e.Add("a", "", 4*time.Second)
	e.Add("a", "", 6*time.Second)
	if mean, off, n := e.Spread("a"); mean != 4*time.Second || off != 2*time.Second || n != 3 {
		t.Errorf("got %s, %s, %d, want 4s, 2s, 3", mean, off, n)
	}
}
