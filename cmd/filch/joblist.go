package main

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/spec"
)

// jobStates are the states of jobs and tasks, in every command and in JSON.
var jobStates = []string{"waiting", "ready", "running", "ok", "failed", "killed", "lost", "skipped", "cancelled"}

// jobColumn is a column of a list of jobs.
type jobColumn struct {
	name, head string
	right      bool
	cell       func(j *launcher.JobInfo) string
	order      func(a, b *launcher.JobInfo) int
}

// byCell orders by the text of a cell.
func byCell(cell func(*launcher.JobInfo) string) func(a, b *launcher.JobInfo) int {
	return func(a, b *launcher.JobInfo) int { return cmp.Compare(cell(a), cell(b)) }
}

// byNumber orders by a number.
func byNumber[T cmp.Ordered](n func(*launcher.JobInfo) T) func(a, b *launcher.JobInfo) int {
	return func(a, b *launcher.JobInfo) int { return cmp.Compare(n(a), n(b)) }
}

func textColumn(name string, cell func(*launcher.JobInfo) string) jobColumn {
	return jobColumn{name, strings.ToUpper(name), false, cell, byCell(cell)}
}

func numberColumn[T cmp.Ordered](name string, n func(*launcher.JobInfo) T, cell func(*launcher.JobInfo) string) jobColumn {
	return jobColumn{name, strings.ToUpper(name), true, cell, byNumber(n)}
}

// secondsColumn is a column of times in seconds; without is true for jobs without such a time.
func secondsColumn(name string, n func(*launcher.JobInfo) float64, without func(*launcher.JobInfo) bool) jobColumn {
	return numberColumn(name, n, func(j *launcher.JobInfo) string {
		if without(j) {
			return "-"
		}
		return filch.ShortTime(time.Duration(n(j) * float64(time.Second)))
	})
}

// notStarted reports whether a job has no start, so that its times mean nothing.
func notStarted(j *launcher.JobInfo) bool {
	return len(j.Nodes) == 0 && (!cli.IsTasks(j) || j.Elapsed == 0)
}

// heldState is the word of ps, info and explain for the state of a held job. JSON has the
// state without regard to the hold, and the holder.
const heldState = "held"

// shownState is the state of a job, or held if somebody holds the job.
func shownState(j *launcher.JobInfo) string {
	if j.Held != "" {
		return heldState
	}
	return j.State
}

