package makespan

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// PrintPapers runs what the papers do, and filch does in another way: thieves that stop, tasks
// that are taken over late, tasks that are given and stay, and a plan made before the first start.
func PrintPapers(out io.Writer, list []Workflow, hosts int) error {
	for _, print := range []func(io.Writer, []Workflow, int) error{printStops, printDeaths, printGifts, printPlans} {
		if err := print(out, list, hosts); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	return nil
}

// stopAfter is longer than a thief of MATRIX v2 (IV.E) looks for work: the wait doubles up to 50 s.
const stopAfter = 120 * time.Second

// late is a task of a time, and n tasks of a second that become ready then.
func late(after time.Duration, n int) Workflow {
	w := Workflow{Name: fmt.Sprintf("%d tasks of 1 s after %v", n, after)}
	first := w.add("first", after, 0)
	for range n {
		w.add("second", time.Second, 0, first)
	}
	return w
}

// printStops compares thieves that news wakes with thieves that stopped for good.
func printStops(out io.Writer, _ []Workflow, hosts int) error {
	w := late(stopAfter, 20*hosts*slotsEach)
	fmt.Fprintf(out, "Thieves that stopped at the bound of their wait, %d hosts of %d slots, seed 1\n\n| workload | news wakes thieves | thieves stopped |\n|---|---|---|\n| %s |", hosts, slotsEach, w.Name)
	for _, v := range []policy.Victims{policy.ByDefault, policy.NoStealing} {
		t, err := Run(&w, hosts, policy.Policy{Victims: v}, 1, Gigabit)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, " %.1f s |", t.Time.Seconds())
	}
	fmt.Fprintln(out)
	return nil
}

// How old the heart-beat of a task is when other nodes take the task, and how often nodes write
// the heart-beats (ADAGE, IV); and how long filch takes to declare a node dead.
const (
	beatOld  = 125 * time.Second
	beatEach = beatOld / 2
	deadIn   = 5 * time.Second
)

// deathsMost bounds the tasks of the workflows in which a host dies.
const deathsMost = 120

// printDeaths compares how long workloads take if a host dies when a third of the time is over.
func printDeaths(out io.Writer, list []Workflow, hosts int) error {
	fmt.Fprintf(out, "A host of %d dies after a third of the time, %d slots each, seed 1: seconds, and heart-beats of waiting and running tasks by task\n\n| workload | policy | no death | heard after %v | heard after %v | heart-beats each %v | each %v |\n|---|---|---|---|---|---|---|\n", hosts, slotsEach, deadIn, beatOld, beatEach, deadIn/2)
	d := engine.NewDice(1, 2)
	work := append([]Workflow{bag("bag, 0-20 s", 40*hosts*slotsEach, func() time.Duration { return d.Between(0, 20*time.Second) })}, Scaled(list, 1, 1, adages...)...)
	work = slices.DeleteFunc(work, func(w Workflow) bool { return len(w.Nodes) > deathsMost })
	for i := range work {
		for _, p := range []policy.Policy{{Kind: policy.MLB}, {Kind: policy.ADAGE}} {
			w := &work[i]
			calm, err := run(w, hosts, p, 1, Gigabit, death{})
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "| %s | %s | %.0f |", w.Name, p, calm.Time.Seconds())
			for _, heard := range []time.Duration{deadIn, beatOld} {
				t, err := run(w, hosts, p, 1, Gigabit, death{calm.Time / 3, heard})
				if err != nil {
					return err
				}
				fmt.Fprintf(out, " %.0f |", t.Time.Seconds())
			}
			alive := float64(calm.Waited + w.work())
			fmt.Fprintf(out, " %.1f | %.1f |\n", alive/float64(beatEach)/float64(len(w.Lengths)), alive/float64(deadIn/2)/float64(len(w.Lengths)))
		}
	}
	return nil
}

// adages are the workflows of ADAGE, IV.
var adages = []string{"CyberShake_100", "Epigenomics_100", "Inspiral_100", "Montage_100", "Sipht_100"}

// printGifts counts the tasks that busy hosts give away. In ADAGE (listing 4) the giver keeps the
// original, so that each start of an original or a copy has to look the state of the task up, and to
// set the state.
func printGifts(out io.Writer, _ []Workflow, hosts int) error {
	fmt.Fprintf(out, "Work giving, %d hosts of %d slots, seed 1: by task\n\n| workload | tasks given | operations on records, tasks move | operations on records, originals stay |\n|---|---|---|---|\n", hosts, slotsEach)
	for _, w := range Workloads(1, hosts*slotsEach)[:4] {
		t, err := Run(&w, hosts, policy.Policy{Balance: policy.ByGiving}, 1, Gigabit)
		if err != nil {
			return err
		}
		n := float64(len(w.Lengths))
		given := float64(t.Given) / n
		fmt.Fprintf(out, "| %s | %.2f | %.2f | %.2f |\n", w.Name, given, float64(t.Merges)/n, 2*(1+given))
	}
	return nil
}

