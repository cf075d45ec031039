// Package deps turns the jobs and tasks of a --dep, as people name them, into conditions
// for the launcher. A job or task that does not exist is refused before the submission.
package deps

import (
	"fmt"
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/tasklist"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
)

// Option is the help of --dep, BagOption where bags are submitted, and BeginOption of --begin.
const (
	Option      = "begin after other jobs, as a `LIST` says: afterok:ID:ID,afterany:ID, afternotok, after (their start), singleton; ? between conditions: any of them"
	BagOption   = "begin after other jobs, as a `LIST` says: afterok:ID:ID,afterany:ID, afternotok, after (their start), aftercorr (each task after the same task of ID), singleton; ? between conditions: any of them"
	BeginOption = "begin at this `TIME` or later: 90s, now+1hour, 16:00, 2026-12-01T10:00"
)

// list collects conditions.
type list struct {
	record.Conditions
	c     *client.Client
	parts []record.Part
	bag   *record.Spec // of a bag whose tasks may wait one by one; nil: no such job
	pairs []pair

	retryOf filch.JobID // the job whose tasks run again in bag; 0: none
}

// pair is a bag whose tasks are waited for one by one.
type pair struct {
	job   filch.JobID
	total int32
}

// Resolve adds the jobs and tasks of d to the conditions of a job with a name.
func Resolve(c *client.Client, d *spec.Deps, name string, to *record.Conditions) error {
	_, err := ResolveBag(c, d, name, nil, to)
	return err
}

// ResolveBag is [Resolve] for a bag with a spec, whose tasks may wait one by one. Tell, called
// with the number of tasks, tells people which of the tasks have none to wait for.
func ResolveBag(c *client.Client, d *spec.Deps, name string, bag *record.Spec, to *record.Conditions) (tell func(total int32), err error) {
	l := &list{c: c, bag: bag, Conditions: record.Conditions{Any: d.Any, Alone: d.Alone, Begin: to.Begin}}
	return l.tell, l.resolve(d, name, to)
}

