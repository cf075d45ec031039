//go:build mutants

package store_test

import (
	"os"
	"testing"

	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/testbed/sim/planted"
)

func init() { store.Plant(os.Getenv("DHT_MUTANT")) }

// TestMutantsAreCaught plants each fault of a store's new life in a process of its own, in
// which the test that must catch it runs.
func TestMutantsAreCaught(t *testing.T) {
	planted.MustFail(t, "DHT_MUTANT", [][2]string{
		{"rejoin-unsynced", "TestStoreRejoinWaitsForItsLog"},
		{"rejoin-silent", "TestStoreRejoinAnswers"},
		{"rejoin-blind", "TestStoreRejoinKeepsWatches"},
		{"twice-a-member", "TestPlacementNamesNobodyTwice"},
		{"split-unlearns", "TestFounderThatDiesAtOnceComesBack"},
		{"split-early", "TestFounderThatDiesAtOnceComesBack"},
	})
}
