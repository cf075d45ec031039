package sim

import (
	"os"
	"slices"
	"strconv"
	"strings"
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
	runs := Sweep(1, total, func(seed uint64) Run { return RunSeed(seed, nil) })
	var text strings.Builder
	sum := Sum(&text, runs)
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

func TestSameSeedSameHash(t *testing.T) {
	seeds := seedsWanted(t, 60)
	once := Sweep(1, min(seeds, 60), func(seed uint64) Run { return RunSeed(seed, nil) })
	again := Sweep(1, min(seeds, 60), func(seed uint64) Run { return RunSeed(seed, func(string) {}) })
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