func (l *list) resolve(d *spec.Deps, name string, to *record.Conditions) error {
	for i := range d.List {
		if err := l.read(&d.List[i]); err != nil {
			return err
		}
	}
	if d.Alone {
		if err := l.sameName(name); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(l.parts, func(p record.Part) bool { return p != (record.Part{}) }) {
		l.Parts = l.parts
	}
	if !slices.ContainsFunc(l.When, func(w record.When) bool { return w != record.WhenOK }) {
		l.When = nil
	}
	l.Any = l.Any && len(l.After) > 1
	if err := l.Conditions.Check(); err != nil {
		return err
	}
	*to = l.Conditions
	return nil
}

func (l *list) add(id filch.JobID, w record.When, p record.Part) {
	l.After, l.When, l.parts = append(l.After, id), append(l.When, w), append(l.parts, p)
}

// read adds the jobs and tasks of a word.
func (l *list) read(d *spec.Dep) error {
	jobs, err := cli.JobTasksOf(l.c, d.Word)
	if err != nil {
		return err
	}
	for i := range jobs {
		t := &jobs[i]
		var j launcher.JobInfo
		if err := cli.Ask(l.c, cli.QueryWait, &j, wire.VerbInfo, t.Job.String()); err != nil {
			return filch.Errorf(ui.KindOf(err), "cannot wait for job %d: %s", t.Job, err.Error())
		}
		switch {
		case j.Kind == "step":
			return filch.Errorf(filch.Invalid, "cannot wait for job %d: the job is a step of job %d", t.Job, j.Parent).
				WithHint("--dep %s:%d waits for the job around the step", d.When, j.Parent)
		case d.Corr:
			if err := l.each(t, &j); err != nil {
				return err
			}
			continue
		case len(t.Tasks) == 0 && t.Names == "":
			l.add(t.Job, d.When, record.Part{Delay: d.Delay})
			continue
		case !cli.IsTasks(&j):
			return ui.Misused(filch.Errorf(filch.Invalid, "cannot wait for %s: job %d is a run, and has ranks, not tasks", d.Word, t.Job).WithHint("--dep %s:%d waits for the run", d.When, t.Job))
		}
		if err := l.tasks(t, d); err != nil {
			return err
		}
	}
	return nil
}

// each adds a bag whose tasks are waited for one by one.
func (l *list) each(t *cli.JobTasks, j *launcher.JobInfo) error {
	refuse := func(why, hint string) error {
		return ui.Misused(filch.Errorf(filch.Invalid, "cannot wait for job %d with %s: %s", t.Job, record.WhenEach, why).WithHint("%s", hint))
	}
	switch {
	case l.bag == nil:
		return refuse("only the tasks of a bag wait one by one", "filch submit --array; in a workflow, tasks wait for tasks")
	case j.Kind != "bag":
		return refuse("the job is a "+j.Kind, "--dep afterok:"+t.Job.String()+" waits for the whole job")
	case len(t.Tasks) > 0 || t.Names != "":
		return refuse("each task waits for the task with its own number", "--dep aftercorr:"+t.Job.String())
	}
	p, err := taskrecords.Open(l.c, t.Job)
	if err != nil {
		return err
	}
	a, b := p.Spec, l.bag
	arrays := (a.Step != 0 || len(a.Picks) > 0) && (b.Step != 0 || len(b.Picks) > 0)
	switch x, y := retried(a), retried(b); {
	case !slices.Equal(x, y) && l.retryOf != 0:
		if len(x) == 0 {
			x = []record.Pick{{Count: p.Rec.Total}}
		}
		return refuse(l.otherTasks(t.Job, x))
	case !slices.Equal(x, y), arrays && (a.First != b.First || a.Step != b.Step || !slices.Equal(a.Picks, b.Picks)):
		return refuse("its tasks have other numbers", "use an --array with the same first number and step")
	}
	if !j.Open {
		l.pairs = append(l.pairs, pair{t.Job, p.Rec.Total})
	}
	l.add(t.Job, record.WhenEach, record.Part{})
	return nil
}

// retried are the names of the tasks of a retry; nil where the names are the indices.
func retried(s *record.Spec) []record.Pick {
	if len(s.Again) == 1 && s.Again[0].From == 0 {
		return nil
	}
	return s.Again
}

// tell says which tasks of a bag with so many tasks have none to wait for.
func (l *list) tell(total int32) {
	for _, p := range l.pairs {
		if n := total - p.total; n > 0 {
			ui.Warn(fmt.Sprintf("%s never %s: each waits for a task of job %d with %s, and the job has %s", filch.Plural(n, "task"), filch.Agree(n, "starts", "start"), p.job, record.WhenEach, filch.Plural(p.total, "task")))
		}
	}
}

// tasks adds tasks of a job.
func (l *list) tasks(t *cli.JobTasks, d *spec.Dep) error {
	name := t.Names
	if err := tasklist.FindNames(l.c, t); err != nil {
		return err
	}
	p, err := taskrecords.Open(l.c, t.Job)
	if err != nil {
		return err
	}
	if d.When == record.WhenStarted && !p.Rec.Graph && !p.Rec.OneByOne() && !p.Spec.CommitsStarts() {
		return ui.Misused(filch.Errorf(filch.Invalid, "cannot wait for the start of %s: the starts of the tasks of this bag are not recorded", d.Word).
			WithHint("submit the bag with --crash-limit 0 or --once, which record each start; --dep after:%d waits for the start of the job, --dep afterany:%s for the end of the task", t.Job, d.Word))
	}
	for _, r := range t.Tasks {
		runs, err := p.Picks([][2]int32{r})
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%d.%d-%d", t.Job, r[0], r[1])
		switch {
		case name != "" && len(t.Tasks) == 1:
			text = fmt.Sprintf("%d.%s", t.Job, name)
		case r[0] == r[1]:
			text = fmt.Sprintf("%d.%d", t.Job, r[0])
		}
		for _, k := range runs {
			if k.Hi-k.Lo > record.MaxPartTasks {
				return ui.Misused(filch.Errorf(filch.Invalid, "cannot wait for %d tasks of job %d: the most is %d", k.Hi-k.Lo, t.Job, record.MaxPartTasks).
					WithHint("--dep %s:%d waits for all of the job", d.When, t.Job))
			}
			l.add(t.Job, d.When, record.Part{Tasks: record.Pick{From: k.Lo, Count: k.Hi - k.Lo}, Name: text[:min(len(text), record.MaxPartName)], Delay: d.Delay})
		}
	}
	return nil
}

// sameName adds the live jobs with a name.
func (l *list) sameName(name string) error {
	jobs, err := cli.QueryJobs(l.c)
	if err != nil {
		return err
	}
	for _, id := range namesakes(jobs, name) {
		if !slices.Contains(l.After, id) {
			l.add(id, record.WhenAny, record.Part{})
		}
	}
	return nil
}

// namesakes lists the live jobs with a name for which a later job of the name waits. Of the
// jobs that wait for their own turn, the last suffices. Jobs that do not see each other here
// get their turn by the chain of the name, in any order.
func namesakes(jobs []launcher.JobInfo, name string) (ids []filch.JobID) {
	last := launcher.JobInfo{}
	for i := range jobs {
		switch j := &jobs[i]; {
		case j.Name != name || j.Code != nil || j.Kind == "step":
		case !strings.HasSuffix(j.Dep, "singleton"):
			ids = append(ids, j.ID)
		case last.ID == 0 || j.Submit > last.Submit:
			last = *j
		}
	}
	if last.ID != 0 {
		ids = append(ids, last.ID)
	}
	return ids
}
