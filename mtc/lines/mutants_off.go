//go:build !mutants

package lines

// mutantWaitForDead is a planted fault, off; see mutants_on.go.
const mutantWaitForDead = false
