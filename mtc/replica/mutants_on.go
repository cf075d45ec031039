//go:build mutants

package replica

// Planted faults, switched on singly, for tests to catch.
var (
	mutantLoserRuns bool // copies run on after the end of their task
	mutantCopyAfter bool // a copy begins after the end of its task
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, p := range map[string]*bool{"loser-runs": &mutantLoserRuns, "copy-after": &mutantCopyAfter} { // any order
		*p = n == name
		known = known || *p
	}
	return known
}
