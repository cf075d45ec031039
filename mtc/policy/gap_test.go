package policy_test

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	. "github.com/filch-hpc/filch/mtc/policy"
	"pgregory.net/rapid"
)

func TestGapAdmits(t *testing.T) {
	const s = time.Second
	known := Gap{Since: 10 * s, Starts: 100 * s, KillWait: 10 * s}
	unknown := Gap{Since: 10 * s, KillWait: 10 * s}
	for _, c := range []struct {
		name              string
		gap               Gap
		now, limit, usual time.Duration
		want              bool
	}{
		{"limit ends before the start", known, 50 * s, 40 * s, 0, true},
		{"limit ends too late", known, 50 * s, 41 * s, 0, false},
		{"usual time ends before the start", known, 50 * s, 0, 50 * s, true},
		{"usual time ends too late", known, 50 * s, 0, 51 * s, false},
		{"usual time of a task with a long limit", known, 50 * s, time.Hour, s, true},
		{"nothing is known of the task", known, 50 * s, 0, 0, false},
		{"start not known, a limit", unknown, 50 * s, s, 0, false},
		{"start not known, shorter than the wait by a quarter", unknown, 50 * s, 0, 32 * s, true},
		{"start not known, not shorter by a quarter", unknown, 50 * s, 0, 33 * s, false},
		{"start not known, a short task just after the wait", unknown, 10*s + 25*time.Millisecond, 0, 10 * time.Millisecond, false},
		{"start not known, slots just held", unknown, 10 * s, 0, s, false},
		{"the expected start is over: as if not known", known, 101 * s, s, 0, false},
		{"the expected start is over, a usual time", known, 102 * s, 0, s, true},
		{"the expected start is just over", known, 101 * s, 0, 2 * s, false},
	} {
		if got := c.gap.Admits(c.now, c.limit, c.usual); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}

// Whatever the limits say, a task of unknown length waits, and a task is let through only
// until the expected start, or for no longer than the slots stood idle.
func TestGapAdmitsNothingLong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := func(name string) time.Duration { return time.Duration(rapid.Int64Range(0, 1e12).Draw(t, name)) }
		now, limit, usual := d("now"), d("limit"), d("usual")
		g := Gap{Since: min(d("since"), now), Starts: d("starts"), KillWait: d("kill wait")}
		if !g.Admits(now, limit, usual) {
			return
		}
		shortest := usual
		if limit > 0 && (usual == 0 || limit < usual) {
			shortest = limit
		}
		if shortest == 0 || shortest > max(g.Starts-now, now-g.Since) {
			t.Fatalf("a task of limit %v and usual time %v is let through at %v in %+v", limit, usual, now, g)
		}
	})
}

// What a gap asks other nodes for, the gap admits when the tasks have come.
func TestFillIsWithinTheGap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := func(name string, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
		}
		now := d("now", time.Hour)
		g := Gap{Room: filch.Room{Slots: 1}, Since: min(d("since", time.Hour), now), Starts: d("starts", 2*time.Hour), KillWait: d("kill wait", time.Minute)}
		f := g.Fill(now)
		limit, usual := d("limit", time.Hour), d("usual", time.Hour)
		if later := now + d("on its way", 100*time.Millisecond); f.Admits(limit, usual) && !g.Admits(later, limit, usual) {
			t.Fatalf("a task of limit %v and usual time %v is asked for with %+v at %v, and not admitted at %v in %+v", limit, usual, f, now, later, g)
		}
	})
}
