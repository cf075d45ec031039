//go:build !mutants

package store

// The planted faults, all off; see mutants_on.go.
const (
	mutantParentCounter    = false
	mutantMajorityCommit   = false
	mutantNoFence          = false
	mutantGrowBlind        = false
	mutantAcceptorsForget  = false
	mutantNoWriteBack      = false
	mutantDropLearner      = false
	mutantLocalReads       = false
	mutantAcceptorUnsynced = false
	mutantDoneUnsynced     = false
	mutantRejoinUnsynced   = false
	mutantRejoinSilent     = false
	mutantRejoinBlind      = false
	mutantSplitUnlearns    = false
)
