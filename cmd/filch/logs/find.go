package logs

import (
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
)

// FoldBeat is the time between two looks for lines that have waited long enough for other
// ranks.
const FoldBeat = 100 * time.Millisecond

// Find reads the facts about jobs.
func Find(c *client.Client, spans []cli.JobSpan) ([]Target, error) {
	targets := make([]Target, len(spans))
	for i, s := range spans {
		targets[i] = Target{Job: s.Job, First: s.First, Last: s.Last}
		if err := cli.Ask(c, cli.QueryWait, &targets[i].Info, wire.VerbInfo, s.Job.String()); err != nil {
			return nil, err
		}
		if err := targets[i].exists(c); err != nil {
			return nil, err
		}
	}
	return targets, nil
}

// exists refuses a first task that the job does not have. An open job may get the task
// yet, and tasks that run again have the numbers of an earlier job.
func (t *Target) exists(c *client.Client) error {
	if !cli.IsTasks(&t.Info) || t.First < t.Info.Tasks.Total || t.Info.Open {
		return nil
	}
	err := cli.Ask(c, cli.QueryWait, nil, wire.VerbTask, t.Job.String(), strconv.Itoa(int(t.First)))
	if ui.KindOf(err) == filch.NotFound {
		return filch.Errorf(filch.NotFound, "there is no task %d.%d: the job has %s", t.Job, t.First, filch.Plural(int(t.Info.Tasks.Total), "task"))
	}
	return nil
}

// Limits of reading the names of tasks.
const (
	namesWait   = 5 * time.Second
	namesAtOnce = 64
)

// FindNames reads the names of the tasks of workflows, for labels. A name that cannot be
// read leaves the tasks of the job with their numbers.
func FindNames(c *client.Client, targets []Target) {
	for i := range targets {
		if t := &targets[i]; t.Info.Kind == "workflow" {
			t.Names = names(c, t)
		}
	}
}

func names(c *client.Client, t *Target) (all []string) {
	var keys []dht.Key
	for part := range (t.Info.Tasks.Total + record.PayloadSize - 1) / record.PayloadSize {
		keys = append(keys, dht.Key(record.KeyPayload(t.Job, part)))
	}
	all = make([]string, 0, t.Info.Tasks.Total)
	for len(keys) > 0 {
		n := min(len(keys), namesAtOnce)
		ops := make([]dht.Op, n)
		for i := range ops {
			ops[i] = dht.Op{Code: dht.OpLookup, Key: keys[i]}
		}
		results, err := c.Store(namesWait, ops...)
		if err != nil {
			return nil
		}
		for i := range results {
			p, err := record.DecodePayload(results[i].Value)
			if err != nil {
				return nil
			}
			for off := range min(record.PayloadSize, int(t.Info.Tasks.Total)-len(all)) {
				line, _ := p.Line(uint8(off))
				node, err := record.DecodeGraphNode(line)
				if err != nil {
					return nil
				}
				all = append(all, node.Name)
			}
		}
		keys = keys[n:]
	}
	return all
}
