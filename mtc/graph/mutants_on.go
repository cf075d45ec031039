//go:build mutants

package graph

// mutantCounter is a planted fault, for tests to catch: parents are counted down, not kept
// as a set.
var mutantCounter bool

// Plant switches on the named fault, or off; "" is none.
func Plant(name string) bool {
	mutantCounter = name == "parent-counter"
	return name == "" || mutantCounter
}
