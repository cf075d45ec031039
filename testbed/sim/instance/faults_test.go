package instance

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/filch-hpc/filch/testbed/sim/engine"
	"github.com/filch-hpc/filch/testbed/sim/ranges"
)

// Seeds of the fault runs: FILCH_SEEDS sets how many, FILCH_SEED replays one
// with its trace on standard error. The default is about four minutes of CPU. Longer runs
// go by ranges, and those that broke no rule are remembered; see package ranges.
const (
	seedsDefault = 1000
	seedsRange   = 500
)

func seedsWanted(t *testing.T, fallback int) int {
	t.Helper()
	if testing.Short() {
		fallback = min(fallback, 100)
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
	var text strings.Builder
	sum := sumOf(t, &text, total)
	t.Logf("figure: %d seeds, %d with violations (%d events, %d jobs, %d ends told, %d crash points)", sum.Seeds, sum.Bad, sum.Events, sum.Jobs, sum.Ended, len(sum.Points))
	if sum.Bad > 0 {
		t.Errorf("%d of %d seeds broke a rule: %v\n%s", sum.Bad, sum.Seeds, sum.Rules, text.String())
	}
	if total >= seedsDefault {
		for _, name := range crashPoints {
			if sum.Points["at "+name]+sum.Points["before "+name] == 0 {
				t.Errorf("no seed had a launcher die over %s", name)
			}
		}
		if names := sum.Acts.Missing(); len(names) > 0 {
			t.Errorf("of the policies of tasks, no seed saw: %s; seen: %s", strings.Join(names, ", "), sum.Acts)
		}
	}
}

// The first seeds of each slant: 80 seconds of CPU, or with -short 25 seconds.
const (
	slantSeeds      = 20
	slantSeedsShort = 6
)

// TestSlantSeeds runs the plans that have more of one thing.
func TestSlantSeeds(t *testing.T) {
	count := slantSeeds
	if testing.Short() {
		count = slantSeedsShort
	}
	for _, name := range Slants() {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			copies, successors := atomic.Int64{}, atomic.Int64{}
			sum := Sum(&text, engine.Sweep(1, count, func(seed uint64) Run {
				r := RunSlanted(seed, name, nil)
				copies.Add(int64(r.Copies))
				successors.Add(int64(r.Successors))
				return r
			}))
			if t.Logf("figure: %d copies of tasks began", copies.Load()); name == "replicas" && copies.Load() == 0 {
				t.Error("no copy of a task began")
			}
			if t.Logf("figure: %d tasks waited for the end of another", successors.Load()); name == "brief" && successors.Load() == 0 {
				t.Error("no task was the successor of another")
			}
			if sum.Bad > 0 {
				t.Errorf("%d of %d seeds broke a rule: %v\n%s", sum.Bad, sum.Seeds, sum.Rules, text.String())
			}
		})
	}
}

// simulated are the packages whose sources decide what a seed does.
var simulated = []string{
	".", "dht", "dht/members", "dht/roster", "dht/store", "dht/store/message", "dht/store/record", "varint", "launcher", "launcher/node",
	"launcher/node/local", "launcher/node/origin", "launcher/node/ranks", "launcher/node/records", "launcher/node/tasks",
	"mtc", "mtc/before", "mtc/ends", "mtc/graph", "mtc/lines", "mtc/message", "mtc/mutants", "mtc/plan", "mtc/policy", "mtc/queue", "mtc/record", "mtc/replica", "mtc/search", "mtc/tokens", "slots", "stealer",
	"testbed/sim/disk", "testbed/sim/engine", "testbed/sim/instance", "testbed/sim/peril",
}

// sumOf runs that many seeds and sums them up.
func sumOf(t *testing.T, text *strings.Builder, total int) Total {
	t.Helper()
	run := func(seed uint64) Run { return RunSeed(seed, nil) }
	if total <= seedsDefault {
		return Sum(text, engine.Sweep(1, total, run))
	}
	dir, err := ranges.Dir()
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := ranges.Open(dir, "instance", simulated...)
	if err != nil {
		t.Fatal(err)
	}
	sum, known := Sum(text, nil), 0
	for first := 1; first <= total; first += seedsRange {
		count := min(seedsRange, total-first+1)
		var part Total
		if ledger.Done(uint64(first), count, &part) {
			known += count
		} else if part = Sum(text, engine.Sweep(uint64(first), count, run)); part.Bad == 0 {
			if err := ledger.Keep(uint64(first), count, part); err != nil {
				t.Fatal(err)
			}
		}
		sum.Join(part)
	}
	if known > 0 {
		t.Logf("figure: %d of the seeds were run before, of the same sources", known)
	}
	return sum
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

func TestSameSeedSameHash(t *testing.T) {
	seeds := seedsWanted(t, 60)
	once := engine.Sweep(1, min(seeds, 60), func(seed uint64) Run { return RunSeed(seed, nil) })
	again := engine.Sweep(1, min(seeds, 60), func(seed uint64) Run { return RunSeed(seed, func(string) {}) })
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
