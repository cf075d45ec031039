package tasks

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/deps"
	"github.com/filch-hpc/filch/cmd/filch/onend"
	"github.com/filch-hpc/filch/cmd/filch/tasklist"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

func RetryCommand(g *cli.Global) *cobra.Command {
	var show showFlags
	again := &retryOptions{}
	c := &cobra.Command{
		Use:     "retry JOB[.TASKS]...",
		GroupID: "run",
		Short:   "run again the tasks that did not end well",
		Long: `Submits the tasks of a job that did not end well as a new job with the same options,
and prints the number of the new job; of several jobs, each becomes a new job. The tasks
keep their numbers: task 7.5 runs again as task 12.5 in filch info, logs, export and
cancel, with the same FILCH_TASK. With TASKS, only the failed tasks among these run again.
Tasks that filch cancel ended one by one run again only with TASKS or --cancelled; the rest
of a job that was cancelled as a whole, or by --halt, runs again.

For a workflow, TASKS are refused. A task that depends on a task which stays cancelled does
not run either. The new tasks read the files of the tasks that ended well. filch retry waits
for the end and brings the results, as filch workflow run does. A task that ended well runs
again only when its files are lost with its node.

When JOB started after other jobs (--dep), and one of these did not end well, filch
retry refuses; --dep names the jobs to wait for in their place. With aftercorr, only the
tasks count for which the tasks of JOB waited: retry the other job as a new job N, then
the same tasks of JOB with --dep aftercorr:N. A hint names these tasks.`,
		Example: "  filch retry last\n  filch retry 7 --wait --progress\n  filch retry 7.5,17\n  filch retry 7-9",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := show.check(); err != nil {
				return ui.Misused(err)
			}
			c, named, err := tasklist.Named(g, args)
			if err != nil {
				return err
			}
			defer c.Close()
			if len(named) > 1 && (show.follows() || show.asJSON || show.onEnd != "") {
				return ui.Misused(filch.Errorf(filch.Invalid, "%d jobs are named: --wait, --json, --on-end and the options about output go with one", len(named)).
					WithHint("filch wait $(filch retry %s)", ui.Clean(strings.Join(args, " "))))
			}
			code := 0
			for i := range named {
				err := again.one(g, c, &named[i], show)
				if err == nil {
					continue
				}
				if len(named) == 1 {
					return err
				}
				code = max(code, ui.Refuse(err))
			}
			if code != 0 {
				return ui.Exit(code)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&show.wait, "wait", false, "wait for the end; exit with 1 when a task did not end well")
	c.Flags().BoolVar(&show.progress, "progress", false, "wait, and show the progress")
	show.declareOutput(c.Flags())
	c.Flags().StringVar(&show.onEnd, "on-end", "", onend.Help)
	again.declare(c.Flags())
	c.Flags().BoolVar(&again.cancelled, "cancelled", false, "also the tasks that filch cancel ended one by one")
	c.Flags().StringVar(&again.priority, "priority", "", "`NUMBER`; jobs with a lower number start first (default: that of JOB)")
	c.Flags().BoolVar(&show.asJSON, "json", false, "print the job as JSON")
	return c
}

// retryOptions say which tasks run again, and when.
type retryOptions struct {
	waitFlags
	priority  string
	cancelled bool
}

// one runs tasks of a job again.
func (r *retryOptions) one(g *cli.Global, c *client.Client, named *cli.JobTasks, show showFlags) error {
	later := record.Conditions{}
	if err := r.read(&later); err != nil {
		return ui.Misused(err)
	}
	p, err := readPast(c, named.Job)
	if err == nil && p.Rec.Graph {
		p.later = later
		err = deps.ResolveRetry(c, &r.deps, p.Job, nil, nil, &p.later)
	}
	if err == nil && r.priority != "" {
		if p.Rec.Ticket.Class, err = spec.Priority(r.priority); err != nil {
			return ui.Misused(ofOption("priority", err))
		}
	}
	switch {
	case err != nil:
		return err
	case p.Rec.Graph && len(named.Tasks) > 0:
		return ui.Misused(filch.Errorf(filch.Invalid, "%d.%s names tasks of a workflow, and filch retry runs all of its tasks that did not end well", p.ID, cli.RunsText(named.Tasks)).
			WithHint("filch retry %d", p.ID))
	case p.Rec.Graph:
		p.single = !r.cancelled && p.Rec.Void != filch.Cancelled
		return p.rerunWorkflow(g, show)
	}
	p.later = later
	p.single = !r.cancelled && len(named.Tasks) == 0 && p.Rec.Void == 0
	return p.rerunBag(g, &r.deps, show, named.Tasks)
}

// past is an ended job of tasks, read from its records.
type past struct {
	*taskrecords.Job
	later record.Conditions // of the new job
	// Tasks that were cancelled one by one stay so; left are these tasks, and cut counts the
	// tasks of a workflow that cannot run without these tasks.
	single bool
	left   []taskrecords.Indices
	cut    int
}

func readPast(c *client.Client, id filch.JobID) (*past, error) {
	var j launcher.JobInfo
	if err := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, id.String()); err != nil {
		return nil, err
	}
	switch {
	case !cli.IsTasks(&j):
		return nil, filch.Errorf(filch.Invalid, "job %d is a run: it has no tasks", j.ID).WithHint("start the program again with filch run")
	case j.Code == nil:
		return nil, filch.Errorf(filch.Busy, "job %d has not ended", j.ID).WithHint("filch wait %d", j.ID)
	}
	return readRecords(c, j.ID)
}

