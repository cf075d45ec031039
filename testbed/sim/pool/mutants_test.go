//go:build mutants

package pool

import (
	"testing"

	"github.com/filch-hpc/filch/pool"
)

// TestMutants: a test catches each planted fault.
func TestMutants(t *testing.T) {
	defer pool.Plant("")
	seeds := func(eager bool) bool {
		for seed := range uint64(200) {
			if w := perilousWith(seed, eager); len(w.Broken) > 0 {
				t.Logf("seed %d: %s", seed, w.Broken[0])
				return true
			}
		}
		return false
	}
	for name, caught := range map[string]func() bool{
		"blind-heir":    func() bool { return seeds(false) },
		"hasty-heir":    func() bool { return seeds(false) },
		"queued-free":   func() bool { return seeds(false) },
		"cancel-once":   func() bool { return seeds(false) },
		"keeps-idle":    func() bool { return len(broken(bursts())) > 0 },
		"forgets-lost":  func() bool { return seeds(false) },
		"no-successor":  func() bool { return gap() > successorGap },
		"endless-tries": func() bool { return refused().Paused == "" },
	} { // any order
		if !pool.Plant(name) {
			t.Fatalf("there is no planted fault %s", name)
		}
		if !caught() {
			t.Errorf("no test catches %s", name)
		}
	}
	pool.Plant("")
	if !seeds(true) {
		t.Error("no test catches orders of a record that was not stored")
	}
}

// broken are the rules that a run breaks.
func broken(p Plan) []string {
	w := New(p, 1)
	w.Run()
	return w.Broken
}
