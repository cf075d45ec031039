package local

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// Lend answers the ask of a gather. With half, Lend lends at most half of the free room; a job
// that takes whole nodes gets all of the node or nothing.
func Lend(l *slots.Ledger, now time.Duration, a slots.Ask, half bool) slots.Status {
	limit := int32(filch.Unbounded)
	if half && !a.Exclusive {
		limit = stealer.Half(l.Spare(a))
	}
	return l.Ask(now, a, limit)
}
