//go:build mutants

package search

// Planted faults, switched on singly, for tests to catch.
var (
	mutantStealStops bool // stealing ends for good at the bound
	mutantDeaf       bool // news of work wakes no thief
	mutantSpringless bool // a thief forgets the leader of its last workflow
	mutantStorm      bool // each node that comes is a reason to look for work
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, p := range map[string]*bool{"steal-stops": &mutantStealStops, "deaf": &mutantDeaf, "storm": &mutantStorm, "springless": &mutantSpringless} { // any order
		*p = n == name
		known = known || *p
	}
	return known
}
