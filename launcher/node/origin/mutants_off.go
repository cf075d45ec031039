//go:build !mutants

package origin

// The planted faults, all off; see mutants_on.go.
const (
	mutantEarlyGo      = false
	mutantNoFenceOff   = false
	mutantEagerLaunch  = false
	mutantStaleLaunch  = false
	mutantRestoreParts = false
	mutantRestoreOpen  = false
	mutantRestoreGate  = false
	mutantEntryParts   = false
	mutantHeirAnew     = false
	mutantDeafOwner    = false
	mutantMuteJobs     = false
	mutantEarlyFence   = false
	mutantHalfGang     = false
	mutantSpawnWaits   = false
	mutantSpawnEarly   = false
	mutantSpawnTwice   = false
	mutantSpawnStays   = false
)
