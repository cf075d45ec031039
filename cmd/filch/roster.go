package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// recoverWait is how long filch roster recover waits for the launcher.
const recoverWait = 25 * time.Second

func rosterCommand(g *cli.Global) *cobra.Command {
	asJSON, lookup := false, ""
	c := &cobra.Command{
		Use:     "roster",
		GroupID: "nodes",
		Short:   "show which nodes keep the records of the instance",
		Long: `Shows the roster, as the answering node (*) knows it, and what each node keeps. Jobs
are records in a store that all nodes share. The store is cut into shards, each with
replicas on three nodes. The roster says which nodes have the replicas of a shard.

With --lookup KEY it shows instead how the node that answers finds a node, or the
node that has a record, the record's home: by a lookup, without the list of members.
KEY is a job, a node, or the key of a record, which has a slash. Each hop is a node
that was asked on the way, with how many nodes it named and the time it took.`,
		Example: "  filch roster\n  filch roster --json\n  filch roster --lookup 7\n  filch roster --lookup n3\n  filch roster recover --accept-loss",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := g.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			if cmd.Flags().Changed("lookup") {
				return lookUp(c, lookup, asJSON)
			}
			list, err := queryRoster(c)
			if err != nil {
				return err
			}
			if asJSON {
				return ui.PrintJSON(list)
			}
			return printRoster(list)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().StringVar(&lookup, "lookup", "", "show the way to a node or to the home of a record: `KEY` is a job, a node or the record's key")
	c.AddCommand(recoverCommand(g))
	return c
}

func queryRoster(c *client.Client) ([]wire.RosterInfo, error) {
	var list []wire.RosterInfo
	if err := cli.Ask(c, cli.QueryWait, &list, wire.VerbRoster); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, filch.Errorf(filch.Internal, "the launcher did not describe its store")
	}
	return list, nil
}

func printRoster(list []wire.RosterInfo) error {
	own := list[0]
	if !own.Known {
		ui.Printf("this node does not have a roster yet\n")
	} else {
		ui.Printf("epoch %d  seats %s (generation %d)  %s in %s\n", own.Epoch, spec.FormatHosts(own.Seats), own.Generation,
			filch.Plural(own.Shards, "shard"), filch.Plural(len(own.Members), "member"))
		ui.Printf("short of replicas %d  growing %d  lost %d\n", own.Short, own.Learning, len(own.Lost))
	}
	t := &ui.Table{
		Head:  []string{"NODE", "SEAT", "MEMBER", "EPOCH", "REPLICAS", "HOMES", "RECORDS", "DISK", "QUOTA"},
		Right: map[int]bool{3: true, 4: true, 5: true, 6: true, 7: true, 8: true},
	}
	yes := func(b bool) string {
		if b {
			return "yes"
		}
		return "-"
	}
	_, unseated := lostSeats(list)
	seat := func(n filch.NodeName) string {
		if slices.Contains(unseated, n) {
			return "lost" // its promises are lost
		}
		return yes(slices.Contains(own.Seats, n))
	}
	for i, r := range list {
		name := string(r.Node)
		if i == 0 {
			name += " *"
		}
		member := slices.ContainsFunc(own.Members, func(m wire.RosterMember) bool { return m.Node == r.Node })
		row := []string{name, seat(r.Node), yes(member), "-", "-", "-", "-", "-", "-"}
		if !r.Silent {
			h := r.Here
			copy(row[3:], []string{fmt.Sprint(r.Epoch), fmt.Sprint(h.Replicas), fmt.Sprint(h.Homes), fmt.Sprint(h.Records), sizeCell(h.DiskBytes), sizeCell(h.QuotaBytes)})
		}
		t.Add(row...)
	}
	return t.Print()
}

// sizeCell is a size in a table.
func sizeCell(n int64) string {
	for _, u := range []string{"", "K", "M"} {
		if n < 10<<10 {
			return fmt.Sprintf("%d%s", n, u)
		}
		n >>= 10
	}
	return fmt.Sprintf("%dG", n)
}

