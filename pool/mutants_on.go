//go:build mutants

package pool

// Planted faults, switched on singly, for tests to catch.
var (
	mutantBlindHeir   bool // a holder that takes over does not look for submissions by name
	mutantHasty       bool // it does not wait before it gives a submission up either
	mutantQueuedFree  bool // queued allocations are not counted
	mutantCancelOnce  bool // a lost cancel is not repeated
	mutantKeeps       bool // idle allocations are kept
	mutantForgets     bool // a batch job that the batch system has lost is waited for
	mutantEndless     bool // failures do not pause the pool
	mutantNoSuccessor bool // an allocation that ends soon counts as one that stays
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, p := range map[string]*bool{ // any order
		"blind-heir": &mutantBlindHeir, "hasty-heir": &mutantHasty, "queued-free": &mutantQueuedFree, "cancel-once": &mutantCancelOnce,
		"keeps-idle": &mutantKeeps, "forgets-lost": &mutantForgets, "endless-tries": &mutantEndless, "no-successor": &mutantNoSuccessor,
	} {
		*p = n == name
		known = known || *p
	}
	return known
}
