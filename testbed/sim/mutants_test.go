//go:build mutants

package sim

import (
	"testing"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// planted are the faults that the shipped cores carry under this build tag,
// each one rule broken, with the seeds within which a checker must see it. Of
// those with none it is the calm runs that see it.
var planted = []struct {
	name  string
	plant func(string) bool
	seeds int
}{
	{"oversell", slots.Plant, 20},
	{"leak", slots.Plant, 20},
	{"forgotten-wound", slots.Plant, 60},
	{"release-by-slot", slots.Plant, 60},
	{"blind-adopt", slots.Plant, 60},
	{"young-first", slots.Plant, 0},
	{"stale-grant", stealer.Plant, 400},
	{"lend-all", stealer.Plant, 0},
	{"early-go", launcher.Plant, 60},
	{"no-lease", launcher.Plant, 400},
}

// TestMutantsAreCaught shows that the checkers bite. The invariants inside the
// cores are off: the checkers outside them must see it alone.
func TestMutantsAreCaught(t *testing.T) {
	for _, m := range planted {
		t.Run(m.name, func(t *testing.T) {
			if !m.plant(m.name) {
				t.Fatalf("there is no planted fault %q", m.name)
			}
			defer m.plant("")
			for seed := uint64(1); seed <= uint64(m.seeds); seed++ {
				if r := runSeed(seed, false, nil); len(r.Violations) > 0 {
					t.Logf("figure: %s caught at seed %d of %d: %v", m.name, seed, m.seeds, r.Violations[0])
					return
				}
			}
			if m.seeds > 0 {
				t.Errorf("%s not caught in %d seeds", m.name, m.seeds)
				return
			}
			lines := RoundOne(false)
			for _, s := range Scenarios(64, 8, 12)[:4] {
				lines = append(lines, s.Run().Short()...)
			}
			if len(lines) == 0 {
				t.Errorf("%s not caught in calm runs", m.name)
				return
			}
			t.Logf("figure: %s caught: %s", m.name, lines[0])
		})
	}
}
