package tasklist

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
)

// Named connects to the launcher, and reads the names of jobs and tasks, also the names of
// a workflow's tasks.
func Named(g *cli.Global, words []string) (*client.Client, []cli.JobTasks, error) {
	c, list, err := g.JobTasks(words)
	if err != nil {
		return nil, nil, err
	}
	for i := range list {
		if err := FindNames(c, &list[i]); err != nil {
			c.Close()
			return nil, nil, err
		}
	}
	return c, list, nil
}

// NamedOne is [Named] for a word that names one job, or tasks of one job.
func NamedOne(g *cli.Global, word string) (*client.Client, cli.JobTasks, error) {
	c, list, err := Named(g, []string{word})
	switch {
	case err != nil:
		return nil, cli.JobTasks{}, err
	case len(list) != 1:
		c.Close()
		return nil, cli.JobTasks{}, cli.TooMany(word, len(list))
	}
	return c, list[0], nil
}

// FindNames turns the names of a workflow's tasks into the numbers of the tasks. The text
// is one name if there is a task with that name, else a list with commas.
func FindNames(c *client.Client, t *cli.JobTasks) error {
	if t.Names == "" {
		return nil
	}
	words := strings.Split(t.Names, ",")
	none := func(name string) error {
		return filch.Errorf(filch.NotFound, "job %d has no task with the name %s", t.Job, strconv.Quote(name)).
			WithHint("%s; only tasks of a workflow have names", cli.TaskHint)
	}
	v, j, err := openView(c, t.Job)
	switch {
	case j != nil && j.Kind != "workflow":
		return ui.Misused(filch.Errorf(filch.Invalid, "%s names no task of job %d: the job is a %s, and only tasks of a workflow have names", strconv.Quote(t.Names), t.Job, j.Kind).
			WithHint("%s", cli.TaskHint))
	case err != nil:
		return err
	}
	at := map[string]int32{t.Names: -1}
	for _, w := range words {
		at[w] = -1
	}
	next := v.Payloads([]taskrecords.Indices{{Lo: 0, Hi: v.Rec.Total}})
	for i := range v.Rec.Total {
		p, err := next()
		if err != nil {
			return err
		}
		n, err := record.DecodeGraphNode(p)
		if err != nil {
			continue
		}
		if _, wanted := at[n.Name]; wanted {
			at[n.Name] = i
		}
	}
	if at[t.Names] >= 0 {
		words = []string{t.Names}
	}
	for _, w := range words {
		r, number := cli.ReadRun(w)
		if i := at[w]; i >= 0 {
			r = [2]int32{i, i}
		} else if !number {
			return none(w)
		}
		t.Tasks = append(t.Tasks, r)
	}
	t.Names = ""
	return nil
}

// Find reads a task with its name, its command and its last line of standard error.
func Find(c *client.Client, id filch.JobID, task int32) (*Row, error) {
	list, err := FindAll(c, id, []int32{task})
	if err != nil {
		return nil, err
	}
	return &list[0], nil
}

// FindAll reads tasks of a job as [Find] does, with the records of the job read once.
func FindAll(c *client.Client, id filch.JobID, tasks []int32) ([]Row, error) {
	list := make([]Row, len(tasks))
	if len(tasks) == 0 {
		return list, nil
	}
	for i, task := range tasks {
		if err := cli.Ask(c, cli.QueryWait, &list[i].Task, wire.VerbTask, id.String(), strconv.Itoa(int(task))); err != nil {
			return nil, err
		}
	}
	v, _, err := openView(c, id)
	if err != nil {
		return nil, err
	}
	states := make([]string, len(list)) // as the launcher says
	for i := range list {
		t := &list[i]
		t.at, _ = v.Spec.Index(t.Index)
		t.Number, t.Signal = v.Spec.Number(t.at), signalOf(&t.Task)
		states[i] = t.State
	}
	if err := v.describe(list); err != nil {
		return nil, err
	}
	for i := range list {
		t := &list[i]
		t.State = states[i]
		if err := v.giveReason(t); err != nil {
			return nil, err
		}
		for _, b := range t.Behind {
			name, _, err := v.node(b)
			if err != nil {
				return nil, err
			}
			t.BehindNames = append(t.BehindNames, name)
		}
	}
	for _, n := range v.lastLines(list, true) {
		ui.Warn(fmt.Sprintf("node %s does not answer: the last line of the task is not shown", n))
	}
	return list, nil
}

