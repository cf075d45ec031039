//go:build !mutants

package search

// The planted faults, all off; see mutants_on.go.
const (
	mutantStealStops = false
	mutantDeaf       = false
	mutantStorm      = false
	mutantSpringless = false
)
