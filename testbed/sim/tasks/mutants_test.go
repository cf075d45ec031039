//go:build mutants

package tasks

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch/mtc"
)

// planted are faults that the shipped core carries under this build tag, with
// what a checker must say of each, and the seeds within which it must.
var planted = []struct {
	name, says string
	seeds      uint64
}{
	{"count-maybe", "", 60},
	{"drain-keeps", "is not finished", 60},
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
				for _, b := range RunSeed(seed+1, false, nil).Broken {
					if strings.Contains(b, m.says) {
						t.Logf("figure: %s caught at seed %d of %d: %s", m.name, seed+1, m.seeds, b)
						return
					}
				}
			}
			t.Errorf("%s not caught in %d seeds", m.name, m.seeds)
		})
	}
}
