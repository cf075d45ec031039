package tasks

import (
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/tasklist"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// ofJob are the options of filch submit that go with --to: all other options
// belong to the job.
var ofJob = map[string]bool{
	"to": true, "each-line": true, "from-json": true, "array": true, "builtin": true, "colsep": true, "header": true, "wait": true, "progress": true, "json": true,
	"instance": true, "node": true,
}

// add adds tasks to an open job.
func (f *submitFlags) add(g *cli.Global, given *pflag.FlagSet, args []string) error {
	var err error
	given.Visit(func(o *pflag.Flag) {
		if !ofJob[o.Name] && err == nil {
			err = ui.Misused(filch.Errorf(filch.Invalid, "--%s does not go with --to: the open job sets the option for all of its tasks", o.Name))
		}
	})
	if err != nil {
		return err
	}
	lines, err := f.additions(args)
	if err != nil {
		return ui.Misused(err)
	}
	c, err := g.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	id, err := cli.OneJob(f.to, cli.LastJob(c))
	if err != nil {
		return cli.OfOption("to", err)
	}
	var j launcher.JobInfo
	if err := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, id.String()); err != nil {
		return err
	}
	if !j.Open {
		return filch.Errorf(filch.Busy, "job %d is not open: nothing can be added to it", j.ID).
			WithHint("filch submit --open makes an open job")
	}
	if err := f.numbersFit(c, j.ID, args); err != nil {
		return err
	}
	t := c.TasksOf(j.ID)
	n, err := appendTasks(t, lines)
	if err != nil {
		return err
	}
	if n == 0 {
		return filch.Errorf(filch.Invalid, "there are no tasks: the list is empty")
	}
	return f.added(c, j, n)
}

// numbersFit refuses numbers for a job without a command: a shell would run the numbers.
func (f *submitFlags) numbersFit(c *client.Client, id filch.JobID, args []string) error {
	if f.array == "" || f.builtin != "" || len(args) > 0 {
		return nil
	}
	if has, err := tasklist.HasCommand(c, id); err != nil || has {
		return err
	}
	return ui.Misused(filch.Errorf(filch.Invalid, "cannot add the numbers --array %s to job %d: the job has no command for numbers, each of its lines is a command", f.array, id).
		WithHint("filch submit --to %d --array %s -- COMMAND", id, f.array))
}

// added shows the job, and waits for its end if the options ask for the wait.
func (f *submitFlags) added(c *client.Client, j launcher.JobInfo, n int) error {
	err := f.submitted(c.TasksOf(j.ID), struct {
		ID    filch.JobID `json:"id"`
		Name  string      `json:"name"`
		Added int         `json:"added"`
	}{j.ID, j.Name, n})
	if err != nil || !f.follows() {
		return err
	}
	t, err := c.FollowTasks(j.ID)
	if err != nil {
		return err
	}
	return followTasks(t, &f.showFlags)
}

// additions are tasks for an existing job. Lines, entries and numbers are input
// for the job's command, or for a command given here.
func (f *submitFlags) additions(args []string) (source, error) {
	if err := f.readList(); err != nil {
		return nil, err
	}
	command, bag, err := f.sources(args)
	if err != nil {
		return nil, err
	}
	var s submit.Job
	lines, err := f.openPayloads(&s, command, bag)
	switch {
	case err != nil:
		return nil, err
	case s.Spec.Cap > 0:
		return nil, filch.Errorf(filch.Invalid, "--array %s does not go with --to: the open job sets how many tasks run at a time", f.array).
			WithHint("filch submit --open --array 1-10%%%d -- COMMAND makes a job that runs %[1]d tasks at a time", s.Spec.Cap)
	case lines == nil && len(command) == 0:
		return nil, filch.Errorf(filch.Invalid, "there is nothing to add").WithHint("filch submit --to %s -- COMMAND", f.to)
	case lines == nil:
		return many(1, func(int64) ([]byte, error) { return item(launcher.TaskItem{Argv: command}) }), nil
	case f.eachLine == "" && f.fromJSON == "" || len(command) == 0:
		return lines, nil
	}
	t, err := workflow.NewTemplate(command, 1, false)
	if err != nil {
		return nil, err
	}
	i := int64(0)
	return func() ([]byte, error) {
		l, err := lines()
		if err != nil {
			return nil, err
		}
		i++
		line, argv := string(l[1:]), command
		if hasPlaces(command) {
			if argv, err = t.Expand([]string{line}, i, 0); err != nil {
				return nil, err
			}
		}
		return item(launcher.TaskItem{Argv: argv, Env: []string{"FILCH_LINE=" + line}})
	}, nil
}

