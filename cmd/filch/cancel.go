package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

func cancelCommand(g *global) *cobra.Command {
	name := ""
	c := &cobra.Command{
		Use:     "cancel [-s SIGNAL] JOB...",
		GroupID: "jobs",
		Short:   "end jobs, or signal them",
		Long: `Ends jobs: their ranks get CONT and TERM, and KILL after the job's kill-wait.
With -s only that signal is sent, and the job goes on if it survives it.`,
		Example:               "  filch cancel last\n  filch cancel 3-5\n  filch cancel -s USR1 7",
		DisableFlagsInUseLine: true,
		Args:                  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			sig := int32(0)
			if name != "" {
				n, err := spec.Signal(name)
				if err != nil {
					return misuse{err}
				}
				sig = n
			}
			c, ids, err := g.jobs(args)
			if err != nil {
				return err
			}
			defer c.Close()
			for _, id := range ids {
				if id.Rank >= 0 {
					return misuse{filch.Errorf(filch.Invalid, "a single rank cannot be ended: give the job, %d", id.Job)}
				}
			}
			failed := false
			for _, id := range ids {
				if sig != 0 {
					err = ask(c, queryWait, nil, wire.VerbSignal, id.Job.String(), strconv.Itoa(int(sig)))
				} else {
					err = ask(c, queryWait, nil, wire.VerbCancel, id.Job.String(), strconv.Itoa(int(sigTERM)))
				}
				if err != nil {
					complain(err)
					failed = true
				}
			}
			if failed {
				return exit{1}
			}
			return nil
		},
	}
	c.Flags().StringVarP(&name, "signal", "s", "", "send only this signal")
	return c
}
