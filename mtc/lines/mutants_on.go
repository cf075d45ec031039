//go:build mutants

package lines

// mutantWaitForDead is a planted fault, for tests to catch: a node waits for lines that a dead
// node should have written.
var mutantWaitForDead bool

// Plant switches on the named fault, or off; "" is none.
func Plant(name string) bool {
	mutantWaitForDead = name == "wait-for-dead"
	return name == "" || mutantWaitForDead
}
