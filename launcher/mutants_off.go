//go:build !mutants

package launcher

// The planted fault, off; see mutants_on.go.
const mutantStaleOutbox = false
