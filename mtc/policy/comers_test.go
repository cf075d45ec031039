package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

// TestComersHearAgain: a node that came hears of work ever more slowly until the node is heard, and
// not for ever.
func TestComersHearAgain(t *testing.T) {
	var c Comers
	c.Came("n1", time.Second)
	c.Came("n2", time.Second)
	var at []time.Duration
	for now := c.Next(); now != filch.Never; now = c.Next() {
		due := c.Due(now)
		if at = append(at, now-time.Second); len(at) == 1 {
			if !slices.Equal(due, []filch.NodeName{"n1", "n2"}) {
				t.Errorf("%v hear at once, want both", due)
			}
			c.Heard("n2")
		} else if !slices.Equal(due, []filch.NodeName{"n1"}) {
			t.Errorf("%v hear after %v, want n1: n2 was heard", due, now)
		}
		if again := c.Due(now); len(again) > 0 {
			t.Errorf("%v hear twice at %v", again, now)
		}
	}
	if n := len(at); n != comeTries || at[1] != comeAgain || at[n-1] != comeAgain*(1<<(comeTries-1)-1) {
		t.Errorf("news after %v, want %d of them, the waits doubled from %v", at, comeTries, comeAgain)
	}
	for i := range comersMax + 3 {
		c.Came(filch.NodeName(rune('a'+i)), 0)
	}
	if len(c) != comersMax {
		t.Errorf("%d nodes are kept, want %d", len(c), comersMax)
	}
}
