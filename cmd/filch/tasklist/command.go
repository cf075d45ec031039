package tasklist

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/client"
)

// HasCommand reports whether the tasks of a job have a command, or a worker, in common;
// else the line of a task is the command of the task.
func HasCommand(c *client.Client, id filch.JobID) (bool, error) {
	v, _, err := openView(c, id)
	if err != nil {
		return false, err
	}
	return len(v.order.Argv) > 0, nil
}
