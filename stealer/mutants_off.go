//go:build !mutants

package stealer

// The planted faults, off; see mutants_on.go.
const (
	mutantStaleGrant = false
	mutantLendAll    = false
	mutantLateRecall = false
)
