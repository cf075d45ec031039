package tasklist

import (
	"fmt"
	"strconv"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
)

// FindName turns the name of a workflow's task in id into the number of the task.
func FindName(c *client.Client, id *cli.JobRank) error {
	if id.Name == "" {
		return nil
	}
	none := ui.Misused(filch.Errorf(filch.NotFound, "job %d has no task with the name %s", id.Job, strconv.Quote(id.Name)).
		WithHint("filch tasks %d lists the tasks; only tasks of a workflow have names", id.Job))
	v, j, err := openView(c, id.Job)
	switch {
	case j != nil && j.Kind != "workflow":
		return none
	case err != nil:
		return err
	}
	next := v.Payloads([]taskrecords.Indices{{Lo: 0, Hi: v.Rec.Total}})
	for i := range v.Rec.Total {
		p, err := next()
		if err != nil {
			return err
		}
		if n, err := record.DecodeGraphNode(p); err == nil && n.Name == id.Name {
			id.Rank, id.Name = filch.Rank(i), ""
			return nil
		}
	}
	return none
}

// Find reads a task with its name, its command and its last line of standard error.
func Find(c *client.Client, id cli.JobRank) (*Row, error) {
	t := &Row{}
	if err := cli.Ask(c, cli.QueryWait, &t.Task, wire.VerbTask, id.Job.String(), strconv.Itoa(int(id.Rank))); err != nil {
		return nil, err
	}
	v, _, err := openView(c, id.Job)
	if err != nil {
		return nil, err
	}
	t.at, _ = v.Spec.Index(t.Index)
	t.Number, t.Signal = v.Spec.Number(t.at), signalOf(&t.Task)
	list := []Row{*t}
	if err := v.describe(list); err != nil {
		return nil, err
	}
	list[0].State = t.State // as the launcher says
	for _, n := range v.lastLines(list, true) {
		ui.Warn(fmt.Sprintf("node %s does not answer: the last line of the task is not shown", n))
	}
	return &list[0], nil
}
