//go:build mutants

package stealer

// A planted fault that a checker worth its name must catch. It exists only
// under the build tag mutants.
var mutantStaleGrant bool // a grant that comes late counts as news

// Plant switches on the named fault; "" switches it off.
func Plant(name string) bool {
	mutantStaleGrant = name == "stale-grant"
	return name == "" || mutantStaleGrant
}
