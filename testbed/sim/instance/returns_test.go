package instance

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// TestReturnedNodesAsk has launchers die together and return while a bag runs: a node that has
// nothing to do asks those that have too much.
func TestReturnedNodesAsk(t *testing.T) {
	longest := time.Duration(0)
	for seed := range uint64(min(seedsWanted(t, 30), 300)) {
		w, without := returnsRun(seed+1, engine.LooksOf(seed+1))
		for _, v := range w.Broken() {
			t.Errorf("seed %d: %v", seed+1, v)
		}
		longest = max(longest, without)
	}
	t.Logf("figure: a node with nothing to do asked nobody for at most %v", longest)
}
