package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
)

// PastJob is the output of filch history --json for a job.
type PastJob struct {
	launcher.JobInfo
	Ended int64 `json:"ended_unix_ns"`
}

func historyCommand(g *cli.Global) *cobra.Command {
	asJSON, bad, most := false, false, 0
	c := &cobra.Command{
		Use:     "history",
		GroupID: "jobs",
		Short:   "list the jobs that have ended",
		Long: `Lists the jobs that have ended, with times and counts. The job that ended last is at
the bottom. The nodes drop the oldest jobs when FILCH_STORE_BYTES is used up.`,
		Example: "  filch history\n  filch history -n 20 --bad\n  filch history --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if most < 0 {
				return ui.Misused(filch.Errorf(filch.Invalid, "-n %d: the number of jobs is at least 0", most))
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
			past := pastJobs(list, bad)
			if most > 0 {
				past = past[max(0, len(past)-most):]
			}
			if asJSON {
				return ui.PrintJSON(past)
			}
			if err := printHistory(past); err != nil || most > 0 {
				return err
			}
			return sayLacks(c, true)
		},
	}
	c.Flags().IntVarP(&most, "last", "n", 0, "only the last `N`")
	c.Flags().BoolVar(&bad, "bad", false, "only jobs that did not end well")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// pastJobs are the ended jobs, by the time of their end.
func pastJobs(list []launcher.JobInfo, bad bool) []PastJob {
	past := []PastJob{}
	for _, j := range list {
		if j.Code != nil && (!bad || *j.Code != 0) {
			past = append(past, PastJob{j, j.Submit + int64((j.Waited+j.Elapsed)*float64(time.Second))})
		}
	}
	slices.SortFunc(past, func(a, b PastJob) int {
		return cmp.Or(cmp.Compare(a.Ended, b.Ended), cmp.Compare(a.ID, b.ID))
	})
	return past
}

func printHistory(past []PastJob) error {
	t := &ui.Table{
		Head:  []string{"ID", "NAME", "KIND", "STATE", "CODE", "SUBMITTED", "WAITED", "ELAPSED", "TASKS"},
		Right: map[int]bool{0: true, 4: true, 6: true, 7: true},
	}
	for _, j := range past {
		waited, tasks := ui.ShortTime(time.Duration(j.Waited*float64(time.Second))), fmt.Sprint(j.Ranks)
		if cli.IsTasks(&j.JobInfo) {
			waited, tasks = "-", taskCounts(j.Tasks)
		}
		t.Add(j.ID.String(), clip(j.Name, 24), j.Kind, j.State, fmt.Sprint(*j.Code), time.Unix(0, j.Submit).Format(time.DateTime),
			waited, ui.ShortTime(time.Duration(j.Elapsed*float64(time.Second))), clip(tasks, 60))
	}
	return t.Print()
}
