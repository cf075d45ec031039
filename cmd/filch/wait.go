package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

func waitCommand(g *global) *cobra.Command {
	asJSON, quiet, timeout := false, false, ""
	c := &cobra.Command{
		Use:     "wait JOB...",
		GroupID: "jobs",
		Short:   "wait until jobs have ended",
		Long: `Waits until all the jobs have ended and exits with the exit code of the first
that was not 0, in the order given; with 0 when all were well.`,
		Example: "  filch wait last\n  filch wait 3-5 --timeout 10:00",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			limit := time.Duration(0)
			if timeout != "" {
				d, err := spec.Time(timeout)
				if err != nil {
					return misuse{err}
				}
				limit = d
			}
			c, ids, err := g.jobs(args)
			if err != nil {
				return err
			}
			defer c.Close()
			jobs, err := waitFor(c, ids, limit)
			if err != nil {
				return err
			}
			if asJSON {
				if err := printJSON(jobs); err != nil {
					return err
				}
			}
			return waited(jobs, quiet || asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the jobs as JSON")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "do not say what went wrong")
	c.Flags().StringVarP(&timeout, "timeout", "t", "", "give up after this time, as for run -t; exits with 124")
	return c
}

// waitFor waits for one job after the other; the last to end decides how long.
func waitFor(c *client.Client, ids []jobRank, limit time.Duration) ([]launcher.JobInfo, error) {
	deadline := time.Now().Add(limit)
	var jobs []launcher.JobInfo
	for _, id := range ids {
		args := []string{id.Job.String()}
		if limit > 0 {
			args = append(args, max(time.Until(deadline), time.Millisecond).String())
		}
		var j launcher.JobInfo
		stop := watchStuck(func() (*client.Client, error) { return client.DialDir(c.Dir, version) }, id.Job)
		err := ask(c, 0, &j, wire.VerbWait, args...)
		stop()
		if err != nil {
			return nil, err
		}
		if j.Code == nil {
			say("error: job " + id.Job.String() + " has not ended within " + shortTime(limit))
			return nil, exit{filch.ExitTimeLimit}
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// waited says which jobs ended badly and gives the code of the first.
func waited(jobs []launcher.JobInfo, quiet bool) error {
	code := 0
	for _, j := range jobs {
		if j.Code == nil || *j.Code == 0 {
			continue
		}
		if code == 0 {
			code = int(*j.Code)
		}
		if !quiet {
			text := j.Cause
			if text == "" {
				text = j.State
			}
			say("error: job " + j.ID.String() + ": " + text)
		}
	}
	if code != 0 {
		return exit{code}
	}
	return nil
}

// stuckEvery is how often somebody who waits for tasks has it looked at whether any
// node would start them: all nodes are asked.
const stuckEvery = 30 * time.Second

// watchStuck says of a job of tasks that somebody waits for when no node starts
// any of them, and why, until stop is called: at first after a while.
func watchStuck(dial func() (*client.Client, error), job filch.JobID) (stop func()) {
	over := make(chan struct{})
	go func() {
		told := ""
		for wait := speakLate; ; wait = stuckEvery {
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
				say("job " + job.String() + " waits: " + text)
			}
		}
	}()
	return func() { close(over) }
}

// stuckText is why no task of a job is started; "" if some may be.
func stuckText(dial func() (*client.Client, error), job filch.JobID) string {
	c, err := dial()
	if err != nil {
		return ""
	}
	defer c.Close()
	var e launcher.Explanation
	if err := ask(c, queryWait, &e, wire.VerbExplain, job.String()); err != nil || !e.Stuck {
		return ""
	}
	return e.Text
}
