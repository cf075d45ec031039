//go:build !mutants

package slots

// The planted faults, all off; see mutants_on.go.
const (
	mutantOversell      = false
	mutantLeak          = false
	mutantForgetWound   = false
	mutantSpareLeak     = false
	mutantReleaseBySlot = false
	mutantYoungFirst    = false
	mutantBlindAdopt    = false
	mutantTasksBlock    = false
	mutantNoRecall      = false
	mutantTrustLimits   = false
)
