package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// softMemory is what the collector keeps the heap, the stacks and the rest
	// of the runtime to; with the program itself that is less than 40 MB
	// resident.
	softMemory = 24 << 20
	// besideHeap is the part of it that is not heap.
	besideHeap = 8 << 20

	// restAfter is for how long nothing was collected when a launcher is at rest.
	restAfter = 5 * time.Second
	// spareMax is what the heap of a launcher at rest may hold and not use.
	spareMax = 2 << 20
)

// limitMemory keeps a launcher small for as long as what it holds is small. Its
// part of the shared store may be more than that: a limit below what is live
// would have the collector run all the time, so after each collection it becomes
// twice what is live, and falls again with that. What a burst of work needed goes
// back to the system when a launcher has been at rest for a time.
func limitMemory(rest time.Duration) {
	debug.SetMemoryLimit(softMemory)
	atRest := time.AfterFunc(rest, giveBack)
	eachCollection(func() {
		debug.SetMemoryLimit(limitFor(bytesOf("/gc/heap/live:bytes")))
		atRest.Reset(rest)
	})
}

// giveBack returns to the system what the heap does not need, if that is much.
func giveBack() {
	garbage := bytesOf("/memory/classes/heap/objects:bytes") - bytesOf("/gc/heap/live:bytes")
	if garbage+bytesOf("/memory/classes/heap/free:bytes") > spareMax {
		debug.FreeOSMemory()
	}
}

// bytesOf reads a metric of the runtime, 0 where there is none of that name.
func bytesOf(name string) int64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(s[0].Value.Uint64())
}

func limitFor(live int64) int64 { return max(softMemory, 2*live+besideHeap) }

// eachCollection calls f after every collection: an object that nobody holds
// has been found, and the next one is left behind.
func eachCollection(f func()) {
	sentinel := new([16]byte)
	runtime.SetFinalizer(sentinel, func(*[16]byte) {
		f()
		eachCollection(f)
	})
}
