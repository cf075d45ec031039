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
	limitMemory()
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
