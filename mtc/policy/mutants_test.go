//go:build mutants

package policy

import (
	"testing"

	"github.com/filch-hpc/filch/testbed/sim/planted"
)

func init() { plant = Plant }

// TestMutantsAreCaught plants each fault in a process of its own, in which the
// test beside it must fail.
func TestMutantsAreCaught(t *testing.T) {
	planted.MustFail(t, "MTC_MUTANT", [][2]string{
		{"blind-gap", "TestGapAdmitsNothingLong"},
		{"hasty-gap", "TestGapAdmits"},
		{"flds-never", "TestExcessOfThePaper"},
		{"printed", "TestBestNodeIsNotThePrintedOne"},
		{"load-blind", "TestChoiceOfANode"},
		{"no-copies", "TestChoiceOfANode"},
		{"alike", "TestFactorOfANode"},
		{"no-estimate", "TestPlaceIsAlgorithm1"},
		{"idle-counts", "TestIdleTimeIsNoSlowWork"},
		{"orderless", "TestOrderedSurvey"},
		{"own-source", "TestMeshOfLiveNodes"},
		{"own-source", "TestAllotmentsOfThePaper"},
		{"same-victims", "TestVictimsAreDrawnAnew"},
		{"restless", "TestLifelineSpell"},
		{"unfed", "TestLifelines"},
		{"roleless", "TestRolesSuit"},
		{"greedy", "TestAhead"},
		{"keeps-all", "TestKept"},
		{"gives-all", "TestGiver"},
		{"narrow", "TestThiefWidens"},
		{"eager", "TestBackOff"},
		{"auto-dvs", "TestThievesOfAPolicy"},
		{"crowds", "TestAuto"},
		{"few-told", "TestAnnouncer"},
		{"no-leap", "TestLeapfrog"},
		{"same-next", "TestSequentialVictims"},
		{"unfixed", "TestFixedVictims"},
		{"far-first", "TestVictimsAreDrawnAnew"},
		{"unspread", "TestSpreading"},
		{"tree-stops", "TestBagIsSpreadBySlots"},
		{"unkept", "TestKeptBagIsNoNews"},
		{"to-and-fro", "TestGiftsEndBalanced"},
		{"mlb-binds", "TestPlaceIsAlgorithm1"},
		{"mdl-shares", "TestPlaceIsAlgorithm1"},
		{"guess-stays", "TestMeanOfEndedTasks"},
		{"tt-falls", "TestSharing"},
		{"both-give", "TestThievesOfAPolicy"},
	})
}
