// Command sim prints what the simulator shows: gathering beside an ideal
// central queue, and fault seeds with their violations.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/filch-hpc/filch/testbed/sim"
)

func main() {
	var (
		nodes = flag.Int("nodes", 1024, "nodes of the workloads")
		slots = flag.Int("slots", 16, "slots of each node")
		jobs  = flag.Int("jobs", 100, "half-cluster jobs")
		seeds = flag.Int("seeds", 3000, "fault seeds, 0 for none")
		first = flag.Uint64("first", 1, "the first fault seed")
		trace = flag.Uint64("trace", 0, "run only this fault seed and print its trace")
	)
	flag.Parse()
	debug.SetGCPercent(300) // memory is not what a run is short of
	if *trace != 0 {
		r := sim.RunSeed(*trace, func(line string) { fmt.Println(line) })
		for _, v := range r.Violations {
			fmt.Println(v)
		}
		os.Exit(min(len(r.Violations), 1))
	}
	bad := 0
	if *jobs > 0 {
		bad += workloads(*nodes, *slots, *jobs)
	}
	if *seeds > 0 {
		bad += faults(*first, *seeds)
	}
	if bad > 0 {
		os.Exit(1)
	}
}

func workloads(nodes, slots, jobs int) (bad int) {
	began := time.Now()
	var results []*sim.Result
	var events uint64
	for _, s := range sim.Scenarios(nodes, slots, jobs) {
		r := s.Run()
		results = append(results, r)
		events += r.Events
	}
	sim.Table(os.Stdout, results)
	took := time.Since(began)
	fmt.Printf("%d events in %v: %.0f a second\n", events, took.Round(time.Millisecond), float64(events)/took.Seconds())
	for _, r := range results {
		for _, line := range r.Short() {
			fmt.Println(line)
			bad++
		}
	}
	return bad
}

func faults(first uint64, seeds int) int {
	began := time.Now()
	runs := sim.Sweep(first, seeds, func(seed uint64) sim.Run { return sim.RunSeed(seed, nil) })
	t := sim.Sum(os.Stdout, runs)
	took := time.Since(began)
	fmt.Printf("%d fault seeds: %d broke a rule; %d jobs, %d ends told, %d crash points; %d events in %v: %.0f a second\n",
		t.Seeds, t.Bad, t.Jobs, t.Ended, len(t.Points), t.Events, took.Round(time.Millisecond), float64(t.Events)/took.Seconds())
	return t.Bad
}
