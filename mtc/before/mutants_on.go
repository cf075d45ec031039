//go:build mutants

package before

// Planted faults, switched on singly, for checkers to catch. They exist only under the
// build tag mutants.
var (
	mutantIgnored bool // a job begins before its conditions are met
	mutantTwice   bool // a condition that was met counts again with each look
	mutantEarly   bool // the first end in a block counts as the ends of all of its tasks
	mutantTorn    bool // a block that was read before the end of its job counts

	mutantUnordered bool // the lengths of a bag's tasks do not count
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, p := range map[string]*bool{ // any order
		"before-ignored": &mutantIgnored,
		"before-twice":   &mutantTwice,
		"each-early":     &mutantEarly,
		"before-torn":    &mutantTorn,
		"unordered":      &mutantUnordered,
	} {
		*p = n == name
		known = known || *p
	}
	return known
}
