package query

import (
	"testing"
	"time"
)

// The first event after a pause is told at once. While events come all the time, the time between
// two answers doubles up to gatherSteady.
func TestFollowersOfASteadyStreamRest(t *testing.T) {
	f := &follows{}
	for i, c := range []struct{ after, want time.Duration }{
		{time.Minute, 0},
		{0, gatherEvents},
		{10 * time.Millisecond, 2*gatherEvents - 10*time.Millisecond},
		{0, gatherSteady},
		{gatherSteady / 2, gatherSteady / 2},
		{gatherSteady, 0},
		{0, gatherEvents},
	} {
		if got := max(f.gather(c.after), 0); got != c.want {
			t.Errorf("round %d, whose news came after %v, gathers for %v more, want %v", i, c.after, got, c.want)
		}
	}
}
