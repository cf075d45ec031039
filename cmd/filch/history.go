package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/batch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
)

// PastJob is the output of filch history --json for a job.
type PastJob struct {
	launcher.JobInfo
	Ended int64 `json:"ended_unix_ns"`

	// With --all.
	Instance string `json:"instance,omitempty"`
	UUID     string `json:"uuid,omitempty"`
	Again    bool   `json:"again,omitempty"` // an attempt, after which the job started again
}

// historyHelp is the help of filch history.
func historyHelp() string {
	return `Lists the jobs that have ended, with times and counts. CPU is the processor time of
all ranks or tasks, MEMORY the peak of the largest process. The job that ended last
is at the bottom. The nodes drop the oldest jobs when FILCH_STORE_BYTES is used up.
On a terminal, jobs that ended badly are red.

With --all, the jobs of all instances are listed, also without a running instance, from
files in ~/.filch/.history to which the launchers append, unless the setting history is false
(FILCH_HISTORY=false filch up). The oldest files go when all have 256 MiB. Attempts after which a job started again have a line of their own.
--instance chooses an instance.

With --pools, the pools of all instances are listed, with the allocations that they sent to
their batch system and the node-hours asked for, granted, worked and idle: see docs/pools.md.

The columns of --columns and --sort are ` + columnText() + `.`
}

func historyCommand(g *cli.Global) *cobra.Command {
	l := jobListing{usual: []string{"id", "name", "kind", "state", "code", "submitted", "waited", "elapsed", "cpu", "memory", "tasks"}}
	bad, most, pools := false, 0, false
	all, since := false, time.Duration(0)
	c := &cobra.Command{
		Use:     "history",
		GroupID: "jobs",
		Short:   "list the jobs that have ended",
		Long:    historyHelp(),
		Example: "  filch history\n  filch history -n 20 --bad\n  filch history --sort -elapsed -o id,name,elapsed,ended\n  filch history --all --since 7d --name 'dock*'\n  filch history --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most < 0 {
				return ui.Misused(filch.Errorf(filch.Invalid, "-n %d: the number of jobs is at least 0", most))
			}
			earliest, err := cli.Since(cmd.Flags(), since)
			if err := cmp.Or(err, l.check()); err != nil {
				return err
			}
			if pools {
				return batch.PrintPast(g.Instance, earliest, l.json)
			}
			if all {
				return l.printAll(g.Instance, earliest, bad, most)
			}
			c, err := g.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			list, err := cli.QueryJobs(c)
			if err != nil {
				return err
			}
			order := l.sort
			l.sort = "" // -n counts ends, in whatever order the jobs are listed
			past := l.choose(pastJobs(list, bad, earliest))
			if most > 0 {
				past = past[max(0, len(past)-most):]
			}
			l.sort = order
			past = l.choose(past)
			if l.json {
				return ui.PrintJSON(withEnds(past))
			}
			if slices.ContainsFunc(past, func(j launcher.JobInfo) bool { return cancelReason(&j) != "" }) {
				l.usual = append(l.usual, "reason")
			}
			if err := l.print(past); err != nil || most > 0 {
				return err
			}
			return sayLacks(c, true)
		},
	}
	c.Flags().IntVarP(&most, "last", "n", 0, "only the last `N`")
	c.Flags().BoolVar(&bad, "bad", false, "only jobs that did not end well")
	c.Flags().BoolVar(&all, "all", false, "jobs of all instances, also of those that are down")
	c.Flags().BoolVar(&pools, "pools", false, "the pools of all instances and what they cost, in place of jobs")
	cli.TimeVar(c.Flags(), &since, "since", 0, "only jobs that ended in the last `TIME`")
	l.flags(c)
	return c
}

// pastJobs are the ended jobs, by the time of their end.
func pastJobs(list []launcher.JobInfo, bad bool, since int64) []launcher.JobInfo {
	past := slices.DeleteFunc(slices.Clone(list), func(j launcher.JobInfo) bool { return j.Code == nil || bad && *j.Code == 0 || endOf(&j) < since })
	slices.SortFunc(past, func(a, b launcher.JobInfo) int {
		return cmp.Or(cmp.Compare(endOf(&a), endOf(&b)), cmp.Compare(a.ID, b.ID))
	})
	return past
}

func withEnds(list []launcher.JobInfo) []PastJob {
	past := []PastJob{}
	for _, j := range list {
		past = append(past, PastJob{JobInfo: j, Ended: endOf(&j)})
	}
	return past
}

// cancelReason is the reason that a person gave for the cancel of a job; "" if none.
func cancelReason(j *launcher.JobInfo) string {
	_, reason, _ := strings.Cut(j.Cause, launcher.CancelReason)
	return reason
}
