//go:build mutants

package record

// Planted faults, switched on singly, for tests to catch. The faults exist only under the
// build tag mutants.
var (
	mutantCountMaybe bool // an uncommitted start counts as a crash
	mutantLastWriter bool // a later end replaces the first
	mutantStartTwice bool // a second node may start a task with Once
	mutantTallyBack  bool // a late tally sets the count back
	mutantCapFree    bool // tokens are granted without counting the held tokens
	mutantStaged     bool // the time of staging counts as run time
	mutantTakeOnce   bool // a repeated take of a dead owner's tasks returns no tasks
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, p := range map[string]*bool{ // any order
		"count-maybe": &mutantCountMaybe,
		"last-writer": &mutantLastWriter,
		"start-twice": &mutantStartTwice,
		"tally-back":  &mutantTallyBack,
		"cap-free":    &mutantCapFree,
		"staged":      &mutantStaged,
		"take-once":   &mutantTakeOnce,
	} {
		*p = n == name
		known = known || *p
	}
	return known
}
