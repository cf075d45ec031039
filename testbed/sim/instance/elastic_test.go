package instance

import (
	"os"
	"strconv"
	"testing"

	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// The first seeds of worlds with a pool; with -short fewer.
const (
	elasticSeeds      = 48
	elasticSeedsShort = 8 // one of each plan
)

// TestElasticSeeds runs whole nodes that come and go with a pool and a simulated batch system
// that delays, refuses, holds, loses and ends jobs, while holders die and messages are lost: no
// allocation is submitted twice, none is asked for without work, none is left, every task ends
// well and runs once or says why, gangs start.
func TestElasticSeeds(t *testing.T) {
	if s := os.Getenv("FILCH_ELASTIC"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		w := ElasticRun(seed, engine.LooksOf(seed), func(line string) { os.Stderr.WriteString(line + "\n") })
		for _, v := range w.Broken() {
			t.Error(v)
		}
		return
	}
	count := elasticSeeds
	if testing.Short() {
		count = elasticSeedsShort
	}
	count = seedsWanted(t, count)
	submitted, runs := 0, engine.Sweep(1, count, func(seed uint64) *World { return ElasticRun(seed, engine.LooksOf(seed), nil) })
	events, tasks := uint64(0), 0
	for i, w := range runs {
		for _, v := range w.Broken() {
			t.Errorf("seed %d: %v", i+1, v)
		}
		submitted += w.elastic.batch.accepted
		events += w.Steps()
		for _, b := range w.bags {
			for _, n := range b.oks {
				tasks += int(min(n, 1))
			}
		}
	}
	t.Logf("figure: %d seeds, %d allocations, %d tasks, %d events", count, submitted, tasks, events)
}
