package baseline

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/filch-hpc/filch/mtc/policy"
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

// Default are the bags of the command.
func Default(nodes, slots, each int, length time.Duration) []Bag {
	return []Bag{Equal(nodes, slots, each, length), SubSecond(nodes, slots, each, 1)}
}
