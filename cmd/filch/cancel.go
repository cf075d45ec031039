package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Cancelled is what filch cancel --json prints for each job.
type Cancelled struct {
	ID    filch.JobID `json:"id"`
	Told  bool        `json:"told"`
	Error string      `json:"error,omitempty"`
}

func cancelCommand(g *global) *cobra.Command {
	name, asJSON := "", false
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
			failed, list := false, []Cancelled{}
			for _, id := range ids {
				said := Cancelled{ID: id.Job}
				if sig != 0 {
					err = ask(c, queryWait, nil, wire.VerbSignal, id.Job.String(), strconv.Itoa(int(sig)))
				} else {
					err = ask(c, queryWait, nil, wire.VerbCancel, id.Job.String(), strconv.Itoa(int(sigTERM)))
				}
				if said.Told = err == nil; err != nil {
					complain(err)
					failed, said.Error = true, err.Error()
				}
				list = append(list, said)
			}
			if asJSON {
				if err := printJSON(list); err != nil {
					return err
				}
			}
			if failed {
				return exit{1}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print what became of it as JSON")
	c.Flags().StringVarP(&name, "signal", "s", "", "send only this signal")
	return c
}