// readRecords reads a job without regard to its state.
func readRecords(c *client.Client, id filch.JobID) (*past, error) {
	j, err := taskrecords.Open(c, id)
	if err != nil {
		return nil, err
	}
	return &past{Job: j}, nil
}

// failures are the tasks that did not end well, in order.
func (p *past) failures() ([]taskrecords.Indices, error) {
	var zones []string
	for _, z := range p.Rec.Zones {
		if z.Bad() > 0 {
			zones = append(zones, record.KeyZone(p.ID, z.Zone))
		}
	}
	values, err := p.Read(zones)
	if err != nil {
		return nil, err
	}
	var bad []taskrecords.Indices
	for _, v := range values {
		z, err := record.DecodeZone(v)
		if err != nil {
			return nil, filch.Errorf(filch.Internal, "a record of job %d is damaged: %s", p.ID, err.Error())
		}
		for _, s := range z.Spans {
			if s.Void == filch.Cancelled && p.single {
				p.left = append(p.left, taskrecords.Indices{Lo: s.Lo, Hi: min(s.Hi, p.Rec.Total)})
			} else if s.Void != 0 {
				bad = append(bad, taskrecords.Indices{Lo: s.Lo, Hi: min(s.Hi, p.Rec.Total)})
			}
		}
		var numbers []int32
		for _, b := range z.Blocks {
			if b.Bad() > 0 {
				numbers = append(numbers, b.Block)
			}
		}
		if err := p.Load(numbers); err != nil {
			return nil, err
		}
		for _, n := range numbers {
			b := p.Blocks[n]
			for k, off := range b.Offs {
				i := n*record.BlockSize + int32(off)
				if s := b.Tasks[k].State; s == filch.Cancelled && p.single {
					p.left = append(p.left, taskrecords.Indices{Lo: i, Hi: i + 1})
				} else if s.Final() && s != filch.OK {
					bad = append(bad, taskrecords.Indices{Lo: i, Hi: i + 1})
				}
			}
		}
	}
	return taskrecords.JoinRuns(bad), nil
}

// nothing prints that no task is left to retry.
func (p *past) nothing() {
	if len(p.left) > 0 {
		ui.Say(fmt.Sprintf("no task of job %d failed, and %s: filch retry --cancelled %[1]d runs what was cancelled", p.ID, p.stays()))
		return
	}
	ui.Say(fmt.Sprintf("all tasks of job %d ended well: nothing to run again", p.ID))
}

// stays tells how many tasks stay cancelled, and how many tasks cannot run for that reason.
func (p *past) stays() string {
	n := 0
	for _, r := range p.left {
		n += int(r.Hi - r.Lo)
	}
	text := filch.Plural(n, "task") + " ended by a cancel"
	if p.cut > 0 {
		text += fmt.Sprintf(", without which %s cannot run", filch.Plural(p.cut, "task"))
	}
	return text
}

