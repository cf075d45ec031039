// Package dashboard is the command filch dashboard.
package dashboard

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Command is filch dashboard.
func Command(g *cli.Global) *cobra.Command {
	stop := false
	c := &cobra.Command{
		Use:     "dashboard",
		GroupID: "jobs",
		Short:   "watch nodes, jobs and tasks in a browser",
		Long: `Has the local launcher serve a page for a browser, and prints the address of the page: the
slots of all nodes by job, who steals from whom, a timeline of the tasks of a job, the graph
of a workflow with the tasks that decide its time, rates and queues; of each job, why it
waits and what it printed; and the jobs that have ended. The page changes nothing: filch
cancel and filch drain do, and so do the keys of filch top.

The launcher listens on 127.0.0.1 alone, from the first filch dashboard until --stop or its
end. The address has a secret: who has the address sees all that the page shows, and a
request without the secret gets nothing. A second filch dashboard prints the same address.
For a browser on another machine, standard error has the line that makes a tunnel. With
several launchers on this machine, --node NAME chooses the launcher; --stop then needs the
same --node NAME.`,
		Example: "  filch dashboard\n  xdg-open \"$(filch dashboard)\"\n  filch dashboard --stop",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return run(g, stop) },
	}
	c.Flags().BoolVar(&stop, "stop", false, "end the page and its address")
	return c
}

func run(g *cli.Global, stop bool) error {
	c, err := g.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	args := []string{}
	if stop {
		args = append(args, wire.BoardStop)
	}
	var info wire.BoardInfo
	if err := cli.Ask(c, cli.QueryWait, &info, wire.VerbBoard, args...); err != nil {
		return err
	}
	switch {
	case stop && !info.Was:
		return filch.Errorf(filch.NotFound, "the launcher of %s on %s serves no dashboard", c.Dir.Instance, c.Dir.Node).
			WithHint("filch dashboard begins one; --node NAME chooses the launcher")
	case stop:
		ui.Say(fmt.Sprintf("the dashboard has ended; %s %s open", filch.Plural(info.Browsers, "page"), filch.Agree(info.Browsers, "was", "were")))
		return nil
	}
	ui.Printf("%s\n", info.URL)
	host, err := os.Hostname()
	if err != nil {
		host = c.Dir.Node
	}
	ui.Say(fmt.Sprintf("on another machine: ssh -N -L %d:127.0.0.1:%d %s, then open the same address; %s ends it", info.Port, info.Port, ui.Clean(host), stopCommand(g)))
	return nil
}

// stopCommand is the command that ends the page of the launcher that g chooses.
func stopCommand(g *cli.Global) string {
	words := "filch dashboard"
	if g.Instance != "" {
		words += " --instance " + ui.Clean(g.Instance)
	}
	if g.Node != "" {
		words += " --node " + ui.Clean(g.Node)
	}
	return words + " --stop"
}
