//go:build mutants

package slots

// Planted faults, one at a time, that a checker worth its name must catch.
// They exist only under the build tag mutants.
var (
	mutantOversell      bool // a grant leaves its slots free
	mutantLeak          bool // a released hold keeps its slots
	mutantForgetWound   bool // a wounded job is neither told nor put on the wait list
	mutantYoungFirst    bool // what comes free goes to the youngest that waits
	mutantBlindAdopt    bool // an adopted keeper's slots are not booked
	mutantTasksBlock    bool // a task that waits keeps room from the gang that it waits for
	mutantReleaseBySlot bool // a release names a place, not a lease: a late one hits another job
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
	return name == "" || mutantOversell || mutantLeak || mutantForgetWound || mutantReleaseBySlot ||
		mutantYoungFirst || mutantBlindAdopt || mutantTasksBlock
}