// rerunBag submits the failures of a bag, or those among the named tasks.
func (p *past) rerunBag(g *cli.Global, d *spec.Deps, show showFlags, named [][2]int32) error {
	bad, err := p.failures()
	if err != nil {
		return err
	}
	if len(named) > 0 {
		picks, err := p.Picks(named)
		if err != nil {
			return err
		}
		if bad = taskrecords.Common(bad, picks); len(bad) == 0 {
			ui.Say(fmt.Sprintf("the named tasks of job %d ended well: nothing to run again", p.ID))
			return nil
		}
	}
	if len(bad) == 0 {
		p.nothing()
		return nil
	}
	if p.Spec.Payloads && p.Rec.Tally().Lost > 0 {
		if bad, err = p.withLines(bad); err != nil {
			return err
		}
	}
	s := &submit.Job{Name: p.Rec.Name, Ticket: filch.Ticket{Class: p.Rec.Ticket.Class}, Spec: *p.Spec, Follow: show.follows()}
	for _, r := range bad {
		s.Total += r.Hi - r.Lo
	}
	s.Spec.Again = p.names(bad)
	if err := deps.ResolveRetry(p.Conn, d, p.Job, &s.Spec, bad, &p.later); err != nil {
		return err
	}
	s.Conditions = p.later
	if s.Long, err = p.Lengths(bad); err != nil {
		return err
	}
	if len(s.Spec.Again) > record.MaxPicks {
		if !p.Spec.Payloads {
			return filch.Errorf(filch.Invalid, "cannot retry job %d: its failed tasks form %d separate ranges, and at most %d can be submitted", p.ID, len(s.Spec.Again), record.MaxPicks)
		}
		// Each task has its line; FILCH_TASK counts from 0.
		s.Spec.Again, s.Spec.Picks, s.Spec.First, s.Spec.Step = nil, nil, 0, 0
	}
	var lines source
	if p.Spec.Payloads {
		lines = p.Payloads(bad)
	}
	return p.submit(g, s, lines, show, nil)
}

// names are the names of tasks, in the order of the tasks: runs of names that follow each
// other are one.
func (p *past) names(tasks []taskrecords.Indices) (list []record.Pick) {
	for _, r := range tasks {
		for i := r.Lo; i < r.Hi; i++ {
			list = record.AppendPick(list, p.Spec.Name(i))
		}
	}
	return list
}

// withLines leaves out tasks that were lost for want of their line: the client
// died after adding the tasks and before the line was written.
func (p *past) withLines(bad []taskrecords.Indices) (have []taskrecords.Indices, err error) {
	parts := map[int32]*record.Payload{}
	gone := 0
	for k, r := range bad {
		for i := r.Lo; i < r.Hi; i++ {
			line, err := p.Line(parts, i, bad[k:])
			if err != nil {
				return nil, err
			}
			if len(line) == 0 {
				gone++
				continue
			}
			have = append(have, taskrecords.Indices{Lo: i, Hi: i + 1})
		}
	}
	if gone > 0 {
		ui.Say(fmt.Sprintf("cannot run %s of job %d again: the client that added the tasks died before their lines were stored", filch.Plural(gone, "task"), p.ID))
	}
	if len(have) == 0 {
		return nil, filch.Errorf(filch.NotFound, "no task of job %d can run again", p.ID).WithHint("submit the tasks again with filch submit")
	}
	return taskrecords.JoinRuns(have), nil
}

// submit submits the new job over its own connection, and follows the job if show
// asks for the wait; ended is called at the end, if there is something left to
// do.
func (p *past) submit(g *cli.Global, s *submit.Job, lines source, show showFlags, ended func(filch.JobID, error) error) error {
	c, err := g.Dial()
	if err != nil {
		return err
	}
	t, err := send(c, s, lines)
	if err != nil {
		return err
	}
	defer t.Close()
	err = show.submitted(t, struct {
		ID    filch.JobID `json:"id"`
		Name  string      `json:"name"`
		Again filch.JobID `json:"retry_of"`
	}{t.Job, s.Name, p.ID})
	if err != nil || !s.Follow {
		return err
	}
	if err = followTasks(t, &show); ended != nil {
		return ended(t.Job, err)
	}
	return err
}
