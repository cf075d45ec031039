//go:build mutants

package tasks

import (
	"testing"

	"github.com/filch-hpc/filch/mtc"
)

// planted are faults that the shipped core carries under this build tag, with
// the seeds within which a checker must see each.
var planted = []struct {
	name  string
	seeds uint64
}{
	{"count-maybe", 60},
}

// TestMutantsAreCaught shows that the checkers bite. The invariants inside the
// core are off: the checkers outside must see it alone.
func TestMutantsAreCaught(t *testing.T) {
	for _, m := range planted {
		t.Run(m.name, func(t *testing.T) {
			if !mtc.Plant(m.name) {
				t.Fatalf("there is no planted fault %q", m.name)
			}
			defer mtc.Plant("")
			for seed := range m.seeds {
				if r := RunSeed(seed+1, false, nil); len(r.Broken) > 0 {
					t.Logf("figure: %s caught at seed %d of %d: %v", m.name, seed+1, m.seeds, r.Broken[0])
					return
				}
			}
			t.Errorf("%s not caught in %d seeds", m.name, m.seeds)
		})
	}
}
