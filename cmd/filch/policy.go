package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/policy"
)

func policyCommand(g *cli.Global) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "policy [auto|mlb|mdl|rlds|flds|adage[,KEY=VALUE...]]",
		GroupID: "jobs",
		Short:   "show or change how tasks are placed and stolen",
		Long: `Shows the scheduling policy of every node and the lengths of its queues, or changes
the policy of the whole instance while tasks run: queued tasks are placed again. The
policy decides when a task of a workflow goes to the node that has the input of the
task, and when other nodes may not steal the task from there. auto, the default, chooses
for each workflow by the size of the files and the length of the tasks, and is shown with
the choice and the reason. victims= sets which nodes an idle node asks for tasks: near,
random, lifeline, leapfrog, sequential, fixed, dvs or none; balance=give or both lets busy
nodes offer tasks, too. docs/policies.md says which policy to take when.
* marks the node that answered.`,
		Example: `  filch policy
  filch policy auto
  filch policy mdl
  filch policy adage,victims=dvs
  filch policy auto,balance=both
  filch policy flds:threshold=12.5M,tt=10s,guess=200ms`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, a := range args {
				if _, err := policy.Read(a); err != nil {
					return ui.Misused(err)
				}
			}
			c, err := g.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			var list []wire.PolicyInfo
			if err := cli.Ask(c, cli.QueryWait, &list, wire.VerbPolicy, args...); err != nil {
				return err
			}
			for _, n := range list {
				if n.Silent && len(args) > 0 {
					ui.Say("warning: " + ui.Clean(string(n.Node)) + " did not answer; the node reads the policy when it is back")
				}
			}
			switch {
			case asJSON:
				return ui.PrintJSON(list)
			case len(args) > 0:
				return nil
			}
			if err := printPolicies(list); err != nil {
				return err
			}
			printChoices(list)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// printChoices prints what the policy auto chose for each workflow, and why.
func printChoices(list []wire.PolicyInfo) {
	for _, n := range list {
		for _, c := range n.Chosen {
			fmt.Printf("job %d is placed by %s: %s\n", c.Job, c.Policy, ui.Clean(c.Why))
		}
	}
}

func printPolicies(list []wire.PolicyInfo) error {
	t := &ui.Table{
		Head:  []string{"NODE", "POLICY", "VICTIMS", "THRESHOLD", "TT", "WAITING", "DEDICATED", "SHARED", "RUNNING"},
		Right: map[int]bool{3: true, 4: true, 5: true, 6: true, 7: true, 8: true},
	}
	for i, n := range list {
		name := string(n.Node)
		if i == 0 {
			name += " *"
		}
		row := []string{name, "-", "-", "-", "-", "-", "-", "-", "-"}
		if !n.Silent {
			q := n.Queues
			row[1], row[2] = n.Policy, n.Victims
			copy(row[5:], []string{fmt.Sprint(q.Waiting), fmt.Sprint(q.Dedicated), fmt.Sprint(q.Shared), fmt.Sprint(q.Running)})
		}
		if n.Threshold > 0 {
			row[3] = fmt.Sprintf("%gM/s", n.Threshold/1e6)
		}
		if n.LocalTime > 0 {
			row[4] = filch.ShortTime(time.Duration(n.LocalTime * float64(time.Second)))
		}
		t.Add(row...)
	}
	return t.Print()
}
