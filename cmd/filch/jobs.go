package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/tasklist"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

func psCommand(g *cli.Global) *cobra.Command {
	l := jobListing{usual: []string{"id", "name", "kind", "state", "code", "size", "elapsed", "where"}}
	all := false
	c := &cobra.Command{
		Use:     "ps",
		GroupID: "jobs",
		Short:   "list jobs",
		Long: `Lists the jobs that wait or run, in the order of submission, the newest last; with -a,
or with --state for a state of ended jobs, also jobs that have ended. Nodes assign ids in
blocks: a newer job may have a lower id. All other commands take the id of a job, or last
for the newest job that is not a step. Steps of tasks and ended steps are listed only with
--steps: there may be thousands. On a terminal, jobs that ended badly are red.

The columns of --columns and --sort are ` + columnText() + `.`,
		Example: "  filch ps\n  filch ps -a --json\n  filch ps --state failed,killed,lost\n  filch ps --name 'dock*' --sort -elapsed -o id,name,elapsed,nodes\n  filch ps --steps",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			e := filch.Errorf(filch.Invalid, "filch ps takes no argument, and %s is given", strconv.Quote(args[0]))
			if ui.AllDigits(args[0]) {
				return e.WithHint("filch info %s shows the job", args[0])
			}
			return e.WithHint("%s --help", cmd.CommandPath())
		},
		RunE: func(*cobra.Command, []string) error {
			if err := l.check(); err != nil {
				return err
			}
			c, err := g.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			list, err := cli.QueryJobs(c)
			if err != nil {
				return err
			}
			if all = all || l.ended(); !all {
				list = slices.DeleteFunc(list, func(j launcher.JobInfo) bool { return j.Code != nil })
			}
			slices.SortFunc(list, func(a, b launcher.JobInfo) int {
				return cmp.Or(cmp.Compare(a.Submit, b.Submit), cmp.Compare(a.ID, b.ID))
			})
			list = l.choose(list)
			if l.json {
				if list == nil {
					list = []launcher.JobInfo{}
				}
				return ui.PrintJSON(list)
			}
			if err := l.print(list); err != nil {
				return err
			}
			return sayLacks(c, all)
		},
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "also jobs that have ended")
	l.flags(c)
	return c
}

// sayLacks prints the jobs that a list may lack: jobs whose records cannot be
// read here at the moment and, in a list of all jobs, the dropped jobs.
func sayLacks(c *client.Client, all bool) error {
	var list []wire.RosterInfo
	args := []string{wire.OnlyHere}
	if all {
		args = nil
	}
	if err := cli.Ask(c, cli.QueryWait, &list, wire.VerbRoster, args...); err != nil {
		return err
	}
	dropped := 0
	for _, r := range list {
		dropped += r.Here.Dropped
		if r.Trouble != "" && r.Node == list[0].Node {
			ui.Say("warning: jobs may be missing from this list, or out of date: " + r.Trouble)
		}
	}
	if dropped > 0 {
		verb := " were"
		if dropped == 1 {
			verb = " was"
		}
		ui.Say(filch.Plural(dropped, "ended job") + verb + " dropped: the oldest go when FILCH_STORE_BYTES is used up")
	}
	return nil
}

