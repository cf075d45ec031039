package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

func psCommand(g *global) *cobra.Command {
	asJSON, all := false, false
	c := &cobra.Command{
		Use:     "ps",
		GroupID: "jobs",
		Short:   "list jobs",
		Long: `Lists the jobs that wait or run, the newest last; with -a also those that have
ended. A job's number can be given to every other command, and so can last.`,
		Example: "  filch ps\n  filch ps -a --json",
		RunE: func(*cobra.Command, []string) error {
			c, err := g.dial()
			if err != nil {
				return err
			}
			defer c.Close()
			list, err := queryJobs(c)
			if err != nil {
				return err
			}
			if !all {
				list = slices.DeleteFunc(list, func(j launcher.JobInfo) bool { return j.Code != nil })
			}
			slices.SortFunc(list, func(a, b launcher.JobInfo) int {
				if a.Submit != b.Submit {
					return int(min(max(a.Submit-b.Submit, -1), 1))
				}
				return int(a.ID - b.ID)
			})
			if asJSON {
				if list == nil {
					list = []launcher.JobInfo{}
				}
				return printJSON(list)
			}
			return printJobs(list)
		},
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "also jobs that have ended")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printJobs(list []launcher.JobInfo) error {
	t := &table{head: []string{"ID", "NAME", "KIND", "STATE", "CODE", "RANKS", "ELAPSED", "WHERE"}, right: map[int]bool{0: true, 4: true, 5: true, 6: true}}
	for _, j := range list {
		code, where := "-", spec.FormatHosts(j.Nodes)
		if j.Code != nil {
			code = fmt.Sprint(*j.Code)
		}
		elapsed := shortTime(time.Duration(j.Elapsed * float64(time.Second)))
		if len(j.Nodes) == 0 {
			where, elapsed = j.Cause, "-"
		}
		t.add(j.ID.String(), clip(j.Name, 24), j.Kind, j.State, code, fmt.Sprint(j.Ranks), elapsed, clip(where, 60))
	}
	return t.print()
}

// clip shortens a cell.
func clip(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

func infoCommand(g *global) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "info JOB...",
		GroupID: "jobs",
		Short:   "show all that is known of a job",
		Example: "  filch info last\n  filch info 3-5 --json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := g.dial()
			if err != nil {
				return err
			}
			defer c.Close()
			ids, err := readIDs(args, lastJob(c))
			if err != nil {
				return err
			}
			var list []launcher.JobInfo
			for _, id := range ids {
				var j launcher.JobInfo
				if err := ask(c, queryWait, &j, wire.VerbInfo, id.Job.String()); err != nil {
					return err
				}
				list = append(list, j)
			}
			if asJSON {
				return printJSON(list)
			}
			for i, j := range list {
				if i > 0 {
					fmt.Println()
				}
				printJob(j)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printJob(j launcher.JobInfo) {
	field := func(name, value string) {
		if value != "" {
			fmt.Printf("%-10s %s\n", name, clean(value))
		}
	}
	field("job", j.ID.String())
	field("name", j.Name)
	kind := j.Kind
	if j.Parent != 0 {
		kind += " of job " + j.Parent.String()
	}
	field("kind", kind)
	field("state", j.State)
	if j.Code != nil {
		field("exit code", fmt.Sprint(*j.Code))
	}
	field("cause", j.Cause)
	field("ranks", fmt.Sprint(j.Ranks))
	if len(j.Nodes) > 0 {
		field("nodes", spec.FormatHosts(j.Nodes))
	}
	field("origin", string(j.Origin))
	if j.Attempt > 1 {
		field("attempt", fmt.Sprint(j.Attempt))
	}
	field("submitted", time.Unix(0, j.Submit).Format(time.DateTime))
	if len(j.Nodes) > 0 {
		field("waited", shortTime(time.Duration(j.Waited*float64(time.Second))))
		field("elapsed", shortTime(time.Duration(j.Elapsed*float64(time.Second))))
	}
	for _, r := range j.Bad {
		field("ended bad", r.Text)
	}
}

func explainCommand(g *global) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "explain JOB",
		GroupID: "jobs",
		Short:   "say why a job stands where it stands",
		Long:    "Says what a waiting job has, what it misses, and who holds that, node by node.",
		Example: "  filch explain last",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := g.dial()
			if err != nil {
				return err
			}
			defer c.Close()
			id, err := oneID(args[0], lastJob(c))
			if err != nil {
				return err
			}
			var e launcher.Explanation
			if err := ask(c, queryWait, &e, wire.VerbExplain, id.Job.String()); err != nil {
				return err
			}
			if asJSON {
				return printJSON(e)
			}
			return printExplanation(e)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printExplanation(e launcher.Explanation) error {
	fmt.Printf("job %d is %s\n", e.Job, clean(e.State))
	if e.Text != "" {
		fmt.Println(clean(e.Text))
	}
	if len(e.Places) == 0 {
		return nil
	}
	t := &table{head: []string{"NODE", "HAS", "WANTS", "FREE", "HELD BY"}, right: map[int]bool{1: true, 2: true, 3: true}}
	for _, p := range e.Places {
		holder := "-"
		if p.Holder != 0 {
			holder = fmt.Sprintf("job %d: %s", p.Holder, plural(int(p.Holds), "slot"))
		}
		t.add(string(p.Node), fmt.Sprint(p.Held), fmt.Sprint(p.Want), fmt.Sprint(p.Free), holder)
	}
	return t.print()
}
