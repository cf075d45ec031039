package bringup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

func DrainCommand(g *cli.Global) *cobra.Command {
	undo, reason := false, ""
	c := &cobra.Command{
		Use:     "drain [OPTIONS] NODE...",
		GroupID: "nodes",
		Short:   "keep new work off a node, or end that",
		Long: `A draining node starts no new work. Queued tasks and records move to other nodes at
once; running work goes on to its end. When nothing runs on the node any more, filch
down NODE stops the launcher. While all nodes drain, all work waits.

A drain lasts until --undo or until the node goes down; a launcher that is started
again after a crash continues the drain. filch nodes, doctor and explain show which
nodes drain, and why.`,
		Example: "  filch drain n3\n  filch drain -m 'disk is replaced on Monday' 'n[3-5]'\n  filch drain --undo n3",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if undo && reason != "" {
				return ui.Misused(filch.Errorf(filch.Invalid, "--undo and -m exclude each other"))
			}
			why := launcher.Drain{Reason: reason, By: cli.Person()}
			if err := why.Check(); err != nil {
				return ui.Misused(err)
			}
			return drain(g, args, &why, undo)
		},
	}
	c.Flags().BoolVar(&undo, "undo", false, "end the drain: the node takes work again")
	c.Flags().StringVarP(&reason, "reason", "m", "", "`REASON` of the drain, shown by filch nodes; at most 256 bytes")
	return c
}

// UndrainCommand is drain --undo under a name of its own.
func UndrainCommand(g *cli.Global) *cobra.Command {
	return &cobra.Command{
		Use:     "undrain NODE...",
		GroupID: "nodes",
		Short:   "end the drain of a node",
		Long: `The node takes work again, as after filch drain --undo. A node that drains because it is
bad (filch up --drain-bad) is judged anew.`,
		Example: "  filch undrain n3\n  filch undrain 'n[3-5]'",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return drain(g, args, &launcher.Drain{}, true) },
	}
}

// nodesNamed reads the names of nodes, all of which must be in the list.
func nodesNamed(args []string, list []wire.NodeInfo) ([]filch.NodeName, error) {
	all, err := spec.Hosts(strings.Join(args, ","))
	if err != nil {
		return nil, ui.Misused(err)
	}
	var unknown []filch.NodeName
	for _, name := range all {
		if !slices.ContainsFunc(list, func(n wire.NodeInfo) bool { return n.Node == name }) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, filch.Errorf(filch.NotFound, "there is no node %s: nothing was done", spec.FormatHosts(unknown)).WithHint("filch nodes lists the nodes")
	}
	return slices.Compact(all), nil
}

// drain has nodes drain, or take work again. drain reports the nodes that cannot
// be asked; the other nodes drain all the same.
func drain(g *cli.Global, args []string, why *launcher.Drain, undo bool) error {
	c, err := g.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := cli.QueryNodes(c)
	if err != nil {
		return err
	}
	all, err := nodesNamed(args, list)
	if err != nil {
		return err
	}
	var last error
	for _, name := range all {
		if last != nil {
			ui.Warn(last.Error())
		}
		last = drainOne(c, name, why, undo)
	}
	if undo {
		awaitBack(c, all)
	} else {
		sayAllDrain(c)
	}
	return last
}

// backWait bounds the wait for the news of the ends of drains: gossip takes less than a second.
const backWait = 2 * time.Second

// awaitBack waits until the launcher that was asked knows that the nodes do not drain.
func awaitBack(c *client.Client, nodes []filch.NodeName) {
	for deadline := time.Now().Add(backWait); ; time.Sleep(cli.PollPause * time.Duration(1+len(nodes)/16)) {
		list, err := cli.QueryNodes(c)
		if err != nil || time.Now().After(deadline) || !slices.ContainsFunc(list, func(n wire.NodeInfo) bool {
			return n.State == filch.Draining.String() && slices.Contains(nodes, n.Node)
		}) {
			return
		}
	}
}

func drainOne(c *client.Client, name filch.NodeName, why *launcher.Drain, undo bool) error {
	word := ""
	if undo {
		word = wire.DrainUndo
	}
	var info wire.DrainInfo
	if err := cli.Ask(c, 2*cli.QueryWait, &info, wire.VerbDrain, string(name), word, why.Reason, why.By); err != nil {
		return err
	}
	if info.Trouble != "" {
		ui.Warn(fmt.Sprintf("%s drains only until the launcher ends: the launcher cannot save the drain: %s", name, info.Trouble))
	}
	busy := info.Slots - info.Free
	switch {
	case undo && info.Was:
		ui.Printf("%s takes work again\n", name)
	case undo:
		ui.Printf("%s did not drain\n", name)
	case busy == 0:
		ui.Printf("%s drains: nothing runs there\n", name)
	default:
		ui.Printf("%s drains: %d of %s still in use\n", name, busy, filch.Plural(int(info.Slots), "slot"))
	}
	return nil
}

// sayAllDrain warns when no node takes work any more.
func sayAllDrain(c *client.Client) {
	list, err := cli.QueryNodes(c)
	if err == nil && !slices.ContainsFunc(list, func(n wire.NodeInfo) bool { return n.State == "up" }) {
		ui.Say("no node takes work now: jobs wait until filch drain --undo NODE")
	}
}

// DrainLine returns why a node drains, by whose command and since when; "" when
// only the draining itself is known.
func DrainLine(d *launcher.Drain, now time.Time) string {
	if d == nil {
		return ""
	}
	text := ""
	if d.Reason != "" {
		text = ": " + d.Reason
	}
	if ago := now.Sub(time.Unix(0, d.Since)); d.Since > 0 && ago >= 0 {
		text += " (" + filch.ShortTime(ago.Round(time.Second)) + " ago"
		if d.By != "" {
			text += ", by " + d.By
		}
		text += ")"
	}
	return text
}
