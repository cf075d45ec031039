//go:build !mutants

package plan

// The planted faults, all off; see mutants_on.go.
const (
	mutantInOrder = false
	mutantStays   = false
	mutantFlips   = false
	mutantAlone   = false
)
