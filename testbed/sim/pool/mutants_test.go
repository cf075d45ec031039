//go:build mutants

package pool

import (
	"testing"

	"github.com/filch-hpc/filch/pool"
)

// TestMutants: a test catches each planted fault.
func TestMutants(t *testing.T) {
	defer pool.Plant("")
	seeds := func() bool {
		for seed := range uint64(200) {
			if w := perilous(seed); len(w.Broken) > 0 {
				t.Logf("seed %d: %s", seed, w.Broken[0])
				return true
			}
		}
		return false
	}
	for name, caught := range map[string]func() bool{
		"blind-heir":      seeds,
		"hasty-heir":      seeds,
		"queued-free":     seeds,
		"cancel-once":     seeds,
		"keeps-idle":      func() bool { return len(broken(bursts())) > 0 },
		"forgets-lost":    seeds,
		"no-successor":    func() bool { return gap() > successorGap },
		"endless-tries":   func() bool { return refused().Paused == "" },
		"unstored-orders": seeds,
	} { // any order
		if !pool.Plant(name) {
			t.Fatalf("there is no planted fault %s", name)
		}
		if !caught() {
			t.Errorf("no test catches %s", name)
		}
	}
}

// broken are the rules that a run breaks.
func broken(p Plan) []string {
	w := New(p, 1)
	w.Run()
	return w.Broken
}
