//go:build mutants

package plan

// Planted faults, switched on singly, for tests to catch. The faults exist only under the
// build tag mutants.
var (
	mutantInOrder bool // tasks that become ready together are placed in the order of their numbers
	mutantStays   bool // auto never changes its choice
	mutantFlips   bool // auto chooses again at each end, to and fro where estimates are near a bound
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	mutantInOrder, mutantStays, mutantFlips = name == "in-order", name == "choice-stays", name == "choice-flips"
	return name == "" || mutantInOrder || mutantStays || mutantFlips
}
