package main

import (
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/tasklist"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
)

// rankInfo is a rank in filch info.
type rankInfo struct {
	Job   filch.JobID    `json:"job"`
	Rank  int32          `json:"rank"`
	State string         `json:"state"`
	Code  *int32         `json:"exit_code"` // null until the end
	Node  filch.NodeName `json:"node,omitempty"`
	Text  string         `json:"text,omitempty"` // of a bad end
	launcher.Used
}

// ranksOf shows the ranks of a run.
type ranksOf struct {
	conn  *client.Client
	job   *launcher.JobInfo
	rows  []launcher.RankRow
	whole bool // the job was shown in the place of its ranks
}

func newRanks(c *client.Client, j *launcher.JobInfo) *ranksOf {
	r := &ranksOf{conn: c, job: j, rows: launcher.ReadRankRows(j.Rows)}
	j.Rows = nil
	return r
}

// add adds a rank to what is shown. Of a run without rows, as before its start, the job is
// shown once.
func (r *ranksOf) add(list *[]any, rank int32) error {
	j := r.job
	switch {
	case rank >= max(j.Ranks, 1):
		return cli.NoRank(j, rank)
	case len(r.rows) == 0 || rank >= launcher.MaxRankRows:
		if !r.whole {
			r.whole = true
			why := "nothing is kept of each rank"
			if j.Code == nil {
				why = "memory and processor time of each rank are known when the run has ended"
			}
			ui.Say(fmt.Sprintf("%s: job %d is shown", why, j.ID))
			*list = append(*list, tasklist.Describe(r.conn, j))
		}
		return nil
	}
	*list = append(*list, r.describe(rank))
	return nil
}

// describe describes a rank. A rank without an end runs as long as its job; then its end was
// lost.
func (r *ranksOf) describe(rank int32) *rankInfo {
	j := r.job
	d := &rankInfo{Job: j.ID, Rank: rank, State: filch.Running.String()}
	if j.Code != nil {
		d.State = filch.Lost.String()
	}
	if int(rank) >= len(r.rows) {
		return d
	}
	row := &r.rows[rank]
	if k := int(row.Node); k >= 0 && k < len(j.Nodes) {
		d.Node = j.Nodes[k]
	}
	if row.Ended {
		d.State, d.Code, d.Used = row.State.String(), &row.Code, launcher.UsedOf(row.Usage)
	}
	for i := range j.Bad {
		if int32(j.Bad[i].Rank) == rank {
			d.Text = j.Bad[i].Text
		}
	}
	return d
}

func printRank(d *rankInfo) {
	field := func(name, value string) {
		if value != "" {
			ui.Printf("%-10s %s\n", name, ui.Clean(value))
		}
	}
	field("rank", fmt.Sprintf("%d.%d", d.Job, d.Rank))
	field("state", d.State)
	if d.Code != nil {
		field("exit code", fmt.Sprint(*d.Code))
	}
	field("cause", d.Text)
	field("node", string(d.Node))
	field("cpu", ui.Modes(&d.Used))
	field("memory", peakOf(&d.Used, false))
}