// deviations are standard deviations of the logarithm of a length by the stated length.
var deviations = []float64{0, 0.3, 1}

// printPlans compares a plan that binds each task to a host before the first start (ADAGE, III and
// the code) with the choice when a task is ready. Tasks take other times than stated. Before the first transfer filch
// takes the network for one of 10 Gb/s; a plan may know better.
func printPlans(out io.Writer, list []Workflow, hosts int) error {
	const seeds = 3
	fmt.Fprintf(out, "A plan made before the first start, %d hosts of %d slots, 1 Gb/s, mean of seeds 1 to %d: seconds\n\n| workload | lengths deviate by | planned before | planned before, bandwidth known | adage | auto |\n|---|---|---|---|---|---|\n", hosts, slotsEach, seeds)
	work := Scaled(list, 1, 1, adages...)
	for i := range work {
		for _, by := range deviations {
			var sums [4]time.Duration
			for seed := range uint64(seeds) {
				w := work[i]
				w.deviate(by, seed+1)
				for k, kind := range []policy.Kind{policy.MLB, policy.MLB, policy.ADAGE, policy.Auto} {
					if w.Bound = nil; k < 2 {
						w.Bound = w.planned(hosts, []int64{10 * Gigabit, Gigabit}[k])
					}
					t, err := Run(&w, hosts, policy.Policy{Kind: kind}, seed+1, Gigabit)
					if err != nil {
						return err
					}
					sums[k] += t.Time / seeds
				}
			}
			fmt.Fprintf(out, "| %s | %.1f | %.1f | %.1f | %.1f | %.1f |\n", work[i].Name, by, sums[0].Seconds(), sums[1].Seconds(), sums[2].Seconds(), sums[3].Seconds())
		}
	}
	return nil
}

// deviate makes the tasks take other times than stated, the same in the mean.
func (w *Workflow) deviate(by float64, seed uint64) {
	d := engine.NewDice(seed, 3)
	w.Lengths = slices.Clone(w.Lengths)
	for i := range w.Lengths {
		w.Lengths[i] = time.Duration(float64(w.Lengths[i]) * math.Exp(by*normal(d)-by*by/2))
	}
}

// planned binds each task to the host where the task would begin first by the stated lengths, the
// longest chain first: after the wait for a slot, and the transfer of the input (ADAGE, III, as in
// the code).
func (w *Workflow) planned(hosts int, network int64) []int {
	stated := make([]time.Duration, len(w.Nodes))
	for i := range stated {
		stated[i] = w.Nodes[i].Length
	}
	g := newIdeal(w.Nodes, stated)
	place, ends, free := make([]int, len(stated)), make([]time.Duration, len(stated)), make([][slotsEach]time.Duration, hosts)
	g.visit(func(i int32) {
		best, slot := time.Duration(math.MaxInt64), 0
		for h := range hosts {
			k := 0
			for s := range free[h] {
				if free[h][s] < free[h][k] {
					k = s
				}
			}
			if at := w.arrives(i, h, free[h][k], place, ends, network); at < best {
				best, place[i], slot = at, h, k
			}
		}
		ends[i] = best + stated[i]
		free[place[i]][slot] = ends[i]
	})
	return place
}

// arrives is when the input of a task is on a host whose slot is free from a time on.
func (w *Workflow) arrives(i int32, host int, free time.Duration, place []int, ends []time.Duration, network int64) time.Duration {
	n, bytes := &w.Nodes[i], int64(0)
	for _, p := range n.Parents {
		if free = max(free, ends[p]); place[p] != host {
			bytes += w.Nodes[p].Output
		}
	}
	if host != 0 {
		bytes += n.Bytes
	}
	return free + policy.TransferTime(bytes, float64(network))
}

// visit calls f for all tasks, parents before children, the longest chain first.
func (w *ideal) visit(f func(i int32)) {
	waits := make([]int, len(w.parents))
	var ready []int32
	for i := range waits {
		if waits[i] = len(w.parents[i]); waits[i] == 0 {
			ready = append(ready, int32(i))
		}
	}
	for len(ready) > 0 {
		k := 0
		for at := range ready {
			if w.urgent(ready[at], ready[k]) < 0 {
				k = at
			}
		}
		i := ready[k]
		ready = slices.Delete(ready, k, k+1)
		f(i)
		for _, c := range w.children[i] {
			if waits[c]--; waits[c] == 0 {
				ready = append(ready, c)
			}
		}
	}
}
