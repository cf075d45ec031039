package top

import (
	"encoding/json"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/filchd"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
)

// Limits of --interval. Below the least, launchers answer from memory anyway.
const (
	intervalUsual = time.Second
	intervalMin   = 200 * time.Millisecond
	intervalMax   = time.Hour
)

// Command is filch top.
func Command(g *cli.Global) *cobra.Command {
	once, interval := false, time.Duration(0)
	c := &cobra.Command{
		Use:     "top",
		GroupID: "jobs",
		Short:   "watch nodes, slots, jobs and tasks on one screen",
		Long: `Shows a row of cells for each node, a cell for each slot with the letter and the color
of the job that has the slot; which node steals tasks from which; and the jobs, how far
they are, when they end, and what a waiting job lacks. The key t adds the running tasks of
the selected job. Keys sort and filter the tables, explain or cancel the selected job, show
its last lines, and drain the selected node; ? lists the keys, q quits. The screen asks the
local launcher every second, and says how old its data are when no launcher answers.

Upper-case cells are slots that a job holds while it gathers more, x is a dead node and ?
a node that did not answer. With NO_COLOR=1 the letters alone tell the jobs apart.

--once prints everything one time, as plain text, for scripts and pipes.`,
		Example: "  filch top\n  filch top --interval 5s\n  filch top --once",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if interval < intervalMin || interval > intervalMax {
				return ui.Misused(filch.Errorf(filch.Invalid, "--interval takes a time from %s to %s", filch.ShortTime(intervalMin), filch.ShortTime(intervalMax)))
			}
			if !once && (!ui.IsTerminal(os.Stdin) || !ui.IsTerminal(os.Stdout)) {
				return ui.Misused(filch.Errorf(filch.Invalid, "filch top needs a terminal").WithHint("filch top --once prints the same as plain text"))
			}
			c, err := g.Dial()
			if err != nil {
				return err
			}
			c.Close()
			return become(client.Screen{Dir: c.Dir, Build: cli.Build, Once: once, Interval: interval})
		},
	}
	c.Flags().BoolVar(&once, "once", false, "print once, as plain text")
	cli.TimeVar(c.Flags(), &interval, "interval", intervalUsual, "ask the launcher every `TIME`")
	return c
}

// become replaces this process by filchtop.
func become(plan client.Screen) error {
	self, err := os.Executable()
	if err != nil {
		return filch.Errorf(filch.Internal, "cannot find this binary: %s", place.Cause(err))
	}
	plan.Filch = self
	path, err := filchd.InstallScreen(plan.Dir.Base)
	if err != nil {
		return err
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return filch.Errorf(filch.Internal, "cannot write the plan of filchtop: %s", err.Error())
	}
	err = unix.Exec(path, []string{"filchtop", string(text)}, os.Environ())
	return filch.Errorf(filch.Internal, "cannot start %s: %s", path, place.Cause(err))
}
