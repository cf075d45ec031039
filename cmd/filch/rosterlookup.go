package main

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// lookupWait is longer than the launcher's limit for a lookup, so that the launcher tells
// how far the lookup got.
const lookupWait = 2 * cli.QueryWait

// lookUp shows how the launcher finds a node, or the home of a record.
func lookUp(c *client.Client, key string, asJSON bool) error {
	var l wire.LookupInfo
	err := cli.Ask(c, lookupWait, &l, wire.VerbLookup, key)
	if ui.KindOf(err) == filch.Invalid {
		return ui.Misused(cli.OfOption("lookup", err))
	}
	if err != nil {
		return err
	}
	if asJSON {
		return ui.PrintJSON(l)
	}
	return printLookup(&l)
}

func printLookup(l *wire.LookupInfo) error {
	switch {
	case l.Key == "":
		ui.Printf("node %s\n", l.Node)
	case l.Node == "":
		ui.Printf("record %s  no roster is known yet: these nodes are nearest to the key\n", ui.Clean(l.Key))
	default:
		ui.Printf("record %s  shard %d  home %s  replicas %s\n", ui.Clean(l.Key), l.Shard, l.Node, spec.FormatHosts(l.Replicas))
	}
	if len(l.Path) == 0 {
		ui.Printf("0 hops: this is the node that answers\n")
		return nil
	}
	if l.Trouble != "" {
		ui.Printf("%s: other nodes may be nearer; look again\n", l.Trouble)
	}
	ui.Printf("%s in %s, %s asked, %d did not answer\n", filch.Plural(len(l.Path), "hop"), millis(l.Secs), filch.Plural(l.Asked, "node"), l.Failed)
	t := &ui.Table{Head: []string{"HOP", "NODE", "ADDRESS", "NAMED", "TIME"}, Right: map[int]bool{0: true, 3: true, 4: true}}
	for i, h := range l.Path {
		t.Add(fmt.Sprint(i+1), string(h.Node), h.Addr, fmt.Sprint(h.Named), millis(h.Secs))
	}
	if l.Node == "" {
		for _, n := range l.Nearest {
			t.Add("-", string(n.Node), n.Addr, "-", "-")
		}
	}
	return t.Print()
}

// millis is a time in a table, to a hundredth of a millisecond.
func millis(secs float64) string {
	return filch.ShortTime(time.Duration(secs * float64(time.Second)))
}
