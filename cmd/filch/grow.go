package main

import (
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// ofJob are the options of filch submit that go with --to: all others are the
// job's.
var ofJob = map[string]bool{
	"to": true, "each-line": true, "from-json": true, "wait": true, "progress": true, "json": true,
	"instance": true, "node": true,
}

// add adds tasks to an open job.
func (f *submitFlags) add(g *global, given *pflag.FlagSet, args []string) error {
	var err error
	given.Visit(func(o *pflag.Flag) {
		if !ofJob[o.Name] && err == nil {
			e := filch.Errorf(filch.Invalid, "--%s does not go with --to: the job says it for all of its tasks", o.Name)
			if o.Name == "array" || o.Name == "builtin" {
				e = filch.Errorf(filch.Invalid, "--%s does not go with --to: an open job takes lines, entries, values and commands", o.Name).
					WithHint("submit each array as a job of its own; seq 11 20 | filch submit --to JOB --each-line - adds numbers, in FILCH_LINE")
			}
			err = misuse{e}
		}
	})
	if err != nil {
		return err
	}
	lines, err := f.additions(args)
	if err != nil {
		return misuse{err}
	}
	c, err := g.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	id, err := oneID(f.to, lastJob(c))
	if err != nil {
		return err
	}
	var j launcher.JobInfo
	if err := ask(c, queryWait, &j, wire.VerbInfo, id.Job.String()); err != nil {
		return err
	}
	if !j.Open {
		return filch.Errorf(filch.Invalid, "job %d is not open: nothing can be added to it", j.ID).
			WithHint("filch submit --open makes a job that is")
	}
	t := c.TasksOf(j.ID)
	n, err := grow(t, lines)
	if err != nil {
		return err
	}
	if n == 0 {
		return filch.Errorf(filch.Invalid, "there are no tasks: the list is empty")
	}
	return f.added(c, j, n)
}

// added shows the job, and waits for its end if that is wanted.
func (f *submitFlags) added(c *client.Client, j launcher.JobInfo, n int) error {
	err := f.submitted(j.ID, struct {
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
	return followTasks(t, f.progress)
}

// additions are tasks for a job that there is. Lines and entries are for its
// command, or with a command here for that one.
func (f *submitFlags) additions(args []string) (source, error) {
	command, bag, err := f.sources(args)
	if err != nil {
		return nil, err
	}
	var s launcher.TaskSubmission
	lines, err := f.payloads(&s, command, bag)
	switch {
	case err != nil:
		return nil, err
	case lines == nil && len(command) == 0:
		return nil, filch.Errorf(filch.Invalid, "there is nothing to add").WithHint("filch submit --to %s -- COMMAND", f.to)
	case lines == nil:
		return once(launcher.TaskItem{Argv: command}), nil
	case bag != nil || len(command) == 0:
		return lines, nil
	}
	return func() ([]byte, error) {
		l, err := lines()
		if err != nil {
			return nil, err
		}
		return item(launcher.TaskItem{Argv: command, Env: []string{"FILCH_LINE=" + string(l[1:])}})
	}, nil
}

// justOne is the only task of a job that is open: the job's command, if there is
// one.
func justOne(s *launcher.TaskSubmission, command []string) source {
	s.Spec.Payloads = true
	if len(command) == 0 {
		return func() ([]byte, error) { return nil, io.EOF }
	}
	return once(launcher.TaskItem{})
}

// once yields one task.
func once(t launcher.TaskItem) source {
	done := false
	return func() ([]byte, error) {
		if done {
			return nil, io.EOF
		}
		done = true
		return item(t)
	}
}

func closeCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:     "close JOB...",
		GroupID: "jobs",
		Short:   "add no more tasks to open jobs",
		Long: `Says that nothing is added any more to jobs of filch submit --open. Such a job
ends when all of its tasks have ended.`,
		Example: "  filch submit --open --each-line first.txt\n  filch submit --to last --each-line more.txt\n  filch close last",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, ids, err := g.jobs(args)
			if err != nil {
				return err
			}
			defer c.Close()
			for _, id := range ids {
				if err := ask(c, queryWait, nil, wire.VerbClose, id.Job.String()); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
