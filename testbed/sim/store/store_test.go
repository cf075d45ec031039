package store

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// seedsDefault is what a commit must stand; FILCH_SEEDS sets another number.
const seedsDefault = 2000

// bereftMax is the share of seeds in which a shard may lose the disks of all who
// held it last, and so stay unavailable, or a record what of it was on them:
// more would mean that there is too little left to check. Of few seeds, bereftLeast may
// do so all the same.
const (
	bereftMax   = 0.003
	bereftLeast = 3
)

func seedsWanted(t *testing.T) int {
	t.Helper()
	if s := os.Getenv("FILCH_SEEDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("FILCH_SEEDS is %q, want a positive number", s)
		}
		return n
	}
	if testing.Short() {
		return 100
	}
	return seedsDefault
}

func TestStoreSeeds(t *testing.T) {
	seeds := seedsWanted(t)
	began := time.Now()
	runs := engine.Sweep(1, seeds, func(seed uint64) Run { return RunSeed(seed, nil) })
	took := time.Since(began)
	var text strings.Builder
	sum := Sum(&text, runs)
	t.Logf("figure: %v; %.1f seeds/s", &sum, float64(seeds)/took.Seconds())
	bereft := 0
	for i := range runs {
		if s := &runs[i].Stats; s.Bereft+s.RostersLost+s.Lacking > 0 {
			bereft++
		}
	}
	t.Logf("figure: %d of %d seeds lost a shard, a record or the roster with their disks", bereft, seeds)
	if sum.Bad > 0 {
		t.Errorf("%d of %d seeds broke a rule: %v\n%s", sum.Bad, sum.Seeds, sum.Rules, text.String())
	}
	if float64(bereft) > max(bereftLeast, bereftMax*float64(seeds)) {
		t.Errorf("%d of %d seeds lost a shard, a record or the roster with their disks", bereft, seeds)
	}
	s := &sum.Stats
	if seeds >= seedsDefault && (s.Lost == 0 || s.Unknown == 0 || s.Plain == 0 || s.Splits == 0) {
		t.Errorf("%d plain lookups, %d lost shards, %d unknown outcomes and %d splits in %d seeds: the faults do not bite", s.Plain, s.Lost, s.Unknown, s.Splits, seeds)
	}
}

func TestStoreSameSeedSameHash(t *testing.T) {
	count := min(seedsWanted(t), 40)
	once := engine.Sweep(1, count, func(seed uint64) Run { return RunSeed(seed, nil) })
	again := engine.Sweep(1, count, func(seed uint64) Run { return RunSeed(seed, func(string) {}) })
	var hashes []uint64
	for i := range once {
		if a, b := once[i], again[i]; a.Hash != b.Hash || a.Stats.Events != b.Stats.Events {
			t.Errorf("seed %d: hash %016x in %d events, then %016x in %d", a.Seed, a.Hash, a.Stats.Events, b.Hash, b.Stats.Events)
		}
		hashes = append(hashes, once[i].Hash)
	}
	slices.Sort(hashes)
	if n := len(slices.Compact(hashes)); n < count {
		t.Errorf("%d seeds have %d hashes", count, n)
	}
}

