package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

func psCommand(g *global) *cobra.Command {
	asJSON, all, steps := false, false, false
	c := &cobra.Command{
		Use:     "ps",
		GroupID: "jobs",
		Short:   "list jobs",
		Long: `Lists the jobs that wait or run, the newest last; with -a also those that have
ended. A job's number can be given to every other command, and so can last. What
tasks started with filch run is listed with --steps alone: there may be thousands.`,
		Example: "  filch ps\n  filch ps -a --json\n  filch ps --steps",
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
			if !steps {
				list = slices.DeleteFunc(list, func(j launcher.JobInfo) bool { return j.Task != nil })
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
			if err := printJobs(list); err != nil {
				return err
			}
			return sayLacks(c, all)
		},
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "also jobs that have ended")
	c.Flags().BoolVar(&steps, "steps", false, "also the steps of tasks")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printJobs(list []launcher.JobInfo) error {
	t := &table{head: []string{"ID", "NAME", "KIND", "STATE", "CODE", "SIZE", "ELAPSED", "WHERE"}, right: map[int]bool{0: true, 4: true, 5: true, 6: true}}
	for _, j := range list {
		code, where := "-", spec.FormatHosts(j.Nodes)
		if j.Code != nil {
			code = fmt.Sprint(*j.Code)
		}
		elapsed := ranFor(&j)
		if len(j.Nodes) == 0 {
			where, elapsed = j.Cause, "-"
		}
		size := j.Ranks
		if isTasks(&j) {
			size, where, elapsed = j.Tasks.Total, taskCounts(j.Tasks), ranFor(&j)
		}
		t.add(j.ID.String(), clip(j.Name, 24), j.Kind, j.State, code, fmt.Sprint(size), elapsed, clip(where, 60))
	}
	return t.print()
}

// sayLacks says what a list of jobs may lack: what nobody here can read just
// now, and of all jobs those that were dropped.
func sayLacks(c *client.Client, all bool) error {
	var list []wire.RosterInfo
	args := []string{wire.OnlyHere}
	if all {
		args = nil
	}
	if err := ask(c, queryWait, &list, wire.VerbRoster, args...); err != nil {
		return err
	}
	dropped := 0
	for _, r := range list {
		dropped += r.Here.Dropped
		if r.Trouble != "" && r.Node == list[0].Node {
			say("warning: jobs may be missing here, or be shown as they were: " + r.Trouble)
		}
	}
	if dropped > 0 {
		verb := " were"
		if dropped == 1 {
			verb = " was"
		}
		say(plural(dropped, "ended job") + verb + " dropped, the oldest, since the nodes keep only so much (FILCH_STORE_BYTES)")
	}
	return nil
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
		Use:     "info JOB[.TASK]...",
		GroupID: "jobs",
		Short:   "show all that is known of a job, or of one task",
		Example: "  filch info last\n  filch info 3-5 --json\n  filch info 7.1200",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, ids, err := g.jobs(args)
			if err != nil {
				return err
			}
			defer c.Close()
			return showAll(c, ids, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// showAll shows jobs and tasks; of one alone the JSON is no list.
func showAll(c *client.Client, ids []jobRank, asJSON bool) error {
	var list []any
	for _, id := range ids {
		var j launcher.JobInfo
		if err := ask(c, queryWait, &j, wire.VerbInfo, id.Job.String()); err != nil {
			return err
		}
		if id.Rank < 0 || !isTasks(&j) {
			list = append(list, j)
			continue
		}
		var t launcher.Task
		if err := ask(c, queryWait, &t, wire.VerbTask, id.Job.String(), strconv.Itoa(int(id.Rank))); err != nil {
			return err
		}
		list = append(list, t)
	}
	switch {
	case asJSON && len(list) == 1:
		return printJSON(list[0])
	case asJSON:
		return printJSON(list)
	}
	for i, v := range list {
		if i > 0 {
			printf("\n")
		}
		switch v := v.(type) {
		case launcher.JobInfo:
			printJob(v)
		case launcher.Task:
			printTask(v)
		}
	}
	return nil
}

func printJob(j launcher.JobInfo) {
	field := func(name, value string) {
		if value != "" {
			printf("%-10s %s\n", name, clean(value))
		}
	}
	field("job", j.ID.String())
	field("name", j.Name)
	kind := j.Kind
	switch {
	case j.Task != nil:
		kind += fmt.Sprintf(" of task %d.%d", j.Parent, *j.Task)
	case j.Parent != 0:
		kind += " of job " + j.Parent.String()
	}
	field("kind", kind)
	field("state", j.State)
	if j.Code != nil {
		field("exit code", fmt.Sprint(*j.Code))
	}
	field("cause", j.Cause)
	if isTasks(&j) {
		field("tasks", taskCounts(j.Tasks))
	} else {
		field("ranks", fmt.Sprint(j.Ranks))
	}
	if len(j.Nodes) > 0 {
		field("nodes", spec.FormatHosts(j.Nodes))
	}
	field("origin", string(j.Origin))
	if j.Hop > 0 {
		field("taken over", plural(int(j.Hop), "time"))
	}
	if j.Attempt > 1 {
		field("attempt", fmt.Sprint(j.Attempt))
	}
	field("submitted", time.Unix(0, j.Submit).Format(time.DateTime))
	if len(j.Nodes) > 0 {
		field("waited", shortTime(time.Duration(j.Waited*float64(time.Second))))
	}
	if len(j.Nodes) > 0 || isTasks(&j) {
		field("elapsed", ranFor(&j))
	}
	for _, r := range j.Bad {
		field("ended bad", r.Text)
	}
}

// ranFor is how long a job runs, or ran.
func ranFor(j *launcher.JobInfo) string {
	return shortTime(time.Duration(j.Elapsed * float64(time.Second)))
}

// taskCounts says how many tasks are in which state, those that are none left out.
func taskCounts(t launcher.TaskCounts) string {
	var text strings.Builder
	text.WriteString(fmt.Sprint(t.Total))
	for _, c := range []struct {
		n    int32
		word string
	}{
		{t.Waiting, "waiting"},
		{t.Ready, "ready"},
		{t.Running, "running"},
		{t.OK, "ok"},
		{t.Failed, "failed"},
		{t.Killed, "killed"},
		{t.Lost, "lost"},
		{t.Skipped, "skipped"},
		{t.Cancelled, "cancelled"},
	} {
		if c.n > 0 {
			text.WriteString(fmt.Sprintf(", %d %s", c.n, c.word))
		}
	}
	return text.String()
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
			c, id, err := g.job(args[0])
			if err != nil {
				return err
			}
			defer c.Close()
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
	printf("job %d is %s\n", e.Job, clean(e.State))
	if e.Text != "" {
		printf("%s\n", clean(e.Text))
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
