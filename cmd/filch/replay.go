package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/mtc/workflow/replay"
)

// replayMain is `filch replay ...`, a task of a replayed workflow: the task
// reads, writes and takes time according to its arguments.
func replayMain(args []string) int {
	s, err := replay.Parse(args)
	if err != nil {
		return ui.Usage(err)
	}
	if s.Trace == "" {
		s.Trace = os.Getenv(replay.TraceEnv)
	}
	if err := replay.Play(s, "."); err != nil {
		fmt.Fprintf(os.Stderr, "filch: error: task %s: %s\n", ui.Clean(s.Task), ui.Clean(err.Error()))
		return 1
	}
	return 0
}

func replayCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "replay",
		Hidden:             true,
		Short:              "play a task of a workflow; started by filch workflow run",
		DisableFlagParsing: true,
		Args:               cobra.ArbitraryArgs,
		RunE:               func(_ *cobra.Command, args []string) error { return ui.Exit(replayMain(args)) },
	}
}
