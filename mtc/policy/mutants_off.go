//go:build !mutants

package policy

// The planted faults, all off; see mutants_on.go.
const (
	mutantNoEstimate  = false
	mutantFLDSNever   = false
	mutantIdleCounts  = false
	mutantOrderless   = false
	mutantOwnSource   = false
	mutantSameVictims = false
	mutantAlike       = false
	mutantPrinted     = false
	mutantLoadBlind   = false
	mutantNoCopies    = false
	mutantHalfDown    = false
	mutantDrainKeeps  = false
	mutantUnset       = false
	mutantFewTold     = false
	mutantFertile     = false
	mutantGreedy      = false
	mutantKeepsAll    = false
	mutantRoleless    = false
	mutantGivesAll    = false
	mutantBlindGap    = false
	mutantHastyGap    = false
	mutantAnyNode     = false
	mutantRestless    = false
	mutantUnfed       = false
	mutantHomely      = false
	mutantNarrow      = false
	mutantEager       = false
	mutantAutoMesh    = false
	mutantCrowds      = false
	mutantNoLeap      = false
	mutantSameNext    = false
	mutantUnfixed     = false
	mutantFarFirst    = false
	mutantUnspread    = false
	mutantTreeStops   = false
	mutantPushedTwice = false
	mutantUnkept      = false
	mutantToAndFro    = false
	mutantMLBBinds    = false
	mutantMDLShares   = false
	mutantBothGive    = false
	mutantGuessStays  = false
	mutantTTFalls     = false
)
