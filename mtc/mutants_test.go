//go:build mutants

package mtc

import (
	"testing"

	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/testbed/sim/planted"
)

func init() { plant = mutants.Plant }

// TestMutantsAreCaught plants each fault in a process of its own, in which the
// test beside it must fail.
func TestMutantsAreCaught(t *testing.T) {
	planted.MustFail(t, "MTC_MUTANT", [][2]string{
		{"hasty", "TestLinkOfAChainKeepsItsSlot"},
		{"old-levels", "TestLevelsFollowEstimates"},
		{"unordered", "TestLongestTaskStartsFirst"},
		{"unordered", "TestLongestFirstAfterADeath"},
		{"cap-free", "TestPoolIsNeverExceeded"},
		{"parent-counter", "TestGraphOfAMillion"},
		{"after-feeds", "TestGatesHaveNoFiles"},
		{"flds-never", "TestPoliciesPlaceDifferently"},
		{"ascending", "TestHeaviestInputFirst"},
		{"blind-exit", "TestRetriesAndExitCodes"},
		{"free-successor", "TestBriefTasksHaveSuccessors"},
		{"successor-lost", "TestSuccessorGoesBack"},
		{"own-source", "TestThiefAsksInTheOrderOfTheMesh"},
		{"orderless", "TestThiefAsksInTheOrderOfTheMesh"},
		{"steal-pops", "TestLostOfferComesBack"},
		{"no-move", "TestLateOfferMovesNothing"},
		{"blind-thaw", "TestLateOfferMovesNothing"},
		{"steal-stops", "TestStealingNeverEnds"},
		{"blind-fill", "TestHeldSlotsTakeTasksOfOthers"},
		{"half-down", "TestSingleTaskIsStolen"},
		{"deaf", "TestNewsWakes"},
		{"no-lose", "TestNodeDeathRunsItsTasksAgain"},
		{"retry-forever", "TestRetriesAndExitCodes"},
		{"storm", "TestArrivalsAreQuiet"},
		{"wait-for-dead", "TestAdderDies"},
		{"gone-loses", "TestGoneNodesTasksMove"},
		{"fertile", "TestBarrenNodeGetsFewTasks"},
		{"any-node", "TestTasksRunOnSuitableNodes"},
		{"homely", "TestBetterClassIsStolen"},
		{"drain-keeps", "TestDrainedNodeSubmits"},
		{"drain-keeps", "TestThievesAskDrained"},
		{"no-front", "TestNothingBeginsAboveTheFront"},
		{"count-maybe", "TestUncommittedStartsAreNotCounted"},
		{"told-once", "TestEndRecordedAfterItsNodeDied"},
		{"mute-orders", "TestLostOrderComesBack"},
		{"cancel-late", "TestCancelOfWaitingTasks"},
		{"spares-rest", "TestCancelOfStoppedWorkflow"},
		{"recall-tries", "TestRecalledTaskIsNotCounted"},
		{"takes-all", "TestTasksOfOneJobRunOnNodesOfTheirKind"},
		{"one-room", "TestTasksTakeTheirOwnRoom"},
		{"no-rest", "TestGangOfADeadOwnerIsLostAfterItsRanks"},
		{"gang-early", "TestGangIsCancelledBeforeItsStart"},
		{"bound", "TestFreeNodeWithTheDataTakesBoundTasks"},
		{"bad-copy-wins", "TestCopyThatFailsWinsNothing"},
		{"loser-runs", "TestSlowTaskIsCopied"},
		{"copy-after", "TestNoCopyBeginsAfterTheEnd"},
		{"copy-counts", "TestCopyThatFailsWinsNothing"},
		{"unset", "TestBundleOfAnOffer"},
		{"unset", "TestBundleOfEnds"},
		{"unset", "TestWaitOfAThief"},
		{"take-once", "TestMergesDoneTwice"},
		{"taker-keeps", "TestTakeoverChoosesNodes"},
		{"load-blind", "TestTakeoverChoosesNodes"},
		{"old-places", "TestChoiceChangesPlaces"},
		{"choice-stays", "TestChoiceChangesPlaces"},
		{"steals-on", "TestVictimsChangeWhileRunning"},
		{"unspread", "TestBagGoesToSomeNodes"},
		{"tree-stops", "TestBagGoesDownATree"},
		{"pushed-twice", "TestBagGoesDownATree"},
		{"guess-stays", "TestMeanDecidesThePlace"},
		{"idle-counts", "TestIdleHourMovesNothing"},
		{"tt-falls", "TestStealsInVainRaiseTheBound"},
		{"shared-first", "TestBoundTasksRunFirst"},
		{"no-leap", "TestVictimsOfALeapfrog"},
		{"same-next", "TestVictimsInTheOrderOfNames"},
		{"mdl-shares", "TestPoliciesPlaceDifferently"},
		{"mlb-binds", "TestPoliciesPlaceDifferently"},
		{"both-give", "TestGivingMovesTasks"},
	})
}
