// Package pool decides how many allocations an instance asks of a batch system.
//
// A pool is a record in the store: what the user asked for ([Spec]), the allocations that
// are queued or run, and the counts. One node at a time is the holder of the pool. The
// holder looks at the instance and at the batch system every second, and changes the
// record by compare-and-swap; the record names each submission before the holder submits.
// So a holder that takes over finds a submission of the holder before by the name of the
// batch job, and an allocation is never asked for twice. A submission that is given up and
// comes late is cancelled.
//
// CloudKon (paper, III.C) starts a worker when the queue has grown by more than a threshold
// between two looks, and a worker ends itself when it was idle for a while and its lease is
// about to be renewed. This package keeps both rules, and counts the allocations that are
// queued, so that a burst is answered once.
//
// The package is pure: a caller tells the time, what the instance and the batch system
// look like, and carries out the orders.
package pool
