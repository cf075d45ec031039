package main

import (
	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch/cmd/filch/runclient"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/proc/keeper"
	"github.com/filch-hpc/filch/launcher/proc/runner"
)

func keeperMain(args []string) int { return keeper.Main(args) }

func runnerMain(args []string) int { return runner.Main(args) }

func runnerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "runner",
		Hidden: true,
		Short:  "start the tasks of this node; started by the launcher",
		Args:   cobra.ArbitraryArgs,
		RunE:   func(_ *cobra.Command, args []string) error { return ui.Exit(runnerMain(args)) },
	}
}

func keeperCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "keeper",
		Hidden: true,
		Short:  "hold one job on this node; started by the launcher",
		Args:   cobra.ArbitraryArgs,
		RunE:   func(_ *cobra.Command, args []string) error { return ui.Exit(keeperMain(args)) },
	}
}

func spawnCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "spawn",
		Hidden: true,
		Short:  "stay with ranks that a rank spawned; started by a keeper",
		Args:   cobra.ArbitraryArgs,
		RunE:   func(_ *cobra.Command, args []string) error { return ui.Exit(runclient.Spawned(args)) },
	}
}
