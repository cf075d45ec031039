package policy

import (
	"time"

	"github.com/filch-hpc/filch"
)

// aheadTime is how long a thief may work on the tasks of a workflow that it takes for later.
const aheadTime = 100 * time.Millisecond

// Ahead is how many tasks of a workflow a thief takes: one for each free slot, and as many as
// its slots run in aheadTime. The others wait where the tasks behind them become ready, so
// that the most urgent task of all goes to the next free slot: a thief that took half of the
// tasks would run these before more urgent ones that become ready meanwhile.
func Ahead(free, slots int32, mean time.Duration) int64 {
	if mutantGreedy {
		return filch.Unbounded
	}
	later := float64(max(slots, free)) * float64(aheadTime) / float64(max(mean, time.Microsecond))
	return int64(max(free, 0)) + int64(min(later, filch.Unbounded))
}
