package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

func holdCommand(g *cli.Global) *cobra.Command {
	return &cobra.Command{
		Use:     "hold JOB...",
		GroupID: "jobs",
		Short:   "start no more tasks of jobs, and no runs that wait",
		Long: `Holds jobs. No task of a held bag or workflow starts, and running tasks go on. A held run
gives back the slots that it has gathered, and gathers none; a run that runs cannot be held.
The hold outlives every node. filch ps, info and explain show held jobs, and who holds them.
filch release ends the hold; filch run, submit and workflow run submit a held job with
--hold.`,
		Example: "  filch hold last\n  filch hold 3-5",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return holdAll(g, args, cli.Person()) },
	}
}

func releaseCommand(g *cli.Global) *cobra.Command {
	return &cobra.Command{
		Use:     "release JOB...",
		GroupID: "jobs",
		Short:   "let held jobs start",
		Long: `Ends the hold of filch hold and of --hold. A released run goes before the runs that were
submitted later.`,
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
	code := 0
	for _, id := range ids {
		var was launcher.JobInfo
		free := by == "" && cli.Ask(c, cli.QueryWait, &was, wire.VerbInfo, id.String()) == nil && was.Held == "" && was.Code == nil
		if err := cli.Ask(c, cli.QueryWait, nil, wire.VerbHold, id.String(), by); err != nil {
			ui.Complain(err)
			code = worseCode(code, err)
		} else if free {
			ui.Say(fmt.Sprintf("job %d was not held", id))
		}
	}
	return exitOf(code)
}