// opened returns the tasks of a new job that stays open.
func (f *submitFlags) opened(s *submit.Job, command []string, bag *workflow.Bag) (source, error) {
	if f.array != "" && f.builtin == "" && len(command) == 0 {
		return nil, filch.Errorf(filch.Invalid, "there is nothing to run for --array %s", f.array).WithHint("filch submit --open --array %s -- COMMAND", f.array)
	}
	s.Spec.Limits = true // added entries may have limits
	lines, err := f.openPayloads(s, command, bag)
	if err != nil || lines != nil {
		return lines, err
	}
	s.Spec.Payloads = true
	if f.fillsOnNodes(command, nil) {
		return many(0, nil), nil // the command waits for values
	}
	return many(int64(min(len(command), 1)), func(int64) ([]byte, error) { return item(launcher.TaskItem{}) }), nil
}

// openPayloads are the tasks of an open job, nil if no list of tasks is given.
// Each task has a payload: for a builtin the builtin's text, else the task's
// number in the array. A builtin needs no command of the job, and may share a job
// with other tasks.
func (f *submitFlags) openPayloads(s *submit.Job, command []string, bag *workflow.Bag) (source, error) {
	if f.array == "" && f.builtin == "" {
		return f.payloads(s, command, bag)
	}
	of, n := workflow.Array{}, int64(1)
	if f.array != "" {
		var err error
		if of, err = readArray(f.array); err != nil {
			return nil, err
		}
		n, s.Spec.Cap = of.Len(), of.Cap
	}
	s.Spec.Payloads = true
	if f.builtin != "" {
		return f.builtins(n, command)
	}
	var own []byte
	if f.to != "" && len(command) > 0 {
		var err error
		if own, err = item(launcher.TaskItem{Argv: command}); err != nil {
			return nil, err
		}
	}
	if f.array == "" {
		return many(n, func(int64) ([]byte, error) { return own, nil }), nil
	}
	if f.to != "" && hasPlaces(command) {
		t, err := workflow.NewTemplate(command, 1, false)
		if err != nil {
			return nil, err
		}
		return many(n, func(i int64) ([]byte, error) {
			index, _ := of.At(i)
			argv, err := t.Expand([]string{strconv.FormatInt(index, 10)}, index, 0)
			if err != nil {
				return nil, err
			}
			own, err := item(launcher.TaskItem{Argv: argv})
			return numbered(index, own), err
		}), nil
	}
	return numbers(of, own), nil
}

// builtins are tasks without a process, in a job whose other tasks may start
// processes.
func (f *sourceFlags) builtins(n int64, command []string) (source, error) {
	body, err := builtin(f.builtin)
	switch {
	case err != nil:
		return nil, err
	case f.eachLine != "" || f.fromJSON != "" || len(command) > 0:
		return nil, builtinAlone(f.builtin)
	}
	return many(n, func(int64) ([]byte, error) { return append([]byte{launcher.PayloadBuiltin}, body...), nil }), nil
}

// many yields n payloads.
func many(n int64, payload func(i int64) ([]byte, error)) source {
	i := int64(-1)
	return func() ([]byte, error) {
		if i++; i >= n {
			return nil, io.EOF
		}
		return payload(i)
	}
}

func CloseCommand(g *cli.Global) *cobra.Command {
	return &cobra.Command{
		Use:     "close JOB...",
		GroupID: "jobs",
		Short:   "close open jobs, so that they end with their last task",
		Long: `Closes jobs of filch submit --open: no more tasks can be added. A closed job ends when
all of its tasks have ended. Exits with 125 if a job is not open.`,
		Example: "  filch submit --open --each-line first.txt\n  filch submit --to last --each-line more.txt\n  filch close last",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, ids, err := g.Jobs(args)
			if err != nil {
				return err
			}
			defer c.Close()
			code := 0
			for _, id := range ids {
				if err := closeJob(c, id); err != nil {
					code = max(code, ui.Refuse(err))
				}
			}
			if code != 0 {
				return ui.Exit(code)
			}
			return nil
		},
	}
}

func closeJob(c *client.Client, id filch.JobID) error {
	var j launcher.JobInfo
	err := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, id.String())
	if err == nil && cli.IsTasks(&j) && !j.Open {
		return filch.Errorf(filch.Busy, "job %d is not open: there is nothing to close", id)
	}
	if err == nil {
		err = cli.Ask(c, cli.QueryWait, nil, wire.VerbClose, id.String())
	}
	return err
}