// nameGang completes the explanation of an ended task with the nodes of the ranks, if the task is a
// gang.
func (v *view) nameGang(x *launcher.Explanation) error {
	at, ok := v.Spec.Index(*x.Task)
	if !ok || !v.Spec.Gangs() {
		return nil
	}
	list := []Row{v.listed(at)}
	if err := v.describe(list); err != nil || !list[0].Gang {
		return err
	}
	end, err := endOf(v.Job, at)
	if err != nil {
		return err
	}
	x.Text += "; this node was the owner of the gang, and has its output"
	if end != nil && len(end.Nodes) > 0 {
		list[0].Fill(end)
		x.Text += "; the ranks ran on " + list[0].GangNodes()
	}
	return nil
}

// Name completes the explanation of a workflow's task with the names of this task and of
// the tasks that it waits for.
func Name(c *client.Client, x *launcher.Explanation) error {
	if x.Task == nil {
		return nil
	}
	v, _, err := openView(c, x.Job)
	if err != nil {
		return err
	}
	switch x.State {
	case filch.OK.String(), filch.Failed.String(), filch.Killed.String(), filch.Lost.String():
		if err := v.nameGang(x); err != nil {
			return err
		}
	}
	if !v.Rec.Graph {
		return nil
	}
	if x.Name, _, err = v.node(*x.Task); err != nil {
		return err
	}
	if len(x.Behind) > 0 {
		x.Text = "waits for the end of " + launcher.ListTasks(x.Job, x.Behind, func(i int32) string {
			name, _, bad := v.node(i)
			if bad != nil {
				err = bad
			}
			return name
		})
		return err
	}
	if x.State == filch.Skipped.String() {
		t := v.listed(*x.Task)
		t.State = x.State
		if err = v.giveReason(&t); t.Reason != "" {
			x.Text += ": " + t.Reason
		}
	}
	return err
}

// node reads the name and the parents of a workflow's task.
func (v *view) node(i int32) (name string, parents []int32, err error) {
	p, err := v.Line(v.parts, i, []taskrecords.Indices{{Lo: i, Hi: i + 1}})
	if err != nil {
		return "", nil, err
	}
	n, err := record.DecodeGraphNode(p)
	if err != nil {
		return "", nil, filch.Errorf(filch.Internal, "the record of task %d.%d is damaged: %s", v.ID, i, err.Error())
	}
	return n.Name, n.Parents, nil
}

// maxSkips bounds the skipped tasks on the way to the task that did not end well.
const maxSkips = 1000

// giveReason sets the reason of a skipped task: the task before it that did not end well.
func (v *view) giveReason(t *Row) error {
	if t.State != filch.Skipped.String() {
		return nil
	}
	if !v.Rec.Graph {
		t.Reason = eachReason(v.Rec, t.Index)
		return nil
	}
	at := t.at
	for range maxSkips {
		_, parents, err := v.node(at)
		if err != nil {
			return err
		}
		next := int32(-1)
		for _, p := range parents {
			e, err := endOf(v.Job, p)
			switch {
			case err != nil:
				return err
			case e == nil || !e.State.Final() || e.State == filch.OK:
			case e.State == filch.Skipped:
				next = max(next, p)
			default:
				name, _, err := v.node(p)
				t.Reason = fmt.Sprintf("task %d.%d (%s) %s", v.ID, p, name, badly(e.State))
				if why := v.Rec.Why(p); why != "" && e.State == filch.Cancelled {
					t.Reason += ": " + why
				}
				return err
			}
		}
		if next < 0 {
			break
		}
		at = next
	}
	switch {
	case v.Rec.Void == filch.Skipped && v.Rec.Reason != "":
		t.Reason = v.Rec.Reason
	case len(v.Rec.After) > 0 && v.Rec.Tally().Skipped == v.Rec.Total:
		t.Reason = "a job before this one did not end well: " + launcher.ListJobs(v.Rec.After)
	case v.Rec.Void == filch.Skipped:
		t.Reason = "another task did not end well, and the workflow stops then"
	}
	return nil
}

// badly says how a task ended that did not end well.
func badly(s filch.State) string {
	if s == filch.Failed {
		return s.String()
	}
	return "was " + s.String()
}

// Job is a job as filch info shows jobs.
type Job struct {
	launcher.JobInfo
	Before *launcher.TasksBefore `json:"before,omitempty"`
}

// Describe adds to a workflow that goes on with another job what was done there. Of a job
// whose records were dropped nothing is added.
func Describe(c *client.Client, j *launcher.JobInfo) Job {
	d := Job{JobInfo: *j}
	if j.Kind == "workflow" {
		if v, _, err := openView(c, j.ID); err == nil {
			d.Before = v.extra.Before
		}
	}
	return d
}
