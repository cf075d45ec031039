//go:build mutants

package plan

// Planted faults, switched on singly, for tests to catch. The faults exist only under the
// build tag mutants.
var mutantInOrder bool // tasks that become ready together are placed in the order of their numbers

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	mutantInOrder = name == "in-order"
	return name == "" || mutantInOrder
}
