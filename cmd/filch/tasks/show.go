package tasks

import (
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/logs"
	"github.com/filch-hpc/filch/cmd/filch/onend"
	"github.com/filch-hpc/filch/cmd/filch/tasklist"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// showFlags set the actions of the command after the submission.
type showFlags struct {
	wait, progress, tag, ungroup, inOrder, asJSON bool
	onEnd                                         string // the command to run after the end of the job
}

// declareOutput registers the options about the output of tasks.
func (f *showFlags) declareOutput(p *pflag.FlagSet) {
	p.BoolVar(&f.tag, "tag", false, "wait, and print the output of each task when the task has ended, every line with the number or name of the task")
	p.BoolVar(&f.ungroup, "ungroup", false, "wait, and print the output line by line while tasks run; with --tag, with labels")
	p.BoolVar(&f.inOrder, "keep-order", false, "wait, and print the output of the tasks in the order of their numbers")
	p.BoolVar(&f.ungroup, "line-buffer", false, "the same as --ungroup")
	_ = p.MarkHidden("line-buffer")
}

// prints reports whether the command prints the output of tasks.
func (f *showFlags) prints() bool { return f.tag || f.ungroup || f.inOrder }

// follows reports whether the command stays until the job has ended.
func (f *showFlags) follows() bool { return f.wait || f.progress || f.prints() }

// check refuses options that contradict each other.
func (f *showFlags) check() error {
	if err := onend.Check(f.onEnd); err != nil {
		return err
	}
	if f.inOrder && f.ungroup {
		return filch.Errorf(filch.Invalid, "--keep-order prints the output of whole tasks, and --ungroup lines while tasks run: use one of them")
	}
	return nil
}

// submitted arranges for the command of --on-end, and prints the number of a job, or said as JSON. Standard output has either the
// number or the output of tasks.
func (f *showFlags) submitted(t *client.Tasks, said any) (err error) {
	onend.Submit(t.Another, t.Job, f.onEnd)
	switch {
	case f.asJSON:
		err = ui.PrintJSON(said)
	case !f.prints():
		_, err = os.Stdout.WriteString(t.Job.String() + "\n")
	}
	return err
}

// printOutput prints the output of a job's tasks until the end of the job. over is closed when
// the command gives up.
func (f *showFlags) printOutput(t *client.Tasks, before func(), over <-chan struct{}) error {
	c, err := t.Another()
	if err != nil {
		return err
	}
	defer c.Close()
	targets, err := logs.Find(c, []cli.JobSpan{{Job: t.Job, Last: logs.All}})
	if err != nil {
		return err
	}
	if f.tag {
		logs.FindNames(c, targets)
	}
	p := logs.NewPrinter(logs.View{Label: f.tag, Tail: -1, Turns: f.inOrder, Before: before})
	r := &logs.Reader{Targets: targets, Follow: true, Show: []string{logs.Lines}, Sink: p, Again: func(deadline time.Time) (*client.Client, error) {
		return moved(t, deadline, over)
	}}
	if !f.ungroup {
		r.Show, r.Whole = []string{logs.Ended}, !f.inOrder
	}
	if f.inOrder {
		passed, stop := tasklist.WatchPrefix(t)
		defer stop()
		r.Passed = passed
	}
	if err = r.Run(c); err == nil {
		err = p.Close()
	}
	return err
}

// moved connects to the launcher of t, which [goOn] replaces after the loss of the launcher.
func moved(t *client.Tasks, deadline time.Time, over <-chan struct{}) (*client.Client, error) {
	for {
		c, err := t.Another()
		if err == nil {
			if _, err = c.Query(cli.AliveWait, wire.VerbNodes); err == nil {
				return c, nil
			}
			c.Close()
		}
		select {
		case <-over:
			return nil, err
		case <-time.After(cli.LossPause):
		}
		if time.Now().After(deadline) {
			return nil, err
		}
	}
}
