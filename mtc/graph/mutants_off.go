//go:build !mutants

package graph

// The planted faults, all off; see mutants_on.go.
const (
	mutantCounter    = false
	mutantAfterFeeds = false
)