// sizeText is a size in a sentence.
func sizeText(n int64) string {
	if s := sizeCell(n); s[len(s)-1] > '9' {
		return s
	}
	return filch.Plural(int(n), "byte")
}

// lostSeats are the seats whose nodes do not answer, and the seats whose nodes
// answer but have lost their promises.
func lostSeats(list []wire.RosterInfo) (gone, unseated []filch.NodeName) {
	for _, s := range list[0].Seats {
		i := slices.IndexFunc(list, func(r wire.RosterInfo) bool { return r.Node == s && !r.Silent })
		switch {
		case i < 0:
			gone = append(gone, s)
		case !list[i].Here.Seated:
			unseated = append(unseated, s)
		}
	}
	return gone, unseated
}

// rosterLost reports whether no majority of the seats can change the roster, in
// the view of the node that answers.
func rosterLost(list []wire.RosterInfo) bool {
	gone, unseated := lostSeats(list)
	return !list[0].Known || 2*(len(gone)+len(unseated)) >= len(list[0].Seats)
}

// saySeats describes the state of the seats.
func saySeats(own *wire.RosterInfo, gone, unseated []filch.NodeName) string {
	if !own.Known {
		return fmt.Sprintf("%s has not heard of one", own.Node)
	}
	parts := []string{"of " + filch.Plural(len(own.Seats), "seat")}
	for _, x := range []struct {
		names []filch.NodeName
		what  string
	}{{gone, "gone"}, {unseated, "on a damaged disk"}} {
		if len(x.names) > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%s)", len(x.names), x.what, spec.FormatHosts(x.names)))
		}
	}
	return strings.Join(parts, ", ")
}

func recoverCommand(g *cli.Global) *cobra.Command {
	accept := false
	c := &cobra.Command{
		Use:                   "recover --accept-loss",
		DisableFlagsInUseLine: true,
		Short:                 "go on without the records that are lost",
		Long: `Makes the shards anew of which every replica was lost, so that the instance can go
on: with what damaged disks of live nodes still have of them, and else empty. Other
records of jobs in them are gone for good: such jobs are no longer listed, and
detached ones among them that ran are ended. First try to bring back the nodes that
had them: started again on their disks, they still have them.

Where the roster itself is lost, because most of its seats are gone or their disks
are damaged, it is begun anew instead, from the newest that a node which lives
knows, and no shard is given up: those of which no live node has a replica come
back when nodes with their disks do. What was changed since by nodes that this one
cannot reach is given up, so make sure that they are gone, and not on the other
side of a broken network.`,
		Example: "  filch roster recover --accept-loss",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := g.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			list, err := queryRoster(c)
			if err != nil {
				return err
			}
			own := list[0]
			gone, unseated := lostSeats(list)
			seats := rosterLost(list)
			switch {
			case len(own.Lost) == 0 && !seats:
				ui.Printf("neither the roster nor any shard is lost: nothing to do\n")
				return nil
			case !accept && seats:
				return ui.Misused(filch.Errorf(filch.Invalid, "the roster is lost: %s; --accept-loss starts a new roster from the newest copy on a live node", saySeats(&own, gone, unseated)).
					WithHint("first try to start the nodes with the seats again; changes made on unreachable nodes are lost"))
			case !accept:
				return ui.Misused(filch.Errorf(filch.Invalid, "%d of %d shards are lost; --accept-loss goes on without their records", len(own.Lost), own.Shards).
					WithHint("first try to start the nodes that had the replicas again"))
			}
			var r wire.RecoverInfo
			if err := cli.Ask(c, recoverWait, &r, wire.VerbRecover); err != nil {
				return err
			}
			if r.Anew {
				ui.Printf("%s has started a new roster\n", own.Node)
				ui.Printf("filch roster shows which shards are back; other shards wait for the disks of other nodes: to give these shards up, run the command again\n")
				return nil
			}
			ui.Printf("%s made anew\n", filch.Plural(r.Shards, "shard"))
			return nil
		},
	}
	c.Flags().BoolVar(&accept, "accept-loss", false, "go on without the lost records")
	return c
}