// jobColumns are the columns of filch ps and filch history.
var jobColumns = []jobColumn{
	numberColumn("id", func(j *launcher.JobInfo) filch.JobID { return j.ID }, func(j *launcher.JobInfo) string { return j.ID.String() }),
	textColumn("name", func(j *launcher.JobInfo) string { return ui.Clip(j.Name, 24) }),
	textColumn("kind", func(j *launcher.JobInfo) string { return j.Kind }),
	{"state", "STATE", false, shownState, byNumber(func(j *launcher.JobInfo) int { return slices.Index(jobStates, j.State) })},
	numberColumn("code", func(j *launcher.JobInfo) int64 {
		if j.Code == nil {
			return -1
		}
		return int64(*j.Code)
	}, func(j *launcher.JobInfo) string {
		if j.Code == nil {
			return "-"
		}
		return fmt.Sprint(*j.Code)
	}),
	numberColumn("size", jobSize, func(j *launcher.JobInfo) string { return fmt.Sprint(jobSize(j)) }),
	{"submitted", "SUBMITTED", false, func(j *launcher.JobInfo) string { return ui.Clock(time.Unix(0, j.Submit)) }, byNumber(func(j *launcher.JobInfo) int64 { return j.Submit })},
	{"ended", "ENDED", false, func(j *launcher.JobInfo) string {
		if j.Code == nil {
			return "-"
		}
		return ui.Clock(time.Unix(0, endOf(j)))
	}, byNumber(endOf)},
	secondsColumn("waited", func(j *launcher.JobInfo) float64 { return j.Waited }, func(*launcher.JobInfo) bool { return false }),
	secondsColumn("elapsed", func(j *launcher.JobInfo) float64 { return j.Elapsed }, notStarted),
	numberColumn("cpu", func(j *launcher.JobInfo) float64 { return j.User + j.System }, func(j *launcher.JobInfo) string { return ui.CPU(&j.Used) }),
	numberColumn("memory", func(j *launcher.JobInfo) int64 { return j.Peak }, func(j *launcher.JobInfo) string { return ui.Peak(&j.Used) }),
	secondsColumn("left", func(j *launcher.JobInfo) float64 { return j.Left }, func(j *launcher.JobInfo) bool { return j.Left <= 0 }),
	numberColumn("attempt", func(j *launcher.JobInfo) filch.Attempt { return j.Attempt }, func(j *launcher.JobInfo) string { return fmt.Sprint(j.Attempt) }),
	numberColumn("parent", parentOf, func(j *launcher.JobInfo) string {
		switch {
		case parentOf(j) == 0:
			return "-"
		case j.Task != nil:
			return fmt.Sprintf("%d.%d", j.Parent, *j.Task)
		}
		return parentOf(j).String()
	}),
	textColumn("nodes", func(j *launcher.JobInfo) string { return dash(ui.Clip(spec.FormatHosts(j.Nodes), 60)) }),
	textColumn("origin", func(j *launcher.JobInfo) string { return dash(string(j.Origin)) }),
	textColumn("cause", func(j *launcher.JobInfo) string { return dash(ui.Clip(j.Cause, 100)) }),
	textColumn("reason", func(j *launcher.JobInfo) string { return dash(ui.Clip(cancelReason(j), 60)) }),
	textColumn("tasks", func(j *launcher.JobInfo) string {
		if cli.IsTasks(j) {
			return ui.Clip(taskCounts(j.Tasks), 60)
		}
		return fmt.Sprint(j.Ranks)
	}),
	textColumn("where", func(j *launcher.JobInfo) string {
		switch {
		case cli.IsTasks(j):
			return ui.Clip(taskCounts(j.Tasks), 60)
		case len(j.Nodes) == 0:
			return ui.Clip(j.Cause, 60)
		}
		return ui.Clip(spec.FormatHosts(j.Nodes), 60)
	}),
}

func jobSize(j *launcher.JobInfo) int32 {
	if cli.IsTasks(j) {
		return j.Tasks.Total
	}
	return j.Ranks
}

func parentOf(j *launcher.JobInfo) filch.JobID { return cmp.Or(j.Parent, j.Inside) }

// endOf is the time of a job's end, or now, in nanoseconds.
func endOf(j *launcher.JobInfo) int64 {
	return j.Submit + int64((j.Waited+j.Elapsed)*float64(time.Second))
}

func dash(s string) string { return cmp.Or(s, "-") }

// jobListing holds the options of a command that lists jobs.
type jobListing struct {
	usual   []string // columns without --columns
	columns string
	sort    string
	states  string
	name    string
	steps   bool
	json    bool

	lead     func(k int) string // cell of the first column for the job with index k; nil: no such column
	leadHead string
}

func (l *jobListing) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&l.states, "state", "", "only jobs in one of these states: a `LIST` like running,failed")
	f.StringVar(&l.name, "name", "", "only jobs whose name matches `PATTERN`: * is any text, ? any letter")
	f.StringVar(&l.sort, "sort", "", "sort by `COLUMN`; -COLUMN turns the order around")
	f.StringVarP(&l.columns, "columns", "o", "", "print the columns of `LIST`, or with +LIST these columns also")
	f.BoolVar(&l.steps, "steps", false, "also the runs that tasks started as steps, and all steps that have ended")
	f.BoolVar(&l.json, "json", false, "print JSON")
}

// columnNames lists the columns for help and errors.
func columnNames() string {
	names := make([]string, len(jobColumns))
	for i := range jobColumns {
		names[i] = jobColumns[i].name
	}
	return strings.Join(names, ", ")
}

// columnText is columnNames in lines of a help text.
func columnText() string {
	return strings.Replace(columnNames(), " ended,", "\nended,", 1)
}

