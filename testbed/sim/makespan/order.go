package makespan

import (
	"fmt"
	"io"
	"time"

	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/testbed/sim/engine"
	"github.com/filch-hpc/filch/testbed/sim/tasks"
)

// slotsEach is the slots of a host.
const slotsEach = 4

// HostNumbers are the numbers of hosts.
var HostNumbers = []int{2, 4, 8}

// Bars of the order, as parts of the best makespan.
const (
	LostMean    = 0.01 // where the files state the lengths
	LostWorst   = 0.03
	BlindWorst  = 0.10 // where nothing is known before
	OverheadBar = 1.10 // of the wall time over the ideal, where a slot has longLeast of work
	longLeast   = 5 * time.Second
)

// Known is what the cores know of the tasks of a workflow before the first starts.
type Known uint8

// What is known.
const (
	Lengths Known = iota // how long tasks take; all files are empty
	Sizes                // how much tasks read and write; transfers take no time
	Nothing              // all files are empty
)

func (k Known) String() string { return [...]string{"lengths", "sizes", "nothing"}[k] }

// Loss is what the order of starts of one run loses.
type Loss struct {
	Workflow string
	Hosts    int
	Known    Known
	Best     time.Duration // of schedulers that know all
	By       string        // the best of these
	Order    time.Duration // the ideal slots in the order of starts of the cores
	Wall     time.Duration // of the run itself
	Luck     time.Duration // the mean over random orders
	Lower    time.Duration // no order is better: the longest chain, and the work of a slot
	Long     bool          // a slot has longLeast of work
}

// Lost is the part of the best makespan that the order loses; below 0 if the order is better.
func (l *Loss) Lost() float64 { return float64(l.Order-l.Best) / float64(max(l.Best, 1)) }

// Blind is the part of the best makespan by which random orders are slower, in the mean.
func (l *Loss) Blind() float64 { return float64(l.Luck-l.Best) / float64(max(l.Best, 1)) }

// Slow is the wall time by the best makespan.
func (l *Loss) Slow() float64 { return float64(l.Wall) / float64(max(l.Best, 1)) }

// Order runs a workflow in the shipped cores, and compares the order of starts.
func Order(w *Workflow, hosts int, k Known, p policy.Policy) (Loss, error) {
	order, wall, err := started(w, hosts, k, p)
	if err != nil {
		return Loss{}, err
	}
	i, slots := newIdeal(w.Nodes, w.Lengths), hosts*slotsEach
	l := Loss{Workflow: w.Name, Hosts: hosts, Known: k, Wall: wall, Order: i.list(slots, by(order)), Long: w.work() >= longLeast*time.Duration(slots)}
	l.Best, l.By = i.best(slots)
	l.Luck = i.luck(slots)
	l.Lower = w.work() / time.Duration(slots)
	for _, d := range i.levels {
		l.Lower = max(l.Lower, d)
	}
	return l, nil
}

// runMax bounds the virtual time of a run.
const runMax = 10000 * time.Hour

// fast is a network on which transfers take no time, as for the yardsticks.
const fast = 1e13

// started is the order of starts in the shipped cores, and the wall time.
func started(w *Workflow, hosts int, k Known, p policy.Policy) (order []int32, wall time.Duration, err error) {
	world := tasks.NewWorld(tasks.Options{Seed: 1, Hosts: hosts, Slots: slotsEach, Links: engine.Quiet(), Shared: true, Cost: 2 * time.Microsecond, Policy: p, Victims: policy.Hierarchical, Rate: fast})
	nodes := w.told(k)
	world.Submit(0, submit.Job{Job: 1, Nodes: nodes}, func(_ *engine.Dice, s mtc.Start) time.Duration { return w.Lengths[s.Index] })
	world.Writes(1, func(i int32) int64 { return nodes[i].Output })
	world.RunUntil(runMax, world.AllFinished)
	if broken := world.Verdict(); len(broken) > 0 {
		return nil, 0, fmt.Errorf("cannot run %s on %d hosts: %v", w.Name, hosts, broken)
	}
	return world.Order(1), world.Stats.Finished[1], nil
}

// Sum is what the orders of some runs lose.
type Sum struct {
	Runs        int
	Mean        float64
	Worst, Slow Loss    // the greatest loss, and the slowest of the long ones
	Luck, Blind float64 // what random orders lose, in the mean and at worst
}

// Add takes in a run.
func (s *Sum) Add(l Loss) {
	s.Runs++
	s.Mean += (max(l.Lost(), 0) - s.Mean) / float64(s.Runs)
	s.Luck += (l.Blind() - s.Luck) / float64(s.Runs)
	s.Blind = max(s.Blind, l.Blind())
	if s.Runs == 1 || l.Lost() > s.Worst.Lost() {
		s.Worst = l
	}
	if l.Long && l.Slow() > s.Slow.Slow() {
		s.Slow = l
	}
}

// Holds reports whether the bars hold.
func (s *Sum) Holds(k Known) bool {
	if k != Lengths {
		return s.Worst.Lost() <= BlindWorst
	}
	return s.Mean <= LostMean && s.Worst.Lost() <= LostWorst && s.Slow.Slow() <= OverheadBar
}

// PrintOrder runs workflows on [Sizes] hosts, prints a row for each workflow that loses more
// than least, and the sums, by what is known before.
func PrintOrder(out io.Writer, list []Workflow, p policy.Policy, least float64) (sums [Nothing + 1]Sum, err error) {
	fmt.Fprintf(out, "Order of starts on %v hosts of %d slots, policy %s: lost to the best of critical path, HEFT and min-min\n\n", HostNumbers, slotsEach, p)
	fmt.Fprintf(out, "%-42s %5s %8s %10s %-13s %7s %7s %7s %7s\n", "workflow", "hosts", "known", "best", "by", "lost", "random", "wall", "bound")
	for k := range sums {
		for i := range list {
			for _, hosts := range HostNumbers {
				l, err := Order(&list[i], hosts, Known(k), p)
				if err != nil {
					return sums, err
				}
				sums[k].Add(l)
				if l.Lost() > least {
					fmt.Fprintf(out, "%-42s %5d %8s %9.1fs %-13s %6.2f%% %6.2f%% %7.3f %7.3f\n", l.Workflow, hosts, l.Known, l.Best.Seconds(), l.By, 100*l.Lost(), 100*l.Blind(), l.Slow(), float64(l.Best)/float64(max(l.Lower, 1)))
				}
			}
		}
	}
	for k, sum := range sums {
		fmt.Fprintf(out, "known %s: %d runs, lost %.2f%% in the mean, %.2f%% at worst (%s on %d hosts), random orders %.2f%% in the mean, %.2f%% at worst; slowest wall %.3f of the best (%s on %d hosts): %s\n", Known(k), sum.Runs,
			100*sum.Mean, 100*sum.Worst.Lost(), sum.Worst.Workflow, sum.Worst.Hosts, 100*sum.Luck, 100*sum.Blind, sum.Slow.Slow(), sum.Slow.Workflow, sum.Slow.Hosts, held(sum.Holds(Known(k))))
	}
	return sums, nil
}

func held(ok bool) string {
	if ok {
		return "held"
	}
	return "MISSED"
}
