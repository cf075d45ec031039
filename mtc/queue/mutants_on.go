//go:build mutants

package queue

// Planted faults, switched on singly, for tests to catch. The faults exist only under the
// build tag mutants.
var (
	mutantAscending bool // the smallest task goes first
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	mutantAscending = name == "ascending"
	return name == "" || mutantAscending
}
