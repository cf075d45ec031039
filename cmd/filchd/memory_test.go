package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestMemoryLimitFollowsWhatIsLive(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	limitMemory(time.Hour)
	if got := debug.SetMemoryLimit(-1); got != softMemory {
		t.Fatalf("got %d at first, want %d", got, softMemory)
	}
	reaches := func(what string, ok func(limit int64) bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !ok(debug.SetMemoryLimit(-1)); {
			if time.Now().After(end) {
				t.Fatalf("%s: got %d", what, debug.SetMemoryLimit(-1))
			}
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
	}
	held := make([]byte, 64<<20)
	reaches("with 64 MB live", func(l int64) bool { return l > 128<<20 && l < math.MaxInt64 })
	runtime.KeepAlive(held)
	held = nil
	reaches("with nothing live", func(l int64) bool { return l == softMemory })
}

func TestMemoryGoesBackAtRest(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	limitMemory(100 * time.Millisecond)
	held := make([][]byte, 1<<14) // 16 MB in spans that stay in the heap
	for i := range held {
		held[i] = make([]byte, 1<<10)
	}
	free := func() int64 { return bytesOf("/memory/classes/heap/free:bytes") }
	runtime.KeepAlive(held)
	held = nil
	runtime.GC()
	for end := time.Now().Add(20 * time.Second); free() > spareMax; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are free and held, at most %d may be", free(), spareMax)
		}
	}
}
