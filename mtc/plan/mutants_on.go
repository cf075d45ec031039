//go:build mutants

package plan

// Planted faults, switched on singly, for tests to catch. The faults exist only under the
// build tag mutants.
var (
	mutantInOrder bool // tasks that become ready together are placed in the order of their numbers
	mutantStays   bool // auto never changes its choice
	mutantAlone   bool // the tasks behind a task do not count for its level
	mutantFlips   bool // auto chooses again at each end, to and fro where estimates are near a bound
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, p := range map[string]*bool{ // any order
		"in-order": &mutantInOrder, "choice-stays": &mutantStays, "choice-flips": &mutantFlips, "level-alone": &mutantAlone,
	} {
		*p = n == name
		known = known || *p
	}
	return known
}