func infoCommand(g *cli.Global) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "info JOB[.TASKS]...",
		GroupID: "jobs",
		Short:   "show everything about a job, or about one task",
		Long: `Shows everything about a job, or about single tasks. Of a task, stages tells when the task
was submitted, queued, moved from node to node, staged and run, each by the clock of the
node. Nodes remember the last 4,096 arrivals on their queue: of older tasks, moves are not
known any more. Of a task with several attempts, ends tells how each attempt ended, as far as
the nodes still have the events of these ends. JOB.RANKS shows ranks of a run: the node,
the end, the memory and the processor time of each.`,
		Example: "  filch info last\n  filch info 3-5 --json\n  filch info 7.1200\n  filch info 7.5,7-9 12.project\n  filch info 29.0-3",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, list, err := tasklist.Named(g, args)
			if err != nil {
				return err
			}
			defer c.Close()
			return showAll(c, list, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// maxShownTasks bounds the tasks that one command shows or explains.
const maxShownTasks = 10_000

// eachTask calls f for each task that is named, and with task -1 for each job without.
func eachTask(named []cli.JobTasks, f func(job filch.JobID, task int32) error) error {
	n := 0
	for i := range named {
		spans := named[i].Spans()
		for _, s := range spans {
			if len(named[i].Tasks) == 0 {
				s.First, s.Last = -1, -1
			}
			for k := int64(s.First); k <= int64(s.Last); k++ {
				if n++; n > maxShownTasks {
					return ui.Misused(filch.Errorf(filch.Invalid, "more than %d tasks are named", maxShownTasks).WithHint("filch tasks JOB lists the tasks"))
				}
				if err := f(s.Job, int32(k)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// showAll shows jobs and tasks; for a single job or task the JSON is no list.
func showAll(c *client.Client, named []cli.JobTasks, asJSON bool) error {
	var list []any
	full := map[int]string{}           // by place in the list
	runs := map[filch.JobID]*ranksOf{} // of which ranks are named
	err := eachTask(named, func(job filch.JobID, task int32) error {
		if r := runs[job]; r != nil && task >= 0 {
			return r.add(&list, task)
		}
		var j launcher.JobInfo
		if err := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, job.String()); err != nil {
			return err
		}
		if task >= 0 && !cli.IsTasks(&j) {
			runs[job] = newRanks(c, &j)
			return runs[job].add(&list, task)
		}
		if task < 0 {
			j.Rows = nil
			list = append(list, tasklist.Describe(c, &j))
			return nil
		}
		t, err := tasklist.Find(c, job, task)
		if err != nil {
			return numbered(c, job, task, err)
		}
		list = append(list, t)
		findEnds(c, t)
		if !asJSON {
			full[len(list)-1] = fullDisk(c, &t.Task)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return printEach(list, asJSON, func(i int, v any) error {
		switch v := v.(type) {
		case tasklist.Job:
			printJob(v)
		case *rankInfo:
			printRank(v)
		case *tasklist.Row:
			printTask(v, full[i])
		}
		return nil
	})
}

// printEach prints a list with empty lines between, or as JSON: a single value is no list
// there.
func printEach[T any](list []T, asJSON bool, print func(i int, v T) error) error {
	switch {
	case asJSON && len(list) == 1:
		return ui.PrintJSON(list[0])
	case asJSON:
		return ui.PrintJSON(list)
	}
	for i, v := range list {
		if i > 0 {
			ui.Printf("\n")
		}
		if err := print(i, v); err != nil {
			return err
		}
	}
	return nil
}

func printJob(d tasklist.Job) {
	j := &d.JobInfo
	field := func(name, value string) {
		if value != "" {
			ui.Printf("%-10s %s\n", name, ui.Clean(value))
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
	field("state", shownState(j))
	if j.Code != nil {
		field("exit code", fmt.Sprint(*j.Code))
	}
	field("cause", causeText(j))
	field("held by", j.Held)
	field("dep", j.Dep)
	if j.Begin > 0 {
		field("begin", ui.Clock(time.Unix(0, j.Begin)))
	}
	if cli.IsTasks(j) {
		field("tasks", taskCounts(j.Tasks))
		if d.Before != nil {
			field("before", d.Before.String())
		}
	} else {
		field("ranks", fmt.Sprint(j.Ranks))
	}
	if len(j.Nodes) > 0 {
		field("nodes", spec.FormatHosts(j.Nodes))
	}
	if len(j.Spares) > 0 {
		field("spare nodes", spec.FormatHosts(j.Spares))
	}
	field("origin", string(j.Origin))
	if j.Hop > 0 {
		field("taken over", filch.Plural(int(j.Hop), "time"))
	}
	if j.Attempt > 1 {
		field("attempt", fmt.Sprint(j.Attempt))
	}
	field("submitted", ui.Clock(time.Unix(0, j.Submit)))
	if len(j.Nodes) > 0 || cli.IsTasks(j) {
		field("waited", filch.ShortTime(time.Duration(j.Waited*float64(time.Second))))
	}
	if !notStarted(j) {
		field("elapsed", ranFor(j))
	}
	field("cpu", ui.Modes(&j.Used))
	field("memory", peakOf(&j.Used, cli.IsTasks(j)))
	for _, r := range j.Bad {
		field("ended bad", r.Text)
	}
}

// causeText is the cause of an end, without the counts of tasks that another line has.
func causeText(j *launcher.JobInfo) string {
	_, counts, found := strings.Cut(j.Cause, launcher.BadEnds)
	if !found || !cli.IsTasks(j) {
		return j.Cause
	}
	_, rest, _ := strings.Cut(counts, "; ")
	return rest
}

// peakOf is the peak of memory in the words of filch info; "" if not known.
func peakOf(u *launcher.Used, tasks bool) string {
	if u.Peak == 0 {
		return ""
	}
	text := ui.ShortSize(u.Peak) + " at the peak of the largest process"
	if tasks {
		text = ui.ShortSize(u.Peak) + " at the peak of the largest task"
	}
	if u.AtMost {
		return "at most " + text
	}
	return text
}

// ranFor is how long a job runs, or ran.
func ranFor(j *launcher.JobInfo) string {
	return filch.ShortTime(time.Duration(j.Elapsed * float64(time.Second)))
}

// taskCounts is the number of tasks in each state, without empty states.
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

func explainCommand(g *cli.Global) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "explain JOB[.TASKS]...",
		GroupID: "jobs",
		Short:   "say why a job or a task does not run, or how far it is",
		Long: `Says how many slots a waiting job holds, how many are missing, and which jobs hold
the other slots, node by node and in all; with time limits, also how long at most. For
a task, says where the task runs, or what the task waits for; for a rank of a run, where the
rank runs, or how the rank ended.`,
		Example: "  filch explain last\n  filch explain 7.1200\n  filch explain 12.project",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, named, err := tasklist.Named(g, args)
			if err != nil {
				return err
			}
			defer c.Close()
			var list, ranks []*launcher.Explanation
			var j launcher.JobInfo // of the last task or rank
			err = eachTask(named, func(job filch.JobID, task int32) error {
				words := []string{job.String()}
				if task >= 0 {
					words = append(words, strconv.Itoa(int(task)))
				}
				e := &launcher.Explanation{}
				list = append(list, e)
				if task >= 0 && j.ID != job {
					j = launcher.JobInfo{}
					_ = cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, job.String()) // else it is no run that is known
				}
				if task >= 0 && j.ID == job && !cli.IsTasks(&j) {
					ranks = append(ranks, e)
					return explainRank(c, j, task, e)
				}
				if err := cli.Ask(c, cli.QueryWait, e, wire.VerbExplain, words...); err != nil {
					return numbered(c, job, task, err)
				}
				return tasklist.Name(c, e)
			})
			if err != nil {
				return err
			}
			return printEach(list, asJSON, func(_ int, e *launcher.Explanation) error {
				return printExplanation(e, slices.Contains(ranks, e))
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printExplanation(e *launcher.Explanation, rank bool) error {
	state := ui.Clean(e.State)
	if e.By != "" && e.State == filch.Ready.String() {
		state = "held"
	}
	switch {
	case e.Name != "":
		ui.Printf("task %d.%d (%s) is %s\n", e.Job, *e.Task, ui.Clean(e.Name), state)
	case rank:
		ui.Printf("rank %d.%d is %s\n", e.Job, *e.Task, state)
	case e.Task != nil:
		ui.Printf("task %d.%d is %s\n", e.Job, *e.Task, state)
	case e.By != "":
		ui.Printf("job %d is held\n", e.Job)
	default:
		ui.Printf("job %d is %s\n", e.Job, state)
	}
	if e.Text != "" {
		ui.Printf("%s\n", ui.Clean(e.Text))
	}
	if len(e.Lacks)+len(e.Holders) > 0 {
		ui.Printf("the nodes, asked after that:\n")
	}
	for i := range e.Lacks {
		ui.Printf("%s\n", ui.Clean(lackLine(&e.Lacks[i])))
	}
	for i := range e.Holders {
		ui.Printf("%s\n", ui.Clean(holderLine(e, &e.Holders[i])))
	}
	if e.Hint != "" {
		ui.Printf("hint: %s\n", ui.Clean(e.Hint))
	}
	if len(e.Places) == 0 {
		return nil
	}
	t := &ui.Table{Head: []string{"NODE", "HAS", "WANTS", "FREE", "HELD BY"}, Right: map[int]bool{1: true, 2: true, 3: true}}
	for _, p := range e.Places {
		holder := "-"
		if p.Holder != 0 {
			holder = fmt.Sprintf("job %d: %s", p.Holder, filch.Plural(int(p.Holds), "slot"))
		}
		t.Add(string(p.Node), fmt.Sprint(p.Held), fmt.Sprint(p.Want), fmt.Sprint(p.Free), holder)
	}
	return t.Print()
}

// lackLine describes a node that has too little free of a resource.
func lackLine(l *launcher.Lack) string {
	var text strings.Builder
	text.WriteString(fmt.Sprintf("%s has %d of %d %s free, and a task takes %d", l.Node, l.Free, l.Of, l.Resource, l.Want))
	sep := ":"
	for _, h := range l.Holders {
		text.WriteString(fmt.Sprintf("%s job %d has %d", sep, h.Job, h.Has))
		sep = ","
	}
	return text.String()
}

// holderLine describes a job with slots that another job waits for.
func holderLine(e *launcher.Explanation, h *launcher.HolderInfo) string {
	text := fmt.Sprintf("job %d", h.Job)
	switch {
	case h.Job == e.Job:
		text = "this job"
	case h.Kind != "":
		text += fmt.Sprintf(" (%s %s)", h.Kind, ui.Clip(h.Name, 24))
	}
	text += fmt.Sprintf(" holds %s on %s", filch.Plural(int(h.Slots), "slot"), spec.FormatHosts(h.Nodes))
	if h.Tasks > 0 {
		text += " with " + filch.Plural(int(h.Tasks), "task")
	}
	if h.Spare > 0 {
		text += fmt.Sprintf(", %d of them spare", h.Spare)
	}
	switch {
	case h.Gathers:
		text += ", and gathers more"
	case h.Left > 0:
		text += ", for " + filch.ShortTime(time.Duration(h.Left*float64(time.Second))) + " at most: then the time limit ends them"
	default:
		text += ", without a time limit"
	}
	if h.Job == e.Inside && e.Spawned {
		text += "; its rank spawned job " + e.Job.String()
	} else if h.Job == e.Inside {
		text += "; job " + e.Job.String() + " was started inside it"
	}
	return text
}
