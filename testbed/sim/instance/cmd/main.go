// Command cmd prints what the simulator shows: gathering beside an ideal
// central queue, and fault seeds with their violations.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/filch-hpc/filch/testbed/sim/engine"
	"github.com/filch-hpc/filch/testbed/sim/instance"
)

func main() {
	var (
		nodes = flag.Int("nodes", 1024, "nodes of the workloads")
		slots = flag.Int("slots", 16, "slots of each node")
		jobs  = flag.Int("jobs", 100, "half-cluster jobs")
		tasks = flag.Int("tasks", 0, "small tasks beside as many gangs as jobs, 0 for no ensemble")
		seeds = flag.Int("seeds", 3000, "fault seeds, 0 for none")
		first = flag.Uint64("first", 1, "the first fault seed")
		seed  = flag.Uint64("seed", 0, "run only this fault seed")
		slant = flag.String("slant", "", "give the plans of the seeds more of one thing: "+strings.Join(instance.Slants(), " "))
		v     = flag.Bool("v", false, "with -seed: print all that happens")
	)
	flag.Parse()
	debug.SetGCPercent(300) // memory is not what a run is short of
	if *seed != 0 {
		os.Exit(one(*seed, *slant, *v))
	}
	bad := 0
	if *jobs > 0 && *tasks == 0 {
		bad += workloads(*nodes, *slots, *jobs)
	}
	if *tasks > 0 {
		bad += ensemble(*nodes, *slots, *jobs, *tasks)
	}
	if *seeds > 0 {
		bad += faults(*first, *seeds, *slant)
	}
	if bad > 0 {
		os.Exit(1)
	}
}

// one runs a seed and says what became of it.
func one(seed uint64, slant string, verbose bool) (code int) {
	var tell func(string)
	if verbose {
		tell = func(line string) { fmt.Println(line) }
	}
	r := instance.RunSlanted(seed, slant, tell)
	fmt.Printf("seed %d: %d nodes, %d jobs, %d ends told, %d events, %d messages, hash %016x\n", r.Seed, r.Hosts, r.Jobs, r.Ended, r.Events, r.Messages, r.Hash)
	for _, v := range r.Violations {
		fmt.Println(v)
	}
	return min(len(r.Violations), 1)
}

func workloads(nodes, slots, jobs int) (bad int) {
	began := time.Now()
	var results []*instance.Result
	var events uint64
	for _, s := range instance.Scenarios(nodes, slots, jobs) {
		r := s.Run()
		results = append(results, r)
		events += r.Events
	}
	instance.Table(os.Stdout, results)
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

// ensemble runs gangs beside small tasks.
func ensemble(nodes, slots, gangs, tasks int) int {
	began := time.Now()
	r := instance.Ensemble{Hosts: nodes, Slots: slots, Gangs: gangs, Tasks: tasks, GangRuns: 10 * time.Second, TaskRuns: time.Second, Seed: 1}.Run()
	r.Print(os.Stdout)
	fmt.Printf("in %v\n", time.Since(began).Round(time.Millisecond))
	for _, line := range r.Short() {
		fmt.Println(line)
	}
	return len(r.Short())
}

func faults(first uint64, seeds int, slant string) int {
	began := time.Now()
	runs := engine.Sweep(first, seeds, func(seed uint64) instance.Run { return instance.RunSlanted(seed, slant, nil) })
	t := instance.Sum(os.Stdout, runs)
	took := time.Since(began)
	fmt.Printf("%d fault seeds: %d broke a rule; %d jobs, %d ends told, %d crash points; %d events in %v: %.0f a second\n",
		t.Seeds, t.Bad, t.Jobs, t.Ended, len(t.Points), t.Events, took.Round(time.Millisecond), float64(t.Events)/took.Seconds())
	fmt.Println("acts of the policies of tasks:", t.Acts)
	return t.Bad
}