// TestModel shows that the model of a key refuses what it must.
func TestModel(t *testing.T) {
	at := int64(0)
	op := func(code dht.OpCode, value, want string, o dht.Outcome, got string) *entry {
		at += 2
		return &entry{op: dht.Op{Code: code, Value: []byte(value), Consistent: true}, want: want, call: at, back: at + 1, result: dht.Result{Outcome: o}, got: got}
	}
	open := func(e *entry) *entry { e.open, e.back = true, never; return e }
	tests := []struct {
		name string
		want porcupine.CheckResult
		ops  []*entry
	}{
		{"insert-shows", porcupine.Ok, []*entry{op(dht.OpInsert, "a", "", dht.Done, ""), op(dht.OpLookup, "", "", dht.Done, "=a")}},
		{"insert-lost", porcupine.Illegal, []*entry{op(dht.OpInsert, "a", "", dht.Done, ""), op(dht.OpLookup, "", "", dht.Absent, "")}},
		{"two-inserts", porcupine.Illegal, []*entry{op(dht.OpInsert, "a", "", dht.Done, ""), op(dht.OpInsert, "b", "", dht.Done, "")}},
		{"swap-of-old", porcupine.Illegal, []*entry{op(dht.OpInsert, "a", "", dht.Done, ""), op(dht.OpSwap, "b", "=a", dht.Done, ""), op(dht.OpSwap, "c", "=a", dht.Done, "")}},
		{"swap-mismatch", porcupine.Ok, []*entry{op(dht.OpInsert, "a", "", dht.Done, ""), op(dht.OpSwap, "c", "=x", dht.Mismatch, "=a")}},
		{"spurious-mismatch", porcupine.Illegal, []*entry{op(dht.OpInsert, "a", "", dht.Done, ""), op(dht.OpSwap, "c", "=a", dht.Mismatch, "=a")}},
		{"append-twice", porcupine.Illegal, []*entry{op(dht.OpAppend, "a", "", dht.Done, ""), op(dht.OpLookup, "", "", dht.Done, "=a,a")}},
		{"open-seen", porcupine.Ok, []*entry{open(op(dht.OpAppend, "a", "", 0, "")), op(dht.OpLookup, "", "", dht.Absent, ""), op(dht.OpLookup, "", "", dht.Done, "=a")}},
		{"open-unseen-again", porcupine.Illegal, []*entry{open(op(dht.OpAppend, "a", "", 0, "")), op(dht.OpLookup, "", "", dht.Done, "=a"), op(dht.OpLookup, "", "", dht.Absent, "")}},
		{"first-parent-stays", porcupine.Ok, []*entry{op(dht.OpMerge, "", "=p1=x", dht.Done, ""), op(dht.OpMerge, "", "=p1=y", dht.Done, ""), op(dht.OpLookup, "", "", dht.Done, "=p1=x")}},
		{"parent-overwritten", porcupine.Illegal, []*entry{op(dht.OpMerge, "", "=p1=x", dht.Done, ""), op(dht.OpMerge, "", "=p1=y", dht.Done, ""), op(dht.OpLookup, "", "", dht.Done, "=p1=y")}},
		{"greatest", porcupine.Ok, []*entry{op(dht.OpMerge, "", "=max=9", dht.Done, ""), op(dht.OpMerge, "", "=max=10", dht.Done, ""), op(dht.OpMerge, "", "=max=8", dht.Done, ""), op(dht.OpLookup, "", "", dht.Done, "=max=10")}},
		{"remove", porcupine.Ok, []*entry{op(dht.OpInsert, "a", "", dht.Done, ""), op(dht.OpRemove, "", "", dht.Done, ""), op(dht.OpLookup, "", "", dht.Absent, "")}},
		{"remove-of-nothing", porcupine.Illegal, []*entry{op(dht.OpRemove, "", "", dht.Done, "")}},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			if got := linearizable(x.ops); got != x.want {
				t.Errorf("got %v, want %v", got, x.want)
			}
		})
	}
}

// TestStoreDrains has nodes that leave stay up, and come back before they were let
// go or after.
func TestStoreDrains(t *testing.T) {
	seeds := min(seedsWanted(t), 1000)
	runs := engine.Sweep(1, seeds, func(seed uint64) Run {
		p := drawPlan(seed)
		p.drains = true
		return runPlan(p, nil)
	})
	var text strings.Builder
	sum := Sum(&text, runs)
	t.Logf("figure: %v", &sum)
	if sum.Bad > 0 {
		t.Errorf("%d of %d seeds broke a rule: %v\n%s", sum.Bad, sum.Seeds, sum.Rules, text.String())
	}
}
