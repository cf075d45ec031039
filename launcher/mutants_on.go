//go:build mutants

package launcher

// Planted faults, one at a time, that a checker worth its name must catch.
// They exist only under the build tag mutants.
var (
	mutantEarlyGo bool // the gate opens when all but one are ready
	mutantNoLease bool // ranks go on for ever without a word of their origin
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	mutantEarlyGo = name == "early-go"
	mutantNoLease = name == "no-lease"
	return name == "" || mutantEarlyGo || mutantNoLease
}
