//go:build mutants

package makespan

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
)

// TestMutantsWithoutLateBinding plants the fault that a bound task stays where it is: none is offered
// once more, and random graphs take longer in the mean.
func TestMutantsWithoutLateBinding(t *testing.T) {
	const lateSeeds = 6
	for _, w := range Workloads(1, 8*slotsEach) {
		if w.Name != "random" && w.Name != "pipeline" {
			continue
		}
		var took [2]time.Duration
		var late [2]int
		for k, fault := range []string{"", "bound"} {
			queue.Plant(fault)
			for seed := range lateSeeds {
				r, err := Run(&w, 8, policy.Policy{Kind: policy.ADAGE}, uint64(seed)+1, Gigabit)
				if err != nil {
					t.Fatal(err)
				}
				took[k], late[k] = took[k]+r.Time/lateSeeds, late[k]+r.Late
			}
		}
		queue.Plant("")
		t.Logf("figure: %s: %v with late binding, %d tasks; %v without", w.Name, took[0], late[0], took[1])
		if late[1] != 0 || late[0] == 0 {
			t.Errorf("%s: %d bound tasks were offered once more, and %d with the fault; want some, and none", w.Name, late[0], late[1])
		}
		if w.Name == "random" && took[0] >= took[1] {
			t.Errorf("%s takes %v with late binding, and %v without", w.Name, took[0], took[1])
		}
	}
}
