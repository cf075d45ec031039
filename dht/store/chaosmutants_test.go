//go:build mutants

package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// TestStoreMutants plants each fault that a few hundred seeds show, and counts
// them. The rarer ones are for the simulator, which has more of them.
func TestStoreMutants(t *testing.T) {
	for _, c := range []struct {
		name   string
		budget uint64
	}{
		{"naive-home", 20},
		{"parent-counter", 20},
		{"majority-commit", 60},
		{"no-fence", 200},
		{"grow-without-acks", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer Plant("")
			for seed := uint64(1); seed <= c.budget; seed++ {
				if why := mutantShows(t, c.name, seed); why != "" {
					t.Logf("seed %d: %s", seed, why)
					return
				}
			}
			t.Errorf("not caught in %d seeds", c.budget)
		})
	}
}

func mutantShows(t *testing.T, name string, seed uint64) (why string) {
	defer func() {
		if p := recover(); p != nil {
			why = fmt.Sprint(p)
		}
	}()
	Plant(name)
	c := runChaos(t, seed, 5, 6*time.Second)
	if porcupine.CheckOperationsTimeout(chaosModel, c.hist, 20*time.Second) == porcupine.Illegal {
		return "an illegal history"
	}
	c.check()
	return ""
}
