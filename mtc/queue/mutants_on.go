//go:build mutants

package queue

// Planted faults, switched on singly, for tests to catch. The faults exist only under the
// build tag mutants.
var (
	mutantBound     bool // a dedicated task stays where it is
	mutantAscending bool // the smallest task goes first
	mutantLevelless bool // the critical path does not count
	mutantDataless  bool // a thief gets tasks wherever their input is
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	mutantAscending, mutantLevelless, mutantBound, mutantDataless = name == "ascending", name == "levelless", name == "bound", name == "dataless"
	return name == "" || mutantAscending || mutantLevelless || mutantBound || mutantDataless
}
