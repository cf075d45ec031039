//go:build mutants

package stealer

// Planted faults, one at a time, that a checker worth its name must catch.
// They exist only under the build tag mutants.
var (
	mutantStaleGrant bool // a grant that comes late counts as news
	mutantLendAll    bool // all that is free is lent, not half
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	mutantStaleGrant = name == "stale-grant"
	mutantLendAll = name == "lend-all"
	return name == "" || mutantStaleGrant || mutantLendAll
}
