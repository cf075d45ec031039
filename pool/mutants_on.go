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
	mutantUnstored    bool // orders of a record that was not stored are carried out
	mutantEndsBusy    bool // an allocation with work is idle, and is cancelled
	mutantBusyUseful  bool // an allocation whose nodes had work did what it was asked for
	mutantStrays      bool // batch jobs that the record does not name stay
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, p := range map[string]*bool{ // any order
		"blind-heir": &mutantBlindHeir, "hasty-heir": &mutantHasty, "queued-free": &mutantQueuedFree, "cancel-once": &mutantCancelOnce,
		"keeps-idle": &mutantKeeps, "forgets-lost": &mutantForgets, "endless-tries": &mutantEndless, "no-successor": &mutantNoSuccessor,
		"unstored-orders": &mutantUnstored, "ends-busy": &mutantEndsBusy, "leaves-strays": &mutantStrays, "busy-is-useful": &mutantBusyUseful,
	} {
		*p = n == name
		known = known || *p
	}
	return known
}
