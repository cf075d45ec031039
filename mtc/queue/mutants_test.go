//go:build mutants

package queue

import (
	"testing"

	"github.com/filch-hpc/filch/testbed/sim/planted"
)

func init() { plant = Plant }

// TestMutantsAreCaught plants each fault in a process of its own, in which the
// test beside it must fail.
func TestMutantsAreCaught(t *testing.T) {
	planted.MustFail(t, "MTC_MUTANT", [][2]string{
		{"ascending", "TestReadyCutsEverySecondTask"},
		{"levelless", "TestCriticalPathFirst"},
		{"shared-first", "TestDedicatedTasksStartFirst"},
		{"dataless", "TestThiefGetsTasksWithItsData"},
	})
}
