//go:build !mutants

package records

// The planted faults, all off; see mutants_on.go.
const (
	mutantNoHeir      = false
	mutantEarlyBook   = false
	mutantFirstAnswer = false
	mutantDropLive    = false
	mutantDropBare    = false
	mutantMadeAgain   = false
	mutantSameBlock   = false
)
