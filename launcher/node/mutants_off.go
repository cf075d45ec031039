//go:build !mutants

package node

// The planted faults, all off; see mutants_on.go.
const (
	mutantEarlyGo = false
	mutantNoLease = false

	mutantNoFenceOff  = false
	mutantHopless     = false
	mutantEagerLaunch = false
	mutantNoHeir      = false
	mutantStaleLaunch = false

	mutantRestoreParts = false
	mutantRestoreOpen  = false
	mutantRestoreGate  = false
	mutantEarlyBook    = false
	mutantEntryParts   = false
	mutantFirstAnswer  = false
	mutantDropLive     = false
	mutantDropBare     = false
	mutantMadeAgain    = false
	mutantHeirAnew     = false
	mutantSameBlock    = false
	mutantDeafOwner    = false
	mutantStepsOutlive = false
	mutantEarlyFence   = false
	mutantTasksStay    = false
	mutantMuteJobs     = false
	mutantMuteTasks    = false
)
