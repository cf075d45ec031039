//go:build !mutants

package mtc

// The planted faults, all off; see mutants_on.go.
const (
	mutantBlindExit   = false
	mutantStealPops   = false
	mutantNoMove      = false
	mutantBlindThaw   = false
	mutantNoLose      = false
	mutantForever     = false
	mutantNoFront     = false
	mutantHasty       = false
	mutantOldLevels   = false
	mutantDrainKeeps  = false
	mutantGoneLoses   = false
	mutantToldOnce    = false
	mutantHeirOnce    = false
	mutantHeirEnds    = false
	mutantNoAfter     = false
	mutantMuteOrders  = false
	mutantOneRoom     = false
	mutantTakesAll    = false
	mutantNoRest      = false
	mutantGangEarly   = false
	mutantRecallTries = false
	mutantFillOnce    = false
	mutantBlindFill   = false
	mutantCancelLate  = false
	mutantSparesRest  = false
	mutantBadCopyWins = false
	mutantLoserRuns   = false
	mutantCopyCounts  = false
)
