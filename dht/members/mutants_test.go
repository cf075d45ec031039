//go:build mutants

package members_test

import (
	"os"
	"testing"

	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/testbed/sim/planted"
)

func init() { members.Plant(os.Getenv("DHT_MUTANT")) }

// TestMutantsAreCaught plants each fault of the list in a process of its own, in which the
// test that must catch it runs.
func TestMutantsAreCaught(t *testing.T) {
	planted.MustFail(t, "DHT_MUTANT", [][2]string{
		{"gone-alone", "TestMembersNeedAWitness"},
		{"gone-for-good", "TestMembersRefuteThatTheyAreGone"},
	})
}
