//go:build mutants

package launcher

// Planted faults, switched on singly, for checkers to catch. They exist only under the build
// tag mutants.
var (
	mutantStaleOutbox bool // a reused outbox still has its records
	mutantSameTry     bool // a gang whose owner died starts again under the same number
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	mutantStaleOutbox = name == "stale-records"
	mutantSameTry = name == "same-try"
	return name == "" || mutantStaleOutbox || mutantSameTry
}
