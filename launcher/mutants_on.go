//go:build mutants

package launcher

// Planted faults, one at a time, that a checker worth its name must catch.
// They exist only under the build tag mutants.
var (
	mutantEarlyGo bool // the gate opens when all but one are ready
	mutantNoLease bool // ranks go on for ever without a word of their origin

	mutantNoFenceOff  bool // a node that is cut off keeps its ranks of detached jobs
	mutantHopless     bool // whoever speaks of a job is heeded, whatever its hop
	mutantEagerLaunch bool // a detached job is launched before its record says who owns it
	mutantHastyMerge  bool // a change of tasks' records that takes long is proposed anew
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, p := range map[string]*bool{ // any order
		"early-go": &mutantEarlyGo, "no-lease": &mutantNoLease, "no-fence-off": &mutantNoFenceOff,
		"hopless": &mutantHopless, "eager-launch": &mutantEagerLaunch, "hasty-merge": &mutantHastyMerge,
	} {
		*p = n == name
		known = known || *p
	}
	return known
}
