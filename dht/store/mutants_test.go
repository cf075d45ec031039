//go:build mutants

package store_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/filch-hpc/filch/dht/store"
)

func init() { store.Plant(os.Getenv("DHT_MUTANT")) }

// TestMutantsAreCaught plants each fault of a store's new life in a process of its own, in
// which the test that must catch it runs.
func TestMutantsAreCaught(t *testing.T) {
	for _, m := range []struct{ name, test string }{
		{"rejoin-unsynced", "TestStoreRejoinWaitsForItsLog"},
		{"rejoin-silent", "TestStoreRejoinAnswers"},
		{"rejoin-blind", "TestStoreRejoinKeepsWatches"},
		{"twice-a-member", "TestPlacementNamesNobodyTwice"},
		{"split-unlearns", "TestFounderThatDiesAtOnceComesBack"},
		{"split-early", "TestFounderThatDiesAtOnceComesBack"},
	} {
		t.Run(m.name+"/"+m.test, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+m.test+"$", "-test.timeout", "60s")
			cmd.Env = append(os.Environ(), "DHT_MUTANT="+m.name)
			if out, err := cmd.CombinedOutput(); err == nil {
				t.Errorf("the planted fault %s passes %s:\n%s", m.name, m.test, out)
			}
		})
	}
}
