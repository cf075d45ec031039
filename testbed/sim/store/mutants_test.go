//go:build mutants

package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/testbed/sim/engine"
	"github.com/filch-hpc/filch/testbed/sim/planted"
)

// plans are what the runs of a planted fault are like, by the word in its row: what
// they are as drawn if there is none.
var plans = map[string]func(p plan) plan{
	"":      func(p plan) plan { return p },
	"syncs": slowDisks,
	"grows": plan.growing,
}

// TestStoreMutants shows that the checkers bite. The invariants inside the
// store are off: what its clients see must tell it alone.
func TestStoreMutants(t *testing.T) {
	var rows []planted.Row
	for _, m := range planted.Of(planted.Store) {
		t.Run(m.Name, func(t *testing.T) {
			if !store.Plant(m.Name) {
				t.Fatalf("there is no planted fault %q", m.Name)
			}
			defer store.Plant("")
			began := time.Now()
			r, tried := hunt(int(m.Seeds), plans[m.Plan])
			row := planted.Row{Fault: m, Took: time.Since(began)}
			if r != nil {
				row.Seed, row.Says = r.Seed, fmt.Sprint(r.Violations[0])
			}
			rows = append(rows, row)
			if r == nil {
				t.Fatalf("%s not caught in %d seeds", m.Name, m.Seeds)
			}
			t.Logf("%s caught at seed %d of %d, %d tried", m.Name, r.Seed, m.Seeds, tried)
		})
	}
	t.Logf("figure: planted faults in the store\n%s", planted.Table(rows))
}

// slowDisks is the plan with disks that take long, and blackouts: a crash loses more.
func slowDisks(p plan) plan {
	p.style, p.syncMax = max(p.style, blackout), 400*time.Millisecond
	return p
}

// hunt runs seeds until one breaks a rule.
func hunt(seeds int, tuned func(p plan) plan) (caught *Run, tried int) {
	const step = 16
	for first := 1; first <= seeds; first += step {
		runs := engine.Sweep(uint64(first), step, func(seed uint64) Run {
			p := tuned(drawPlan(seed))
			p.bare = true
			return runPlan(p, nil)
		})
		for i := range runs {
			if v := runs[i].Violations; len(v) > 0 && v[0].Rule != "not-whole" {
				return &runs[i], first + i
			}
		}
	}
	return nil, seeds
}
