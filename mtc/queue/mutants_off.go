//go:build !mutants

package queue

// The planted faults, all off; see mutants_on.go.
const (
	mutantBound       = false
	mutantAscending   = false
	mutantLevelless   = false
	mutantDataless    = false
	mutantSharedFirst = false
)
