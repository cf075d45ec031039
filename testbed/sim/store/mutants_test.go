//go:build mutants

package store

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht"
)

// planted are the faults that the shipped store carries under this build tag,
// each one rule broken, with the seeds within which a checker must see it.
var planted = []struct {
	name  string
	seeds int
}{
	{"naive-home", 100},
	{"parent-counter", 100},
	{"majority-commit", 200},
	{"no-fence", 400},
	{"grow-without-acks", 800},
	{"seats-forget", 1500},
	{"no-write-back", 1500},
	{"drop-learner-early", 2500},
	{"local-reads", 1500},
}

// TestStoreMutants shows that the checkers bite. The invariants inside the
// store are off: what its clients see must tell it alone.
func TestStoreMutants(t *testing.T) {
	for _, m := range planted {
		t.Run(m.name, func(t *testing.T) {
			if !dht.Plant(m.name) {
				t.Fatalf("there is no planted fault %q", m.name)
			}
			defer dht.Plant("")
			began := time.Now()
			r, tried := hunt(m.seeds)
			if r == nil {
				t.Fatalf("%s not caught in %d seeds", m.name, m.seeds)
			}
			t.Logf("figure: %s caught at seed %d of %d (%d tried in %v): %v", m.name, r.Seed, m.seeds, tried, time.Since(began).Round(time.Millisecond), r.Violations[0])
		})
	}
}

// hunt runs seeds until one breaks a rule.
func hunt(seeds int) (caught *Run, tried int) {
	const step = 16
	for first := 1; first <= seeds; first += step {
		runs := Sweep(uint64(first), step, func(seed uint64) Run {
			p := drawPlan(seed)
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
