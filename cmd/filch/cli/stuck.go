package cli

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// stuckEvery is the interval at which a command that waits for tasks asks whether
// any node would start the tasks: the query goes to all nodes.
const stuckEvery = 30 * time.Second

// WatchStuck prints, for a command that waits for a job of tasks, when no node starts any of
// the tasks, or when this node can record no end, and why, until stop is called: first after
// SpeakLate.
func WatchStuck(dial func() (*client.Client, error), job filch.JobID) (stop func()) {
	over := make(chan struct{})
	go func() {
		told := ""
		for wait := SpeakLate; ; wait = stuckEvery {
			select {
			case <-over:
				return
			case <-time.After(wait):
			}
			text := stuckText(dial, job)
			select {
			case <-over:
				return
			default:
			}
			if text != "" && text != told {
				told = text
				ui.Say("job " + job.String() + " waits: " + text)
			}
		}
	}()
	return func() { close(over) }
}

// StoreTrouble is why the launcher keeps no records, as it says itself; "" if it says nothing.
func StoreTrouble(dial func() (*client.Client, error)) string {
	c, err := dial()
	if err != nil {
		return ""
	}
	defer c.Close()
	trouble, _ := c.StoreTrouble(QueryWait)
	return trouble
}

// stuckText is the reason that no task of a job is started, or that a run does not start or no
// end is recorded; "" if there is none.
func stuckText(dial func() (*client.Client, error), job filch.JobID) string {
	c, err := dial()
	if err != nil {
		return ""
	}
	defer c.Close()
	var e launcher.Explanation
	if err := Ask(c, QueryWait, &e, wire.VerbExplain, job.String()); err == nil && e.Stuck {
		return e.Text
	}
	trouble, _ := c.StoreTrouble(QueryWait)
	var j launcher.JobInfo
	switch err := Ask(c, QueryWait, &j, wire.VerbInfo, job.String()); {
	case trouble == "":
		return ""
	case err != nil || IsTasks(&j):
		return "the ends of its tasks cannot be recorded: " + trouble
	case e.State == filch.Waiting.String():
		return e.Text
	}
	return "its end cannot be recorded: " + trouble
}
