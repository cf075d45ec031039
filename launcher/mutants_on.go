//go:build mutants

package launcher

// mutantStaleOutbox is a planted fault, for checkers to catch: a reused outbox still has
// its records. The fault exists only under the build tag mutants.
var mutantStaleOutbox bool

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	mutantStaleOutbox = name == "stale-records"
	return name == "" || mutantStaleOutbox
}
