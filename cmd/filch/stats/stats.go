package stats

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// List is the JSON of filch stats.
type List struct {
	Nodes []launcher.Work `json:"nodes"` // the answering node first
	All   launcher.Work   `json:"all"`   // the sum; without a name
	For   float64         `json:"for"`   // seconds of --for; 0: since the launchers began
}

// Command is filch stats.
func Command(g *cli.Global) *cobra.Command {
	asJSON, span := false, time.Duration(0)
	c := &cobra.Command{
		Use:     "stats",
		GroupID: "nodes",
		Short:   "show how busy the nodes are, their queues, steals and messages",
		Long: `Shows for every node, and in sum, what the node did since its launcher began, or
during --for:

  BUSY      slots with ranks or tasks now, of SLOTS
  USED      busy slot time of all slot time
  WAITING   tasks that wait for other tasks, of workflows that the node leads
  READY     tasks that wait for slots
  RUNNING   tasks now
  ENDED     attempts of tasks
  TRIES     questions to other nodes for work; each question goes to several nodes
  STEALS    tries that found a node with work to steal
  WON       steals that brought at least one task
  HIT       WON of TRIES
  FIRST     mean time from the begin of a search for work to the first task of a job
  MESSAGES  sent to other nodes; STORE counts the messages between the stores

A node without work asks all the time while others have work, and once in 30 seconds
otherwise. * marks the node that answered; a node that did not answer is not in the sum.`,
		Example: "  filch stats\n  filch stats --for 10s\n  filch stats --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if span < 0 {
				return ui.Misused(filch.Errorf(filch.Invalid, "--for takes a time of at least 0"))
			}
			list, err := measure(g, span)
			switch {
			case err != nil:
				return err
			case asJSON:
				return ui.PrintJSON(list)
			}
			return list.print()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cli.TimeVar(c.Flags(), &span, "for", 0, "count for this `TIME`, from now, and then print (default: since the launchers began)")
	return c
}

// measure asks all nodes: once, or at the begin and at the end of a span.
func measure(g *cli.Global, span time.Duration) (*List, error) {
	c, err := g.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ask := func() (list []launcher.Work, err error) {
		err = cli.Ask(c, cli.QueryWait, &list, wire.VerbWork)
		return list, err
	}
	before := map[filch.NodeName]launcher.Work{}
	if span > 0 {
		old, err := ask()
		if err != nil {
			return nil, err
		}
		for _, w := range old {
			before[w.Node] = w
		}
		time.Sleep(span)
	}
	l := &List{For: span.Seconds()}
	if l.Nodes, err = ask(); err != nil {
		return nil, err
	}
	for i := range l.Nodes {
		w := &l.Nodes[i]
		if w.Silent {
			continue
		}
		if old, ok := before[w.Node]; ok {
			w.Since(&old)
		}
		l.All.Add(w)
	}
	return l, nil
}

func (l *List) print() error {
	t := &ui.Table{
		Head:  []string{"NODE", "SLOTS", "BUSY", "USED", "WAITING", "READY", "RUNNING", "ENDED", "TRIES", "STEALS", "WON", "HIT", "FIRST", "MESSAGES", "STORE"},
		Right: map[int]bool{},
	}
	for i := 1; i < len(t.Head); i++ {
		t.Right[i] = true
	}
	for i := range l.Nodes {
		name := string(l.Nodes[i].Node)
		if i == 0 {
			name += " *"
		}
		t.Add(append([]string{name}, cells(&l.Nodes[i])...)...)
	}
	t.Add(append([]string{"all"}, cells(&l.All)...)...)
	return t.Print()
}

// cells are the columns behind the name.
func cells(w *launcher.Work) []string {
	row := make([]string, 0, 14)
	if w.Silent {
		for range cap(row) {
			row = append(row, "-")
		}
		return row
	}
	first := "-"
	if w.Firsts > 0 {
		first = filch.ShortTime(time.Duration(w.FirstMean * float64(time.Second)))
	}
	row = append(row, fmt.Sprint(w.Slots), fmt.Sprint(w.Busy), percent(w.Used, w.SlotSecs > 0))
	for _, n := range [...]int64{w.Waiting, w.Ready, w.Running, w.Ended, w.Tries, w.Steals, w.Won} {
		row = append(row, fmt.Sprint(n))
	}
	return append(row, percent(w.HitRate, w.Tries > 0), first, fmt.Sprint(w.Messages), fmt.Sprint(w.Store))
}

// percent is a part of 1 as text, "-" if there was nothing to take a part of.
func percent(p float64, some bool) string {
	if !some {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*p)
}
