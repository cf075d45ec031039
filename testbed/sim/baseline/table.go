package baseline

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/workflow"
	"github.com/filch-hpc/filch/stealer"
	"github.com/filch-hpc/filch/testbed/sim/makespan"
)

// Named is a scheduler of bags.
type Named struct {
	Name string
	Max  int // the most nodes; 0: any number
	Run  func(b *Bag) (Took, error)
}

// Bags are the schedulers of bags: the shipped cores, then the baselines.
func Bags() []Named {
	return []Named{
		{"filch", OursMax, func(b *Bag) (Took, error) { return Ours(b, policy.Hierarchical) }},
		{"filch, lifelines", OursMax, func(b *Bag) (Took, error) { return Ours(b, policy.Lifeline) }},
		{"random stealing (MATRIX v1)", 0, Matrix.Run},
		{"the same, moves cost nothing", 0, MatrixAlone.Run},
		{"CloudKon", 0, SQS.Run},
		{"Sparrow, ratio 1.05", 0, Sparrow105.Run},
		{"Sparrow, ratio 2", 0, Sparrow2.Run},
		{"hierarchy (Falkon)", 0, FalkonTree.Run},
		{"central queue (Falkon)", 0, Falkon.Run},
		{"central queue (Slurm)", 0, Slurm.Run},
	}
}

// PrintBag runs a bag with each scheduler and prints a row for each.
func PrintBag(out io.Writer, b *Bag, list []Named) error {
	fmt.Fprintf(out, "%s, %d nodes of %d slots, seed %d, ideal %.3f s\n\n", b.Name, b.Nodes, b.Slots, b.Seed, b.Ideal().Seconds())
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "scheduler\tmakespan\tefficiency\ttasks/s\tmessages/task\tvariation")
	for _, s := range list {
		if s.Max > 0 && b.Nodes > s.Max {
			continue
		}
		r, err := s.Run(b)
		if err != nil {
			return err
		}
		fmt.Fprintf(t, "%s\t%.3f s\t%.1f %%\t%.0f\t%.2f\t%.3f\n", s.Name, r.Makespan.Seconds(), 100*r.Efficiency, r.Rate, r.Messages, r.Variation)
	}
	t.Flush()
	fmt.Fprintln(out)
	return nil
}

// NamedGangs is a scheduler of gangs.
type NamedGangs struct {
	Name string
	Max  int // the most nodes; 0: any number
	Run  func(g *Gangs) (Launched, error)
}

// GangSchedulers are the shipped nodes, then the baselines.
func GangSchedulers() []NamedGangs {
	return []NamedGangs{
		{"filch", OursMax, func(g *Gangs) (Launched, error) { return OurGangs(g, stealer.Policy{}) }},
		{"release all (MATRIX v1)", OursMax, func(g *Gangs) (Launched, error) { return OurGangs(g, stealer.Policy{Kind: stealer.ReleaseAll}) }},
		{"SLURM++ v1", 0, SlurmPP1.Run},
		{"SLURM++ v2", 0, SlurmPP2.Run},
		{"CloudKon", 0, SQSForGangs.Run},
		{"Slurm", 0, Slurmctld.Run},
	}
}

// PrintGangs runs gangs with each scheduler and prints a row for each.
func PrintGangs(out io.Writer, g *Gangs, list []NamedGangs) error {
	fmt.Fprintf(out, "%s for %v, %d nodes, seed %d, ideal %.3f s\n\n", g.Name, g.Runs, g.Nodes, g.Seed, g.Ideal().Seconds())
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "scheduler\tjobs\tmakespan\tefficiency\tjobs/s\tmessages/job")
	for _, s := range list {
		if s.Max > 0 && g.Nodes > s.Max {
			continue
		}
		r, err := s.Run(g)
		if err != nil {
			return err
		}
		fmt.Fprintf(t, "%s\t%d/%d\t%.3f s\t%.1f %%\t%.1f\t%.1f\n", s.Name, r.Jobs, len(g.Sizes), r.Makespan.Seconds(), 100*g.Efficiency(&r), r.Rate, r.Messages)
	}
	t.Flush()
	fmt.Fprintln(out)
	return nil
}

// DefaultGangs are the three sizes of jobs of DJL and SLURM++, half as many jobs as nodes.
func DefaultGangs(nodes int, runs time.Duration) []Gangs {
	var list []Gangs
	for _, x := range [][2]int{{1, 1}, {1, 50}, {50, 100}} {
		list = append(list, Between(nodes, max(nodes/2, 1), min(x[0], nodes), min(x[1], nodes), runs))
	}
	return list
}

// flowNodes are the nodes of workflows.
var flowNodes = []int{16, 64, 256}

