package main

import (
	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/wire"
)

func holdCommand(g *cli.Global) *cobra.Command {
	return &cobra.Command{
		Use:     "hold JOB...",
		GroupID: "jobs",
		Short:   "start no more tasks of jobs",
		Long: `Holds bags and workflows: no task of a held job starts, and running tasks go on. The hold
outlives every node. filch ps, info and explain show held jobs, and who holds them.
filch release lets the tasks start again; filch submit --hold submits a held job.`,
		Example: "  filch hold last\n  filch hold 3-5",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return holdAll(g, args, cli.Person()) },
	}
}

func releaseCommand(g *cli.Global) *cobra.Command {
	return &cobra.Command{
		Use:     "release JOB...",
		GroupID: "jobs",
		Short:   "let the tasks of held jobs start again",
		Long:    `Undoes filch hold and filch submit --hold.`,
		Example: "  filch release last",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return holdAll(g, args, "") },
	}
}

// holdAll holds jobs in the name of a person, or with "" releases the jobs.
func holdAll(g *cli.Global, args []string, by string) error {
	c, ids, err := g.Jobs(args)
	if err != nil {
		return err
	}
	defer c.Close()
	failed := false
	for _, id := range ids {
		if err := cli.Ask(c, cli.QueryWait, nil, wire.VerbHold, id.Job.String(), by); err != nil {
			ui.Complain(err)
			failed = true
		}
	}
	if failed {
		return ui.Exit(1)
	}
	return nil
}
