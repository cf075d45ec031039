//go:build !mutants

package ranks

// The planted faults, all off; see mutants_on.go.
const (
	mutantNoLease    = false
	mutantNoFenceOff = false
	mutantHopless    = false
	mutantNoneLeft   = false
)
