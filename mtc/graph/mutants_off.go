//go:build !mutants

package graph

// The planted fault, off; see mutants_on.go.
const mutantCounter = false
