package main

import (
	"encoding/json"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

const wireVersion = wire.Version

// ask sends a query and decodes the answer into v, nil for none. It waits for
// d; 0 is for as long as it takes.
func ask(c *client.Client, d time.Duration, v any, verb string, args ...string) error {
	b, err := c.Query(d, verb, args...)
	if err != nil {
		return err
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return filch.Errorf(filch.Internal, "cannot read the launcher's answer to %s: %s", verb, err.Error())
	}
	return nil
}

func queryNodes(c *client.Client) ([]wire.NodeInfo, error) {
	var list []wire.NodeInfo
	err := ask(c, queryWait, &list, wire.VerbNodes)
	return list, err
}

func queryJobs(c *client.Client) ([]launcher.JobInfo, error) {
	var list []launcher.JobInfo
	err := ask(c, queryWait, &list, wire.VerbPs)
	return list, err
}

// lastJob returns a function that finds the job that was submitted last, by
// somebody and not by a task.
func lastJob(c *client.Client) func() (filch.JobID, error) {
	return func() (filch.JobID, error) {
		list, err := queryJobs(c)
		if err != nil {
			return 0, err
		}
		var last launcher.JobInfo
		for _, j := range list {
			if j.Submit > last.Submit && j.Task == nil {
				last = j
			}
		}
		if last.ID == 0 {
			return 0, filch.Errorf(filch.NotFound, "there is no last job: none was submitted yet").WithHint("filch run COMMAND")
		}
		return last.ID, nil
	}
}
