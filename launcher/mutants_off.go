//go:build !mutants

package launcher

// The planted faults, all off; see mutants_on.go.
const (
	mutantStaleOutbox = false
	mutantSameTry     = false
)
