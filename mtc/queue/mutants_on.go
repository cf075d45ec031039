//go:build mutants

package queue

// Planted faults, switched on singly, for tests to catch. The faults exist only under the
// build tag mutants.
var (
	mutantBound       bool // a dedicated task stays where it is
	mutantAscending   bool // the smallest task goes first
	mutantLevelless   bool // the critical path does not count
	mutantDataless    bool // a thief gets tasks wherever their input is
	mutantSharedFirst bool // shared tasks start before dedicated ones
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, p := range map[string]*bool{ // any order
		"ascending": &mutantAscending, "levelless": &mutantLevelless, "bound": &mutantBound,
		"dataless": &mutantDataless, "shared-first": &mutantSharedFirst,
	} {
		*p = n == name
		known = known || *p
	}
	return known
}
