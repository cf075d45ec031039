//go:build !mutants

package roster

// The planted faults of the roster, all off; see mutants_on.go.
const (
	mutantNaiveHome   = false
	mutantSplitEarly  = false
	mutantTwiceMember = false
)
