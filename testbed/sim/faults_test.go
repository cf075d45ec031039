package sim

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// Seeds of the fault runs: FILCH_SEEDS sets how many, FILCH_SEED replays one
// with its trace on standard error.
const seedsDefault = 3000

func seedsWanted(t *testing.T, fallback int) int {
	t.Helper()
	if testing.Short() {
		fallback = min(fallback, 200)
	}
	s := os.Getenv("FILCH_SEEDS")
	if s == "" {
		return fallback
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("FILCH_SEEDS is %q, want a positive number", s)
	}
	return n
}

func TestFaultSeeds(t *testing.T) {
	if s := os.Getenv("FILCH_SEED"); s != "" {
		replay(t, s)
		return
	}
	total := seedsWanted(t, seedsDefault)
	runs := sweep(total, func(seed uint64) Run { return RunSeed(seed, nil) })
	var events, jobs, ended, bad int
	points := map[string]int{}
	for _, r := range runs {
		events += int(r.Events)
		jobs += r.Jobs
		ended += r.Ended
		points[r.Fuse]++
		if len(r.Violations) == 0 {
			continue
		}
		if bad++; bad <= 10 {
			t.Errorf("seed %d: %v\n  replay: FILCH_SEED=%d go test -run TestFaultSeeds ./testbed/sim", r.Seed, r.Violations[0], r.Seed)
		}
	}
	t.Logf("%d seeds, %d violations, %d events, %d jobs, %d ends told, %d crash points", total, bad, events, jobs, ended, len(points))
	if bad > 10 {
		t.Errorf("%d seeds in all broke a rule", bad)
	}
	if total >= seedsDefault {
		for _, name := range crashPoints {
			if points["at "+name]+points["before "+name] == 0 {
				t.Errorf("no seed had a launcher die over %s", name)
			}
		}
	}
}

func replay(t *testing.T, s string) {
	seed, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("FILCH_SEED is %q, want a number", s)
	}
	r := RunSeed(seed, func(line string) { os.Stderr.WriteString(line + "\n") })
	for _, v := range r.Violations {
		t.Errorf("seed %d: %v", seed, v)
	}
	t.Logf("seed %d: %d events, %d messages, %d of %d ends told, hash %016x, %s", seed, r.Events, r.Messages, r.Ended, r.Jobs, r.Hash, r.Fuse)
}

// sweep runs seeds 1 to total on all cpus; the results are in order of seed.
func sweep(total int, run func(seed uint64) Run) []Run {
	runs := make([]Run, total)
	var next atomic.Uint64
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for {
				seed := next.Add(1)
				if seed > uint64(total) {
					return
				}
				runs[seed-1] = run(seed)
			}
		})
	}
	wait.Wait()
	return runs
}

func TestSameSeedSameHash(t *testing.T) {
	seeds := seedsWanted(t, 60)
	once := sweep(min(seeds, 60), func(seed uint64) Run { return RunSeed(seed, nil) })
	again := sweep(min(seeds, 60), func(seed uint64) Run { return RunSeed(seed, func(string) {}) })
	var hashes []uint64
	for i := range once {
		if a, b := once[i].Hash, again[i].Hash; a != b || once[i].Events != again[i].Events {
			t.Errorf("seed %d: hash %016x in %d events, then %016x in %d", once[i].Seed, a, once[i].Events, b, again[i].Events)
		}
		hashes = append(hashes, once[i].Hash)
	}
	slices.Sort(hashes)
	if n := len(slices.Compact(hashes)); n < len(once) {
		t.Errorf("%d seeds have %d hashes", len(once), n)
	}
}
