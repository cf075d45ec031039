package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// softMemory is the collector's limit for the heap, the stacks and the rest of the
	// runtime; together with the program itself less than 40 MB are resident.
	softMemory = 24 << 20
	// besideHeap is the part of softMemory outside the heap.
	besideHeap = 8 << 20

	// restAfter is the time without a collection after which a launcher is at rest.
	restAfter = 5 * time.Second
	// spareMax is the unused heap that a launcher at rest may hold.
	spareMax = 2 << 20
)

// limitMemory keeps a launcher small as long as its live data is small. The launcher's
// part of the shared store may exceed softMemory: a limit below the live data would
// keep the collector running all the time. So after each collection the limit becomes
// twice the live data, and falls again with the live data. When a launcher has been at
// rest for a time, the unused memory of a burst of work goes back to the system.
func limitMemory(rest time.Duration) {
	debug.SetMemoryLimit(softMemory)
	atRest := time.AfterFunc(rest, giveBack)
	eachCollection(func() {
		debug.SetMemoryLimit(limitFor(bytesOf("/gc/heap/live:bytes")))
		atRest.Reset(rest)
	})
}

// giveBack returns unused heap to the system, if there is much.
func giveBack() {
	garbage := bytesOf("/memory/classes/heap/objects:bytes") - bytesOf("/gc/heap/live:bytes")
	if garbage+bytesOf("/memory/classes/heap/free:bytes") > spareMax {
		debug.FreeOSMemory()
	}
}

// bytesOf reads a metric of the runtime, 0 if the runtime has no metric of the name.
func bytesOf(name string) int64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(s[0].Value.Uint64())
}

func limitFor(live int64) int64 { return max(softMemory, 2*live+besideHeap) }

// eachCollection calls f after every collection: the collector finalizes an
// unreferenced object, and the finalizer leaves the next object.
func eachCollection(f func()) {
	sentinel := new([16]byte)
	runtime.SetFinalizer(sentinel, func(*[16]byte) {
		f()
		eachCollection(f)
	})
}
