// Command cmd runs seeds of the metadata store's simulator: one with its trace,
// or many with a sum.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/filch-hpc/filch/testbed/sim/engine"
	"github.com/filch-hpc/filch/testbed/sim/store"
)

func main() {
	var (
		seed    = flag.Uint64("seed", 0, "run only this seed")
		verbose = flag.Bool("v", false, "print the trace of the seed")
		seeds   = flag.Int("seeds", 3000, "how many seeds")
		grow    = flag.Bool("grow", false, "only runs in which shards are split")
		first   = flag.Uint64("first", 1, "the first of them")
	)
	flag.Parse()
	debug.SetGCPercent(300) // memory is not what a run is short of
	run := store.RunSeed
	if *grow {
		run = store.RunGrowing
	}
	if *seed != 0 {
		os.Exit(one(run, *seed, *verbose))
	}
	if many(run, *first, *seeds) > 0 {
		os.Exit(1)
	}
}

// runner runs a seed.
type runner func(seed uint64, trace func(line string)) store.Run

func one(run runner, seed uint64, verbose bool) int {
	var trace func(string)
	if verbose {
		trace = func(line string) { fmt.Println(line) }
	}
	r := run(seed, trace)
	for _, v := range r.Violations {
		fmt.Printf("seed %d (%s): %v\n", r.Seed, r.Style, v)
	}
	fmt.Printf("seed %d (%s): hash %016x, %+v\n", r.Seed, r.Style, r.Hash, r.Stats)
	return min(len(r.Violations), 1)
}

// chunk bounds how many runs are in memory at once.
const chunk = 20_000

func many(run runner, first uint64, seeds int) (bad int) {
	began := time.Now()
	for done := 0; done < seeds; done += chunk {
		runs := engine.Sweep(first+uint64(done), min(chunk, seeds-done), func(seed uint64) store.Run { return run(seed, nil) })
		t := store.Sum(os.Stdout, runs)
		bad += t.Bad
		took := time.Since(began)
		fmt.Printf("store: %v; %d seeds in %v: %.1f a second\n", &t, done+t.Seeds, took.Round(time.Millisecond), float64(done+t.Seeds)/took.Seconds())
	}
	return bad
}
