package main

import (
	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch/cmd/filch/batch"
	"github.com/filch-hpc/filch/cmd/filch/bringup"
	"github.com/filch-hpc/filch/cmd/filch/campaign"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/dashboard"
	"github.com/filch-hpc/filch/cmd/filch/eventlog"
	"github.com/filch-hpc/filch/cmd/filch/forecast"
	"github.com/filch-hpc/filch/cmd/filch/manual"
	"github.com/filch-hpc/filch/cmd/filch/onend"
	"github.com/filch-hpc/filch/cmd/filch/report"
	"github.com/filch-hpc/filch/cmd/filch/scrape"
	"github.com/filch-hpc/filch/cmd/filch/shims"
	"github.com/filch-hpc/filch/cmd/filch/stats"
	"github.com/filch-hpc/filch/cmd/filch/tasklist"
	"github.com/filch-hpc/filch/cmd/filch/tasks"
	"github.com/filch-hpc/filch/cmd/filch/top"
	"github.com/filch-hpc/filch/cmd/filch/trace"
)

// A command is built once the command line names the command.
type command struct {
	name      string
	build     func(*cli.Global) *cobra.Command
	readsTree bool // the command looks at the other commands
}

// commands lists the commands in the order of the help.
func commands() []command {
	return []command{
		{name: "run", build: alone(runCommand)},
		{name: "submit", build: tasks.SubmitCommand},
		{name: "workflow", build: tasks.WorkflowCommand},
		{name: "campaign", build: campaign.Command},
		{name: "retry", build: tasks.RetryCommand},
		{name: "attach", build: attachCommand},
		{name: "logs", build: logsCommand},

		{name: "ps", build: psCommand},
		{name: "top", build: top.Command},
		{name: "dashboard", build: dashboard.Command},
		{name: "tasks", build: tasklist.ListCommand},
		{name: "info", build: infoCommand},
		{name: "export", build: exportCommand},
		{name: "wait", build: waitCommand},
		{name: "cancel", build: cancelCommand},
		{name: "hold", build: holdCommand},
		{name: "release", build: releaseCommand},
		{name: "explain", build: explainCommand},
		{name: "forecast", build: forecast.Command},
		{name: "policy", build: policyCommand},
		{name: "close", build: tasks.CloseCommand},
		{name: "history", build: historyCommand},
		{name: "events", build: eventlog.Command},
		{name: "api", build: apiCommand},
		{name: "trace", build: trace.Command},
		{name: "report", build: report.Command},

		{name: "up", build: bringup.UpCommand},
		{name: "down", build: bringup.DownCommand},
		{name: "nodes", build: nodesCommand},
		{name: "stats", build: stats.Command},
		{name: "metrics", build: scrape.Command},
		{name: "resource", build: resourceCommand},
		{name: "drain", build: bringup.DrainCommand},
		{name: "undrain", build: bringup.UndrainCommand},
		{name: "invite", build: bringup.InviteCommand},
		{name: "join", build: bringup.JoinCommand},
		{name: "pool", build: batch.Command},
		{name: "roster", build: rosterCommand},
		{name: "doctor", build: doctorCommand},
		{name: "config", build: configCommand},
		{name: "man", build: alone(manual.Command), readsTree: true},
		{name: "version", build: versionCommand},

		// Parts of filch, which start them.
		{name: "keeper", build: alone(keeperCommand)},
		{name: "runner", build: alone(runnerCommand)},
		{name: "spawn", build: alone(spawnCommand)},
		{name: "virtual", build: alone(bringup.VirtualCommand)},
		{name: "replay", build: alone(replayCommand)},
		{name: "on-end", build: onend.Command},

		// Other launchers' names.
		{name: "shim", build: alone(shimCommand)},
		{name: "ssh", build: alone(shims.SshCommand)},
		{name: "member", build: alone(bringup.MemberCommand)},
		{name: "batch", build: alone(shims.BatchCommand)},
	}
}

// alone builds a command that has no use for the options of root.
func alone(build func() *cobra.Command) func(*cli.Global) *cobra.Command {
	return func(*cli.Global) *cobra.Command { return build() }
}
