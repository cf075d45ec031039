package makespan

import (
	"fmt"
	"io"
	"time"

	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/testbed/sim/engine"
	"github.com/filch-hpc/filch/testbed/sim/tasks"
)

// Fixed are the policies that do not choose.
var Fixed = []string{"mlb", "mdl", "rlds", "flds", "adage", "mlb,victims=dvs"}

// Gigabit is the bandwidth of a host in bytes per second (ADAGE, IV).
const Gigabit = 125 * Megabyte

// Took is the result of a workload with a policy.
type Took struct {
	Time     time.Duration
	Local    float64       // part of the input that was on the host of the task
	Messages int           // between cores
	Merges   int           // operations on records
	Given    int           // tasks that hosts offered unasked
	Late     int           // tasks bound to a host that were offered once more
	Bundles  int           // see [tasks.Stats]
	Waited   time.Duration // from the submission to the start, the sum of all tasks
}

// death is the death of a host: the host with the number 1 dies for good.
type death struct {
	at    time.Duration // 0: no host dies
	heard time.Duration // how much later other hosts hear of the death
}

// Run is how long a workload takes on hosts with a policy; network is their bandwidth.
func Run(w *Workflow, hosts int, p policy.Policy, seed uint64, network int64) (Took, error) {
	return run(w, hosts, p, seed, network, death{})
}

func run(w *Workflow, hosts int, p policy.Policy, seed uint64, network int64, dies death) (t Took, err error) {
	world := tasks.NewWorld(tasks.Options{Seed: seed, Hosts: hosts, Slots: slotsEach, Links: engine.Quiet(), Shared: dies.at == 0, Detect: dies.heard, Cost: 2 * time.Microsecond, Policy: p, Victims: policy.Hierarchical, Rate: network})
	if dies.at > 0 {
		world.Crash(1, dies.at)
	}
	s := submit.Job{Job: 1, Nodes: w.Nodes, Spread: w.Spread}
	if len(w.Bound) > 0 {
		tasks.Bind(&s, w.Bound)
	}
	if len(s.Nodes) == 0 {
		s.Total = int32(len(w.Lengths))
	}
	if w.Stated {
		s.Long = record.NewLengths(w.Lengths)
	}
	world.Submit(0, s, func(_ *engine.Dice, s mtc.Start) time.Duration { return w.Lengths[s.Index] })
	world.Writes(1, w.output)
	world.RunUntil(runMax, world.AllFinished)
	if broken := world.Verdict(); len(broken) > 0 {
		return t, fmt.Errorf("cannot run %s on %d hosts with %s: %v", w.Name, hosts, p, broken)
	}
	for _, n := range world.Stats.Messages {
		t.Messages += n
	}
	t.Merges, t.Bundles, t.Given, t.Late = world.Stats.Merges, world.Stats.Bundles, world.Stats.Given, world.Stats.Late
	t.Time, t.Local = world.Stats.Finished[1], 1
	for _, at := range world.Began(1) {
		t.Waited += at
	}
	if world.Stats.Input > 0 {
		t.Local = 1 - float64(world.Stats.Moved)/float64(world.Stats.Input)
	}
	return t, nil
}

// BehindMax is the part of the best fixed policy's time by which auto may be slower.
const BehindMax = 0.03

// Row is one workload with all policies.
type Row struct {
	Workflow string
	Hosts    int
	Fixed    []Took // as in [Fixed]
	Auto     Took
}

// Best is the place of the best policy in [Fixed].
func (r *Row) Best() (best int) {
	for k := range r.Fixed {
		if r.Fixed[k].Time < r.Fixed[best].Time {
			best = k
		}
	}
	return best
}

// Behind is the part of the best fixed policy's time by which auto is slower.
func (r *Row) Behind() float64 {
	best := r.Fixed[r.Best()].Time
	return float64(r.Auto.Time-best) / float64(max(best, 1))
}

// Compare runs a workload with each policy. A row has the means over some seeds: single runs
// differ by the draws.
func Compare(w *Workflow, hosts, seeds int, network int64) (r Row, err error) {
	r = Row{Workflow: w.Name, Hosts: hosts}
	for _, name := range append(Fixed[:len(Fixed):len(Fixed)], "auto") {
		p, err := policy.Read(name)
		if err != nil {
			return r, err
		}
		var mean Took
		for seed := range seeds {
			t, err := Run(w, hosts, p, uint64(seed)+1, network)
			if err != nil {
				return r, err
			}
			mean.Time, mean.Local, mean.Messages = mean.Time+t.Time/time.Duration(seeds), mean.Local+t.Local/float64(seeds), mean.Messages+t.Messages/seeds
		}
		if name == "auto" {
			r.Auto = mean
		} else {
			r.Fixed = append(r.Fixed, mean)
		}
	}
	return r, nil
}

// PrintPolicies runs workloads on hosts with each policy, prints a row for each, and returns
// the row in which auto is furthest behind the best.
func PrintPolicies(out io.Writer, list []Workflow, hosts, seeds int, network int64) (worst Row, err error) {
	fmt.Fprintf(out, "Seconds with each policy, %d hosts of %d slots, %.3g Gb/s, mean of seeds 1 to %d; lengths known before in workflow files only\n\n", hosts, slotsEach, float64(network)/Gigabit, seeds)
	fmt.Fprintf(out, "| workload |")
	for _, name := range Fixed {
		fmt.Fprintf(out, " %s |", name)
	}
	fmt.Fprintf(out, " auto | auto by the best |\n|---|%s---|---|\n", dashes(len(Fixed)))
	for i := range list {
		r, err := Compare(&list[i], hosts, seeds, network)
		if err != nil {
			return worst, err
		}
		fmt.Fprintf(out, "| %s |", r.Workflow)
		for k, t := range r.Fixed {
			mark := ""
			if k == r.Best() {
				mark = "**"
			}
			fmt.Fprintf(out, " %s%.2f%s |", mark, t.Time.Seconds(), mark)
		}
		fmt.Fprintf(out, " %.2f | %+.1f%% |\n", r.Auto.Time.Seconds(), 100*r.Behind())
		if worst.Hosts == 0 || r.Behind() > worst.Behind() {
			worst = r
		}
	}
	return worst, nil
}

func dashes(n int) (s string) {
	for range n {
		s += "---|"
	}
	return s
}