// slotsOfHost is the slots of a host of the shipped cores; a baseline has as many nodes instead.
const slotsOfHost = 4

// PrintFlows runs workflows with each rule; list has the same workflows for the shipped cores, in
// the same order. Transfers take no time.
func PrintFlows(out io.Writer, graphs []*workflow.Graph, list []makespan.Workflow) error {
	const fast = 1e13 // bytes a second
	fmt.Fprintf(out, "Seconds of workflows, nodes of 2,000 MIPS that run a task at a time (filch: hosts of %d slots), seed 1\n\n", slotsOfHost)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "workflow\tnodes\tbound\tmin-min\tcritical path\tfilch, auto\tfilch, adage\tADAGE, code\tADAGE, printed\tAlbatross")
	for k, g := range graphs {
		w := makespan.Scaled(list[k:k+1], 1./speed, 1, "")[0]
		for _, n := range flowNodes {
			f := NewFlow(g, n, 1)
			row := []time.Duration{f.Bound(), f.List(true), f.List(false)}
			for _, kind := range []policy.Kind{policy.Auto, policy.ADAGE} {
				r, err := makespan.Run(&w, n/slotsOfHost, policy.Policy{Kind: kind}, 1, fast)
				if err != nil {
					return err
				}
				row = append(row, r.Time)
			}
			for _, a := range []Adage{AdageCode, AdagePrinted} {
				r, err := a.Run(f)
				if err != nil {
					return err
				}
				row = append(row, r.Makespan)
			}
			r, err := LateBinding.Run(f)
			if err != nil {
				return err
			}
			row = append(row, r.Makespan)
			fmt.Fprintf(t, "%s\t%d", list[k].Name, n)
			for _, d := range row {
				fmt.Fprintf(t, "\t%.0f", d.Seconds())
			}
			fmt.Fprintln(t)
		}
	}
	t.Flush()
	fmt.Fprintln(out)
	return nil
}

// PrintPiles runs all-pairs and stacking with each storage.
func PrintPiles(out io.Writer, nodes, slots int) error {
	list := []Pile{AllPairs(nodes, slots, 5*nodes, 100*time.Millisecond)}
	for _, locality := range []float64{1, 5, 30} {
		list = append(list, Stacking(nodes, slots, 100, locality))
	}
	fmt.Fprintf(out, "Tasks that read files, %d nodes of %d slots, seed 1\n\n", nodes, slots)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "workload\tstorage\tefficiency\ttime of a task\tGB moved")
	for i := range list {
		p := &list[i]
		for _, x := range []struct {
			name string
			d    Diffusion
		}{{"active storage", ActiveStorage}, {"data diffusion", DataDiffusion}, {"parallel file system", ParallelFS}} {
			r, moved, err := x.d.Run(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(t, "%s\t%s\t%.1f %%\t%v\t%.1f\n", p.Name, x.name, 100*r.Efficiency, p.PerTask(r).Round(time.Millisecond/10), float64(moved)/1e9)
		}
	}
	t.Flush()
	fmt.Fprintln(out)
	return nil
}

// PrintTrees runs trees of spawned tasks on the allotments of DVS, 4: 8 x 4 cores.
func PrintTrees(out io.Writer) error {
	fmt.Fprint(out, "Speed-up of spawned tasks on allotments of 8 x 4 cores, seed 1\n\n")
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "tree\tcores\tleapfrog (WOOL)\tDVS\tDVS by leapfrog\tvain steals\twith DVS")
	for _, x := range []struct {
		name string
		tree *Tree
	}{{"Fib 22", Fib(22)}, {"nQueens 12, 3 rows", Queens(12, 3)}, {"Strassen 512, depth 3", Strassen(512, 3)}, {"Sort of 2^20", Sort(1<<20, 2048)}} {
		for _, n := range []int{5, 12, 20, 27} {
			cores := Allotment(8, 4, 12, n)
			lf, err := WoolLF.Run(x.tree, cores, 1)
			if err != nil {
				return err
			}
			dvs, err := WoolDVS.Run(x.tree, cores, 1)
			if err != nil {
				return err
			}
			fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%+.0f %%\t%d\t%d\n", x.name, n, lf.Speedup, dvs.Speedup, 100*(dvs.Speedup/lf.Speedup-1), lf.Attempts, dvs.Attempts)
		}
	}
	t.Flush()
	fmt.Fprintln(out)
	return nil
}

// Default are the bags of the command.
func Default(nodes, slots, each int, length time.Duration) []Bag {
	return []Bag{Equal(nodes, slots, each, length), SubSecond(nodes, slots, each, 1)}
}
