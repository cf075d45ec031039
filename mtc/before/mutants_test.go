//go:build mutants

package before

import (
	"testing"

	"github.com/filch-hpc/filch/testbed/sim/planted"
)

func init() { plant = Plant }

// TestMutantsAreCaught plants each fault in a process of its own, in which the
// test beside it must fail.
func TestMutantsAreCaught(t *testing.T) {
	planted.MustFail(t, "BEFORE_MUTANT", [][2]string{
		{"before-ignored", "TestWaitsForEnds"},
		{"before-twice", "TestWaitsForAll"},
		{"each-early", "TestEachWaitsForItsOwn"},
		{"unordered", "TestLongestAreDecidedFirst"},
		{"before-torn", "TestWaitsForTasksThatEndDuringALook"},
	})
}
