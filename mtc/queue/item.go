package queue

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
)

// Item is a single task in a queue.
type Item struct {
	Index   int32
	Attempt filch.Attempt
	Hop     uint32
	Crashes uint8
	Recalls uint8
	Tracked bool // commit the start before the task begins
	Maybe   bool // as [record.Task.Maybe]
	Rebound bool // a dedicated task that was offered to a free node with its data
	// Need is the number of the task's need plus 1; 0 as long as no node has seen the
	// task's line.
	Need   int32
	Since  uint32        // the [Stamp] of its coming to the queue; 0: unknown
	Level  time.Duration // bottom level of a workflow's task; 0: unknown
	Bytes  int64
	Inputs []policy.Input // of a workflow's task
}

// Next is the task for its next attempt, queued now.
func (a Item) Next(now time.Duration) Item {
	a.Attempt++
	a.Since = Stamp(now)
	a.Hop, a.Tracked = 0, true
	return a
}

// Heap orders single tasks: the highest bottom level first (ADAGE, III), then most input
// first (MATRIX v2, III.B.2: descending by required data), then by index, so that tasks
// without data keep the order of submission. A task of unknown level goes before the
// others: the task's first owner is dead, and the tasks behind have waited longest.
type Heap = filch.Heap[Item, *Item]

// Before reports whether a goes before b.
func (a *Item) Before(b *Item) bool {
	if a.Level != b.Level && !mutantLevelless {
		return b.Level != 0 && (a.Level == 0 || a.Level > b.Level)
	}
	if a.Bytes != b.Bytes {
		if mutantAscending {
			return a.Bytes < b.Bytes
		}
		return a.Bytes > b.Bytes
	}
	return a.Index < b.Index
}

// Fits subtracts a task's greatest need of space in an offer from the space left; false
// if the task needs more.
func (a *Item) Fits(space *int) bool {
	n := 64
	for i := range a.Inputs {
		n += 16 + len(a.Inputs[i].Node)
	}
	if n > *space {
		return false
	}
	*space -= n
	return true
}
