//go:build mutants

package ranks

// Planted faults, switched on singly, for checkers to catch. They exist only under the
// build tag mutants.
var (
	mutantNoLease    bool // ranks run on forever without a message of their origin
	mutantNoFenceOff bool // a node that is cut off keeps its ranks of detached jobs
	// A node accepts messages about a job from any sender, whatever the hop.
	mutantHopless  bool
	mutantNoneLeft bool // a node says that no rank of a gang is left while ranks run
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, p := range map[string]*bool{ // any order
		"no-lease":     &mutantNoLease,
		"no-fence-off": &mutantNoFenceOff,
		"hopless":      &mutantHopless,
		"none-left":    &mutantNoneLeft,
	} {
		*p = n == name
		known = known || *p
	}
	return known
}
