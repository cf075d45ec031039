package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/progress"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

func waitCommand(g *cli.Global) *cobra.Command {
	asJSON, quiet, show, timeout := false, false, false, ""
	c := &cobra.Command{
		Use:     "wait JOB...",
		GroupID: "jobs",
		Short:   "wait until jobs have ended",
		Long: `Waits until all the jobs have ended. The exit code is 0 if all jobs ended with 0,
else the code of the first job, in the order given, that did not. Ctrl-C ends the waiting,
not the jobs. When filch down ends a job or the instance first, the exit code is 123. When only
the launcher ends, filch wait goes on with another launcher on this machine, at most 100 times;
so do filch logs -f, filch attach, filch workflow run, and filch submit with --wait or an option
that follows.`,
		Example: "  filch wait last --progress\n  filch wait 3-5 --timeout 10:00",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			limit := time.Duration(0)
			if timeout != "" {
				d, err := spec.Time(timeout)
				if err != nil {
					return ui.Misused(cli.OfOption("timeout", err))
				}
				limit = d
			}
			c, ids, err := g.Jobs(args)
			if err != nil {
				return err
			}
			defer c.Close()
			jobs, err := waitFor(c, ids, limit, show, quiet || asJSON)
			if err != nil {
				return err
			}
			if asJSON {
				if err := ui.PrintJSON(jobs); err != nil {
					return err
				}
			}
			return waited(jobs, quiet || asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the jobs as JSON")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "do not print why jobs ended badly: the exit code alone tells")
	c.Flags().BoolVar(&show, "progress", false, "show the progress of jobs of tasks")
	c.Flags().StringVarP(&timeout, "timeout", "t", "", "give up after `TIME` (90s, 10m, 1:30:00; a bare number is minutes), and exit with 124")
	c.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if spec.Synonym(name) == "time" { // the name of other commands
			name = "timeout"
		}
		return pflag.NormalizedName(name)
	})
	return c
}

// waitFor waits for one job after the other, until the last job has ended; with show, it shows
// the progress, and unless quiet, the caller prints the errors of the jobs.
func waitFor(c *client.Client, ids []filch.JobID, limit time.Duration, show, quiet bool) ([]launcher.JobInfo, error) {
	deadline := time.Now().Add(limit)
	var jobs []launcher.JobInfo
	var at atomic.Int32 // in ids
	defer cli.SayOnInterrupt(func() []filch.JobID {
		return ids[at.Load():]
	})()
	for i, id := range ids {
		at.Store(int32(i))
		dir := c.Dir
		dial := func() (*client.Client, error) { return client.DialDir(dir, cli.Build) }
		var j launcher.JobInfo
		stop := cli.WatchStuck(dial, id)
		end := func(bool) {}
		if show && cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, id.String()) == nil && cli.IsTasks(&j) {
			end = progress.Show(dial, id)
		}
		j, again, err := waitForOne(c, id, limit, deadline)
		if again != nil {
			defer again.Close()
			c = again
		}
		end(err == nil && j.Code != nil && *j.Code != 0 && !quiet)
		stop()
		if err != nil {
			return nil, err
		}
		if j.Code == nil {
			ui.Say("error: job " + id.String() + " has not ended within " + filch.ShortTime(limit))
			return nil, ui.Exit(filch.ExitTimeLimit)
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// waitForOne waits for the end of a job. After the loss of the launcher, waitForOne goes on
// with another one, again, which then serves the other jobs.
func waitForOne(c *client.Client, id filch.JobID, limit time.Duration, deadline time.Time) (j launcher.JobInfo, again *client.Client, err error) {
	var losses cli.Losses // launchers that go down know less and less
	for {
		args := []string{id.String()}
		if limit > 0 {
			args = append(args, max(time.Until(deadline), time.Millisecond).String())
		}
		j = launcher.JobInfo{}
		err = cli.Ask(c, 0, &j, wire.VerbWait, args...)
		if err == nil && (j.Code != nil || limit > 0 && time.Now().After(deadline)) {
			return j, again, nil
		}
		// A launcher that goes down answers before the end of the job.
		if err != nil && !losses.Recent() && !cli.IsLost(c, err) {
			return j, again, err
		}
		until, err := losses.Next(id)
		if err != nil {
			return j, again, err
		}
		time.Sleep(cli.LossPause)
		next, err := cli.Reconnect(c.Dir, id, until)
		if err != nil {
			return j, again, err
		}
		if again != nil {
			again.Close()
		}
		c, again = next, next
	}
}

// endCode is the exit code that a command which waited for a job has: of a job that filch down
// ended, the code is the same as of an instance that went down first.
func endCode(j *launcher.JobInfo) int {
	if j.ByDown() {
		return filch.ExitDown
	}
	return int(*j.Code)
}

// waited prints the jobs that ended badly and returns the code of the first.
func waited(jobs []launcher.JobInfo, quiet bool) error {
	code := 0
	for _, j := range jobs {
		if j.Code == nil || *j.Code == 0 {
			continue
		}
		if code == 0 {
			code = endCode(&j)
		}
		if !quiet {
			text := j.Cause
			if text == "" {
				text = j.State
			}
			ui.Say("error: job " + j.ID.String() + ": " + text)
			if cli.IsTasks(&j) && j.Tasks.Failed+j.Tasks.Killed > 0 {
				ui.Hint(fmt.Sprintf("filch logs %d --failed shows their output, filch info %[1]d the counts", j.ID))
			}
		}
	}
	if code != 0 {
		return ui.Exit(code)
	}
	return nil
}
