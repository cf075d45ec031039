//go:build !mutants

package stealer

// The planted fault, off; see mutants_on.go.
const mutantStaleGrant = false
