//go:build !mutants

package members

// The planted faults of the list, all off; see mutants_on.go.
const (
	mutantGoneAlone   = false
	mutantGoneForGood = false
)
