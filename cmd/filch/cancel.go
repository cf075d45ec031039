package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Cancelled is the output of filch cancel --json for each job.
type Cancelled struct {
	ID    filch.JobID `json:"id"`
	Told  bool        `json:"told"`
	Error string      `json:"error,omitempty"`
}

func cancelCommand(g *cli.Global) *cobra.Command {
	name, asJSON := "", false
	c := &cobra.Command{
		Use:     "cancel [-s SIGNAL] JOB...",
		GroupID: "jobs",
		Short:   "end jobs, or signal them",
		Long: `Ends jobs. The ranks get CONT and TERM, and KILL after the job's kill-wait.
With -s the ranks get only that signal, and a job whose ranks survive goes on.`,
		Example:               "  filch cancel last\n  filch cancel 3-5\n  filch cancel -s USR1 7",
		DisableFlagsInUseLine: true,
		Args:                  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			sig := int32(0)
			if name != "" {
				n, err := spec.Signal(name)
				if err != nil {
					return ui.Misused(err)
				}
				sig = n
			}
			c, ids, err := g.Jobs(args)
			if err != nil {
				return err
			}
			defer c.Close()
			for _, id := range ids {
				if id.Rank >= 0 {
					return ui.Misused(filch.Errorf(filch.Invalid, "a single rank cannot be ended: give the job, %d", id.Job))
				}
			}
			failed, list := false, []Cancelled{}
			for _, id := range ids {
				said := Cancelled{ID: id.Job}
				if sig != 0 {
					err = cli.Ask(c, cli.QueryWait, nil, wire.VerbSignal, id.Job.String(), strconv.Itoa(int(sig)))
				} else {
					err = cli.Ask(c, cli.QueryWait, nil, wire.VerbCancel, id.Job.String(), strconv.Itoa(int(ui.SIGTERM)))
				}
				if said.Told = err == nil; err != nil {
					ui.Complain(err)
					failed, said.Error = true, err.Error()
				}
				list = append(list, said)
			}
			if asJSON {
				if err := ui.PrintJSON(list); err != nil {
					return err
				}
			}
			if failed {
				return ui.Exit(1)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the outcome as JSON")
	c.Flags().StringVarP(&name, "signal", "s", "", "send the signal `SIG` and nothing else")
	return c
}
