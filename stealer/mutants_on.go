//go:build mutants

package stealer

// Planted faults, one at a time, for a checker to catch. The faults exist only
// under the build tag mutants.
var (
	mutantStaleGrant bool // a late grant counts as news
	mutantLateRecall bool // lent room is never asked back
	mutantLendAll    bool // all free room is lent, not half
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	mutantStaleGrant = name == "stale-grant"
	mutantLendAll = name == "lend-all"
	mutantLateRecall = name == "late-recall"
	return name == "" || mutantStaleGrant || mutantLendAll || mutantLateRecall
}
