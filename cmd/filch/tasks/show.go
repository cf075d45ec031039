package tasks

import (
	"os"

	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/logs"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
)

// showFlags set the actions of the command after the submission.
type showFlags struct{ wait, progress, tag, ungroup, asJSON bool }

// declareOutput registers the options about the output of tasks.
func (f *showFlags) declareOutput(p *pflag.FlagSet) {
	p.BoolVar(&f.tag, "tag", false, "with --wait: print the output of each task when the task has ended, every line with the number or name of the task")
	p.BoolVar(&f.ungroup, "ungroup", false, "with --wait: print the output line by line while tasks run; with --tag, with labels")
	p.BoolVar(&f.ungroup, "line-buffer", false, "the same as --ungroup")
	_ = p.MarkHidden("line-buffer")
}

// prints reports whether the command prints the output of tasks.
func (f *showFlags) prints() bool { return f.tag || f.ungroup }

// follows reports whether the command stays until the job has ended.
func (f *showFlags) follows() bool { return f.wait || f.progress || f.prints() }

// submitted prints the number of a job, or said as JSON. Standard output has either the
// number or the output of tasks.
func (f *showFlags) submitted(id filch.JobID, said any) (err error) {
	switch {
	case f.asJSON:
		err = ui.PrintJSON(said)
	case !f.prints():
		_, err = os.Stdout.WriteString(id.String() + "\n")
	}
	return err
}

// printOutput prints the output of a job's tasks until the end of the job.
func (f *showFlags) printOutput(t *client.Tasks, before func()) error {
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
	p := logs.NewPrinter(logs.View{Label: f.tag, Tail: -1, Before: before})
	r := &logs.Reader{Targets: targets, Follow: true, Show: []string{logs.Lines}, Sink: p}
	if !f.ungroup {
		r.Show, r.Whole = []string{logs.Ended}, true
	}
	if err = r.Run(c); err == nil {
		err = p.Close()
	}
	return err
}
