package main

import (
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// explainRank makes e, the explanation of a run, the explanation of one of its ranks.
func explainRank(c *client.Client, j *launcher.JobInfo, rank int32, e *launcher.Explanation) error {
	if rank >= max(j.Ranks, 1) {
		return cli.NoRank(j, rank)
	}
	if err := cli.Ask(c, cli.QueryWait, e, wire.VerbExplain, j.ID.String()); err != nil {
		return err
	}
	whole := ui.Clean(e.Text)
	d := newRanks(c, j).describe(rank)
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
