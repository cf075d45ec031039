//go:build mutants

package slots

// Planted faults, one at a time, for a checker to catch. The faults exist only
// under the build tag mutants.
var (
	mutantOversell      bool // a grant leaves its slots free
	mutantLeak          bool // a released hold keeps its slots
	mutantForgetWound   bool // a wounded job is neither told nor put on the wait list
	mutantYoungFirst    bool // free room goes to the youngest waiting claim
	mutantBlindAdopt    bool // an adopted keeper's slots are not booked
	mutantTrustLimits   bool // tasks that should end before the expected start are not recalled, as limits are right
	mutantNoRecall      bool // tasks in a hold are never recalled: the oldest job waits for their end
	mutantTasksBlock    bool // a waiting task keeps room from the gang blocking the task
	mutantSpareLeak     bool // kept room that is given back stays with the job
	mutantReleaseBySlot bool // a release names a place: a late release hits another job
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	mutantOversell = name == "oversell"
	mutantLeak = name == "leak"
	mutantForgetWound = name == "forgotten-wound"
	mutantReleaseBySlot = name == "release-by-slot"
	mutantYoungFirst = name == "young-first"
	mutantBlindAdopt = name == "blind-adopt"
	mutantTasksBlock = name == "tasks-block"
	mutantNoRecall = name == "no-recall"
	mutantTrustLimits = name == "trust-limits"
	mutantSpareLeak = name == "spare-leak"
	return name == "" || mutantOversell || mutantLeak || mutantForgetWound || mutantReleaseBySlot ||
		mutantYoungFirst || mutantBlindAdopt || mutantTasksBlock || mutantNoRecall || mutantTrustLimits || mutantSpareLeak
}
