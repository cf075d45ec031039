package main

import (
	"encoding/binary"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// ofJob are the options of filch submit that go with --to: all others are the
// job's.
var ofJob = map[string]bool{
	"to": true, "each-line": true, "from-json": true, "array": true, "builtin": true, "wait": true, "progress": true, "json": true,
	"instance": true, "node": true,
}

// add adds tasks to an open job.
func (f *submitFlags) add(g *global, given *pflag.FlagSet, args []string) error {
	var err error
	given.Visit(func(o *pflag.Flag) {
		if !ofJob[o.Name] && err == nil {
			err = misuse{filch.Errorf(filch.Invalid, "--%s does not go with --to: the job says it for all of its tasks", o.Name)}
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

// additions are tasks for a job that there is. Lines, entries and numbers are for
// its command, or with a command here for that one.
func (f *submitFlags) additions(args []string) (source, error) {
	command, bag, err := f.sources(args)
	if err != nil {
		return nil, err
	}
	var s launcher.TaskSubmission
	lines, err := f.openPayloads(&s, command, bag)
	switch {
	case err != nil:
		return nil, err
	case s.Spec.Cap > 0:
		return nil, filch.Errorf(filch.Invalid, "--array %s does not go with --to: how many tasks run at a time is the job's", f.array).
			WithHint("filch submit --open --array 1-10%%%d -- COMMAND makes a job of %[1]d at a time", s.Spec.Cap)
	case lines == nil && len(command) == 0:
		return nil, filch.Errorf(filch.Invalid, "there is nothing to add").WithHint("filch submit --to %s -- COMMAND", f.to)
	case lines == nil:
		return many(1, func(int64) ([]byte, error) { return item(launcher.TaskItem{Argv: command}) }), nil
	case f.eachLine == "" && f.fromJSON == "" || len(command) == 0:
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

// opened says what the tasks of a new job are that stays open.
func (f *submitFlags) opened(s *launcher.TaskSubmission, command []string, bag *workflow.Bag) (source, error) {
	if f.array != "" && f.builtin == "" && len(command) == 0 {
		return nil, filch.Errorf(filch.Invalid, "there is nothing to run for --array %s", f.array).WithHint("filch submit --open --array %s -- COMMAND", f.array)
	}
	s.Spec.Limits = true // entries that are added may have them
	lines, err := f.openPayloads(s, command, bag)
	if err != nil || lines != nil {
		return lines, err
	}
	s.Spec.Payloads = true
	return many(int64(min(len(command), 1)), func(int64) ([]byte, error) { return item(launcher.TaskItem{}) }), nil
}

// openPayloads are the tasks of an open job, nil if no list of them is given.
// Each has a payload, where its number is if it is one of an array, and what is
// built in. What is built in needs no command of the job, and no job of its own.
func (f *submitFlags) openPayloads(s *launcher.TaskSubmission, command []string, bag *workflow.Bag) (source, error) {
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
	return many(n, func(i int64) ([]byte, error) {
		number, _ := of.At(i)
		return append(binary.BigEndian.AppendUint32([]byte{launcher.PayloadNumber}, uint32(number)), own...), nil
	}), nil
}

// builtins are tasks that start no process, in a job in which others may.
func (f *submitFlags) builtins(n int64, command []string) (source, error) {
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
