package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// softMemory is what the collector keeps the heap, the stacks and the rest
	// of the runtime to; with the program itself that is less than 40 MB
	// resident.
	softMemory = 24 << 20
	// besideHeap is the part of it that is not heap.
	besideHeap = 8 << 20
)

// limitMemory keeps a launcher small for as long as what it holds is small. Its
// part of the shared store may be more than that: a limit below what is live
// would have the collector run all the time, so after each collection it becomes
// twice what is live, and falls again with that.
func limitMemory() {
	debug.SetMemoryLimit(softMemory)
	eachCollection(func() {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		if live[0].Value.Kind() == metrics.KindUint64 {
			debug.SetMemoryLimit(limitFor(int64(live[0].Value.Uint64())))
		}
	})
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
