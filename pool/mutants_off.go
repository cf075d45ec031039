//go:build !mutants

package pool

// The planted faults, all off; see mutants_on.go.
const (
	mutantBlindHeir   = false
	mutantHasty       = false
	mutantQueuedFree  = false
	mutantCancelOnce  = false
	mutantKeeps       = false
	mutantForgets     = false
	mutantEndless     = false
	mutantNoSuccessor = false
	mutantUnstored    = false
	mutantEndsBusy    = false
	mutantBusyUseful  = false
	mutantStrays      = false
)
