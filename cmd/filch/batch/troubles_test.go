package batch

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/pool"
)

// TestTroubles: what filch doctor says of a pool.
func TestTroubles(t *testing.T) {
	now := time.Unix(1e9, 0)
	ago := func(d time.Duration) int64 { return now.Add(-d).UnixNano() }
	for _, c := range []struct {
		name   string
		change func(p *pool.Pool)
		text   string // "" none
		broken bool
	}{
		{"well", func(*pool.Pool) {}, "", false},
		{"removed", func(p *pool.Pool) { p.Removed, p.Paused = true, "x" }, "", false},
		{"failures", func(p *pool.Pool) { p.Paused, p.Bad = "5 failures in a row", 5 }, "asks for nothing, it is paused: 5 failures", true},
		{"a-person", func(p *pool.Pool) { p.Paused = "filch pool pause, by someone" }, "paused: filch pool pause", false},
		{"backs-off", func(p *pool.Pool) { p.Bad, p.Trouble = 2, "allocation 2 was refused" }, "has had 2 failures in a row: allocation 2 was refused", false},
		{"silent", func(p *pool.Pool) { p.Silent, p.Trouble = "the batch system does not answer: no", "x" }, "has a trouble: the batch system does not answer: no", false},
		{"over", func(p *pool.Pool) { p.Trouble = "allocation 2 was refused" }, "", false},
		{"nobody", func(p *pool.Pool) { p.Holder = "" }, "is held by no node", false},
		{"queued", func(p *pool.Pool) {
			p.Allocs = []pool.Alloc{{N: 1, State: pool.Queued, Job: "7", Planned: ago(time.Minute)}}
		}, "", false},
		{"never-starts", func(p *pool.Pool) {
			p.Allocs = []pool.Alloc{{N: 1, State: pool.Queued, Job: "7", Said: "Priority", Planned: ago(time.Hour)}}
		}, "job 7, in the queue for 1h: Priority", false},
		{"held", func(p *pool.Pool) {
			p.Allocs = []pool.Alloc{{N: 1, State: pool.Queued, Job: "7", Held: true, Said: "held: JobHeldUser", Planned: ago(time.Minute)}}
		}, "job 7, in the queue for 1m: held: JobHeldUser", false},
	} {
		p, err := pool.New(pool.Spec{Name: "p", System: "pbs", Max: 2, Idle: time.Minute, Within: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		p.Holder = "n1"
		c.change(p)
		found := troubles(p, now)
		switch {
		case c.text == "" && len(found) == 0:
		case len(found) != 1 || !strings.Contains(found[0].Text, c.text) || found[0].Broken != c.broken || found[0].Hint == "":
			t.Errorf("%s: got %+v, want %q, broken %v", c.name, found, c.text, c.broken)
		}
	}
}
