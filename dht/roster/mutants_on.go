//go:build mutants

package roster

// Planted faults of the roster, for a checker to catch. At most a single fault is on. The
// faults exist only under the build tag mutants.
var (
	// When a primary dies, any live node becomes the primary, with the records that the
	// node happens to have.
	mutantNaiveHome bool
	// A shard may split in the change that recovers the shard from a disk.
	mutantSplitEarly bool
	// A node becomes a member although a later incarnation of the node is a member.
	mutantTwiceMember bool
)

// Plant switches on the named fault and the other faults off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, m := range map[string]*bool{ // any order
		"naive-home": &mutantNaiveHome, "split-early": &mutantSplitEarly, "twice-a-member": &mutantTwiceMember,
	} {
		*m = n == name
		known = known || *m
	}
	return known
}