func findColumn(name string) (*jobColumn, error) {
	for i := range jobColumns {
		if jobColumns[i].name == strings.ToLower(name) {
			return &jobColumns[i], nil
		}
	}
	return nil, ui.Misused(filch.Errorf(filch.Invalid, "there is no column %q", name).WithHint("the columns are %s", columnNames()))
}

// check finds mistakes in the options before a launcher is asked.
func (l *jobListing) check() error {
	for _, s := range l.stateList() {
		if !slices.Contains(jobStates, s) && s != heldState {
			return ui.Misused(filch.Errorf(filch.Invalid, "--state %s: there is no state %q", l.states, s).WithHint("the states are %s, %s", strings.Join(jobStates, ", "), heldState))
		}
	}
	if _, err := path.Match(l.name, ""); err != nil {
		return ui.Misused(filch.Errorf(filch.Invalid, "--name %s is no pattern: a [ needs a ]", l.name))
	}
	if l.json && l.columns != "" {
		return ui.Misused(filch.Errorf(filch.Invalid, "--columns does not go with --json, which prints every field"))
	}
	if l.sort != "" {
		if _, err := findColumn(strings.TrimPrefix(l.sort, "-")); err != nil {
			return cli.OfOption("sort", err)
		}
	}
	_, err := l.chosen()
	return err
}

func (l *jobListing) stateList() []string {
	if l.states == "" {
		return nil
	}
	return strings.Split(l.states, ",")
}

// ended reports whether the wanted states include the state of an ended job.
func (l *jobListing) ended() bool {
	return slices.ContainsFunc(l.stateList(), func(s string) bool { return slices.Index(jobStates, s) > slices.Index(jobStates, "running") })
}

// chosen are the columns of the table.
func (l *jobListing) chosen() (list []*jobColumn, err error) {
	names := l.usual
	if more, adds := strings.CutPrefix(l.columns, "+"); adds {
		names = append(slices.Clone(names), strings.Split(more, ",")...)
	} else if l.columns != "" {
		names = strings.Split(l.columns, ",")
	}
	for _, name := range names {
		c, err := findColumn(name)
		if err != nil {
			return nil, cli.OfOption("columns", err)
		}
		list = append(list, c)
	}
	return list, nil
}

// choose returns the wanted jobs of a list, in the wanted order.
func (l *jobListing) choose(list []launcher.JobInfo) []launcher.JobInfo {
	states := l.stateList()
	list = slices.DeleteFunc(list, func(j launcher.JobInfo) bool {
		hidden := j.Task != nil || j.Kind == "step" && j.Code != nil
		return hidden && !l.steps || states != nil && !slices.Contains(states, shownState(&j)) || l.name != "" && !matches(l.name, j.Name)
	})
	if l.sort == "" {
		return list
	}
	name, down := strings.CutPrefix(l.sort, "-")
	if c, err := findColumn(name); err == nil {
		slices.SortStableFunc(list, func(a, b launcher.JobInfo) int {
			if down {
				a, b = b, a
			}
			return c.order(&a, &b)
		})
	}
	return list
}

// matches reports whether a name matches a pattern, in which a slash is a letter like
// any other.
func matches(pattern, name string) bool {
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x01"), strings.ReplaceAll(name, "/", "\x01"))
	return ok && err == nil
}

// print prints the table. On a terminal, jobs that ended badly are red.
func (l *jobListing) print(list []launcher.JobInfo) error {
	columns, err := l.chosen()
	if err != nil {
		return err
	}
	t := &ui.Table{Right: map[int]bool{}}
	if l.lead != nil {
		t.Head = append(t.Head, l.leadHead)
	}
	for _, c := range columns {
		t.Right[len(t.Head)] = c.right
		t.Head = append(t.Head, c.head)
	}
	for k := range list {
		row := make([]string, 0, len(columns)+1)
		if l.lead != nil {
			row = append(row, l.lead(k))
		}
		for _, c := range columns {
			row = append(row, c.cell(&list[k]))
		}
		t.Add(row...)
		t.AlertState(list[k].State)
	}
	return t.Print()
}
