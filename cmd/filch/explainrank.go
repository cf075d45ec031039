package main

import (
	"errors"
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/tasklist"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// explainRank makes e, the explanation of a run, the explanation of one of its ranks.
func explainRank(c *client.Client, j launcher.JobInfo, rank int32, e *launcher.Explanation) error {
	if rank >= max(j.Ranks, 1) {
		return cli.NoRank(&j, rank)
	}
	if err := cli.Ask(c, cli.QueryWait, e, wire.VerbExplain, j.ID.String()); err != nil {
		return err
	}
	whole := ui.Clean(e.Text)
	d := newRanks(c, &j).describe(rank)
	at := ""
	if d.Node == "" && len(j.Nodes) == 1 {
		d.Node = j.Nodes[0]
	}
	if d.Node != "" {
		at = " on " + string(d.Node)
	} else if n := len(j.Nodes); n > 1 {
		at = " on one of " + launcher.ListNames(j.Nodes)
	}
	e.Task, e.Node = &rank, d.Node
	switch {
	case d.Code != nil:
		e.State, e.Phase = d.State, "end"
		e.Text = fmt.Sprintf("ended with exit code %d%s", *d.Code, at)
		if d.Text != "" {
			e.Text += ": " + d.Text
		}
	case j.Code != nil:
		e.Text = "no end of the rank is known" + at
	case e.Phase == "run" || e.State == filch.Running.String():
		e.State, e.Text = filch.Running.String(), "runs"+at
	default:
		e.Text = "has not begun: a run starts all its ranks at once"
	}
	if whole != "" && whole != d.Text {
		e.Text += ". The whole run: " + whole
	}
	return nil
}

// numbered adds to the error of a task that is not there the task whose FILCH_TASK is this number,
// as the first and all other tasks of an array are off by the same amount.
func numbered(c *client.Client, job filch.JobID, task int32, err error) error {
	var told *filch.Error
	if task < 0 || !errors.As(err, &told) || told.Kind != filch.NotFound {
		return err
	}
	first, bad := tasklist.Find(c, job, 0)
	if bad != nil || first.Number > task {
		return err
	}
	at := task - first.Number
	if t, bad := tasklist.Find(c, job, at); bad != nil || t.Number != task {
		return err
	}
	return told.WithHint("tasks are numbered from 0: the task with FILCH_TASK=%d is %d.%d", task, job, at)
}
