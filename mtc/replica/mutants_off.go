//go:build !mutants

package replica

// The planted faults, all off; see mutants_on.go.
const (
	mutantLoserRuns = false
	mutantCopyAfter = false
)
