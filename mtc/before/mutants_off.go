//go:build !mutants

package before

// The planted faults, all off; see mutants_on.go.
const (
	mutantIgnored = false
	mutantTwice   = false
	mutantEarly   = false
	mutantTorn    = false

	mutantUnordered = false
)
