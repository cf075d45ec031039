//go:build mutants

package graph

// Planted faults, for tests to catch.
var (
	mutantCounter    bool // parents are counted down, not kept as a set
	mutantAfterFeeds bool // each parent counts as a writer of inputs
)

// Plant switches on the named fault, or off; "" is none.
func Plant(name string) bool {
	mutantCounter, mutantAfterFeeds = name == "parent-counter", name == "after-feeds"
	return name == "" || mutantCounter || mutantAfterFeeds
}
