//go:build mutants

package tasks

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/testbed/sim/planted"
)

// says is what a checker must say of a fault, where not any rule will do.
var says = map[string]string{"drain-keeps": "is not finished", "cancel-late": "after it was cancelled", "spares-rest": "ran on"}

// TestMutantsAreCaught shows that the checkers bite. The invariants inside the
// core are off: the checkers outside must see it alone.
func TestMutantsAreCaught(t *testing.T) {
	var rows []planted.Row
	for _, m := range planted.Of(planted.Tasks) {
		t.Run(m.Name, func(t *testing.T) {
			if !mutants.Plant(m.Name) {
				t.Fatalf("there is no planted fault %q", m.Name)
			}
			defer mutants.Plant("")
			began := time.Now()
			row := planted.Row{Fault: m}
			for seed := uint64(1); seed <= m.Seeds && row.Seed == 0; seed++ {
				for _, b := range RunSeed(seed, false, nil).Broken {
					if row.Seed == 0 && strings.Contains(b, says[m.Name]) {
						row.Seed, row.Says = seed, b
					}
				}
			}
			row.Took = time.Since(began)
			rows = append(rows, row)
			if row.Seed == 0 {
				t.Errorf("%s not caught in %d seeds", m.Name, m.Seeds)
			}
		})
	}
	t.Logf("figure: planted faults in the core of tasks\n%s", planted.Table(rows))
}
