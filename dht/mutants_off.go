//go:build !mutants

package dht

// The planted faults, all off; see mutants_on.go.
const (
	mutantNaiveHome      = false
	mutantParentCounter  = false
	mutantMajorityCommit = false
	mutantNoFence        = false
	mutantGrowBlind      = false
	mutantSeatsForget    = false
	mutantNoWriteBack    = false
	mutantDropLearner    = false
	mutantLocalReads     = false
	mutantGoneAlone      = false
	mutantGoneForGood    = false
	mutantSeatUnsynced   = false
	mutantDoneUnsynced   = false
	mutantRejoinUnsynced = false
	mutantRejoinSilent   = false
	mutantRejoinBlind    = false
	mutantSplitUnlearns  = false
	mutantSplitEarly     = false
	mutantTwiceMember    = false
)
