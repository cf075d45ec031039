//go:build mutants

package mtc

import (
	"os"
	"os/exec"
	"testing"
)

func init() { plant = Plant }

// TestMutantsAreCaught plants each fault in a process of its own, in which the
// test beside it must fail.
func TestMutantsAreCaught(t *testing.T) {
	for _, m := range []struct{ name, test string }{
		{"cap-free", "TestCapIsNeverExceeded"},
		{"parent-counter", "TestGraphOfAMillion"},
		{"flds-never", "TestPoliciesPlaceDifferently"},
		{"ascending", "TestHeaviestInputFirst"},
		{"blind-exit", "TestRetriesAndExitCodes"},
		{"steal-pops", "TestLostOfferComesBack"},
		{"no-move", "TestLateOfferMovesNothing"},
		{"blind-thaw", "TestLateOfferMovesNothing"},
		{"steal-stops", "TestStealingNeverEnds"},
		{"half-down", "TestSingleTaskIsStolen"},
		{"deaf", "TestNewsWakes"},
		{"no-lose", "TestNodeDeathRunsItsTasksAgain"},
		{"retry-forever", "TestRetriesAndExitCodes"},
		{"storm", "TestArrivalsAreQuiet"},
		{"wait-for-dead", "TestAdderDies"},
		{"gone-loses", "TestGoneNodesTasksMove"},
		{"fertile", "TestBarrenNodeGetsFewTasks"},
		{"drain-keeps", "TestDrainedNodeSubmits"},
		{"drain-keeps", "TestThievesAskDrained"},
		{"no-front", "TestNothingBeginsAboveTheFront"},
		{"count-maybe", "TestUncommittedStartsAreNotCounted"},
		{"told-once", "TestEndRecordedAfterItsNodeDied"},
		{"take-once", "TestMergesDoneTwice"},
	} {
		t.Run(m.name+"/"+m.test, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+m.test+"$", "-test.timeout", "60s")
			cmd.Env = append(os.Environ(), "MTC_MUTANT="+m.name)
			if out, err := cmd.CombinedOutput(); err == nil {
				t.Errorf("the planted fault %s passes %s:\n%s", m.name, m.test, out)
			}
		})
	}
}
