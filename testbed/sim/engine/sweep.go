package engine

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Sweep runs the seeds from first on, count of them, on all processors. The runs are in
// the order of the seeds.
func Sweep[R any](first uint64, count int, run func(seed uint64) R) []R {
	runs := make([]R, count)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(count); i = next.Add(1) - 1 {
				runs[i] = run(first + uint64(i))
			}
		})
	}
	wait.Wait()
	return runs
}
