//go:build !mutants

package mtc

// The planted faults, all off; see mutants_on.go.
const (
	mutantLastWriter  = false
	mutantStartTwice  = false
	mutantTallyBack   = false
	mutantCapFree     = false
	mutantCounter     = false
	mutantFLDSNever   = false
	mutantNoEstimate  = false
	mutantAscending   = false
	mutantBlindExit   = false
	mutantStealPops   = false
	mutantNoMove      = false
	mutantBlindThaw   = false
	mutantStealStops  = false
	mutantHalfDown    = false
	mutantSameVictims = false
	mutantDeaf        = false
	mutantNoLose      = false
	mutantForever     = false
	mutantNoFront     = false
	mutantStorm       = false
	mutantWaitForDead = false
	mutantDrainKeeps  = false
	mutantGoneLoses   = false
	mutantFertile     = false
	mutantToldOnce    = false
	mutantCountMaybe  = false
	mutantHeirOnce    = false
	mutantHeirEnds    = false
	mutantNoAfter     = false
	mutantTakeOnce    = false
)
