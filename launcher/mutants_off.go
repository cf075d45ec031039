//go:build !mutants

package launcher

// The planted faults, all off; see mutants_on.go.
const (
	mutantEarlyGo = false
	mutantNoLease = false

	mutantNoFenceOff  = false
	mutantHopless     = false
	mutantEagerLaunch = false
	mutantHastyMerge  = false
)
