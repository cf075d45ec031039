package bringup

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
)

// gathered waits until the first of want launchers knows all of them, with a
// progress line on a terminal. A slow machine may take as long as needed: the
// wait ends when nothing has changed for joinWait.
func (b *localNodes) gathered(want int) error {
	started, told, most := time.Now(), false, 0
	for changed := started; ; {
		list, err := nodesOf(b.nodes[0])
		if err != nil && ui.KindOf(err) != filch.Timeout {
			return err
		}
		up := 0
		for _, n := range list {
			if n.State == "up" || n.State == "draining" {
				up++
			}
		}
		if up > most {
			most, changed = up, time.Now()
		}
		if told {
			fmt.Fprintf(os.Stderr, "\r%s: %d of %d launchers have joined ", b.instance, up, want)
		}
		if up >= want {
			if told {
				fmt.Fprint(os.Stderr, "\r\033[K")
			}
			return replicated(b.nodes[0], want, b.quit)
		}
		for _, p := range b.procs {
			select {
			case <-p.ended:
				return p.failure()
			case <-b.quit:
				return filch.Errorf(filch.Unavailable, "filch up has ended")
			default:
			}
		}
		if time.Since(changed) > joinWait {
			return filch.Errorf(filch.Timeout, "%d of %d launchers have joined after %s, and none in the last %s", most, want, filch.ShortTime(time.Since(started)), filch.ShortTime(joinWait)).
				WithHint("the logs of the launchers: %s", filepath.Join(b.base, b.instance, "*", "log"))
		}
		told = told || time.Since(started) > cli.SpeakAfter && ui.IsTerminal(os.Stderr)
		time.Sleep(cli.PollPause * time.Duration(1+want/16)) // an answer is as long as the list
	}
}

// replicateWait bounds the wait until records are on their full number of nodes.
const replicateWait = 10 * time.Second

// replicated waits until the death of any single node of an instance of want
// nodes loses no record: from then on the instance keeps its promises. A long
// wait is printed, and is no failure.
func replicated(d place.Dir, want int, quit <-chan struct{}) error {
	c, err := client.DialDir(d, cli.Build)
	if err != nil {
		return err
	}
	defer c.Close()
	for deadline := time.Now().Add(replicateWait); ; {
		var list []wire.RosterInfo
		if err := cli.Ask(c, cli.QueryWait, &list, wire.VerbRoster, wire.OnlyHere); err != nil {
			return err
		}
		r := list[0]
		safe := len(r.Members) >= want && r.Short == 0 && (want < PromisedNodes || len(r.Seats) >= PromisedNodes)
		if safe || len(r.Lost) > 0 { // filch doctor reports lost records
			return nil
		}
		if late := time.Now().After(deadline); late && !r.Known {
			ui.Warn(fmt.Sprintf("after %s, %s does not have the roster, and so cannot keep records: filch doctor says what to do", filch.ShortTime(replicateWait), r.Node))
			return nil
		} else if late {
			ui.Warn(fmt.Sprintf("after %s %s: filch doctor says more", filch.ShortTime(replicateWait), unsafeText(&r, want)))
			return nil
		}
		select {
		case <-quit:
			return filch.Errorf(filch.Unavailable, "filch up has ended")
		case <-time.After(cli.PollPause):
		}
	}
}

// nodesOf asks the launcher of d for the members of its instance. The launcher
// answers from its own member list and asks no member.
func nodesOf(d place.Dir) (list []wire.NodeInfo, err error) {
	c, err := client.DialDir(d, cli.Build)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	err = cli.Ask(c, cli.QueryWait, &list, wire.VerbNodes, wire.OnlyHere)
	return list, err
}

// unsafeText is the reason that the death of a node may lose records of an
// instance of want nodes.
func unsafeText(r *wire.RosterInfo, want int) string {
	switch {
	case r.Short > 0:
		return fmt.Sprintf("%d of %s have too few replicas", r.Short, filch.Plural(r.Shards, "shard"))
	case len(r.Members) < want:
		return fmt.Sprintf("%d of %s keep records", len(r.Members), filch.Plural(want, "node"))
	}
	return fmt.Sprintf("the roster has %s, not %d", filch.Plural(len(r.Seats), "seat"), PromisedNodes)
}
