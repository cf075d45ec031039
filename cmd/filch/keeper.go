package main

import (
	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch/launcher/proc"
)

func keeperMain(args []string) int { return proc.KeeperMain(args) }

func runnerMain(args []string) int { return proc.RunnerMain(args) }

func runnerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "runner",
		Hidden: true,
		Short:  "start the tasks of this node; started by the launcher",
		Args:   cobra.ArbitraryArgs,
		RunE:   func(_ *cobra.Command, args []string) error { return exit{runnerMain(args)} },
	}
}

func keeperCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "keeper",
		Hidden: true,
		Short:  "hold one job on this node; started by the launcher",
		Args:   cobra.ArbitraryArgs,
		RunE:   func(_ *cobra.Command, args []string) error { return exit{keeperMain(args)} },
	}
}
