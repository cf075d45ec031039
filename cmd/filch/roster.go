package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// recoverWait is how long filch roster recover waits for the launcher.
const recoverWait = 25 * time.Second

func rosterCommand(g *global) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "roster",
		GroupID: "nodes",
		Short:   "show where the instance keeps its records",
		Long: `Jobs are records in a store that all nodes share. The store is cut into shards,
each on three nodes; who has which is written in the roster, which one, three or
five of the nodes, its seats, decide by majority. Shows the roster as the node
sees it that answers (*), and what each node keeps.`,
		Example: "  filch roster\n  filch roster --json\n  filch roster recover --accept-loss",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := g.dial()
			if err != nil {
				return err
			}
			defer c.Close()
			list, err := queryRoster(c)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(list)
			}
			return printRoster(list)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.AddCommand(recoverCommand(g))
	return c
}

func queryRoster(c *client.Client) ([]wire.RosterInfo, error) {
	var list []wire.RosterInfo
	if err := ask(c, queryWait, &list, wire.VerbRoster); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, filch.Errorf(filch.Internal, "the launcher said nothing of its store")
	}
	return list, nil
}

func printRoster(list []wire.RosterInfo) error {
	own := list[0]
	if !own.Known {
		fmt.Println("this node has not heard of a roster yet")
	} else {
		fmt.Printf("epoch %d  seats %s (generation %d)  %s in %s\n", own.Epoch, spec.FormatHosts(own.Seats), own.Generation,
			plural(own.Shards, "shard"), plural(len(own.Members), "member"))
		fmt.Printf("short of replicas %d  growing %d  lost %d\n", own.Short, own.Learning, len(own.Lost))
	}
	t := &table{
		head:  []string{"NODE", "SEAT", "MEMBER", "EPOCH", "REPLICAS", "HOMES", "RECORDS", "DISK", "QUOTA"},
		right: map[int]bool{3: true, 4: true, 5: true, 6: true, 7: true, 8: true},
	}
	yes := func(b bool) string {
		if b {
			return "yes"
		}
		return "-"
	}
	for i, r := range list {
		name := string(r.Node)
		if i == 0 {
			name += " *"
		}
		member := slices.ContainsFunc(own.Members, func(m wire.RosterMember) bool { return m.Node == r.Node })
		row := []string{name, yes(slices.Contains(own.Seats, r.Node)), yes(member), "-", "-", "-", "-", "-", "-"}
		if !r.Silent {
			h := r.Here
			copy(row[3:], []string{fmt.Sprint(r.Epoch), fmt.Sprint(h.Replicas), fmt.Sprint(h.Homes), fmt.Sprint(h.Records), sizeCell(h.DiskBytes), sizeCell(h.QuotaBytes)})
		}
		t.add(row...)
	}
	return t.print()
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

func recoverCommand(g *global) *cobra.Command {
	accept := false
	c := &cobra.Command{
		Use:   "recover --accept-loss",
		Short: "give up shards of which no replica is left",
		Long: `Makes the shards anew, empty, of which every replica was lost, disks included, so
that the instance can go on. The records of jobs in them are gone for good: such
jobs are no longer listed, and detached ones among them that ran are ended. First
try to bring back the nodes that had them: started again on their disks, they
still have them.`,
		Example: "  filch roster recover --accept-loss",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := g.dial()
			if err != nil {
				return err
			}
			defer c.Close()
			list, err := queryRoster(c)
			if err != nil {
				return err
			}
			own := list[0]
			if len(own.Lost) == 0 {
				fmt.Println("no shard is lost: nothing to do")
				return nil
			}
			if !accept {
				return misuse{filch.Errorf(filch.Invalid, "%d of %d shards are lost; to go on without their records takes --accept-loss", len(own.Lost), own.Shards).
					WithHint("first try to start the nodes again that had them")}
			}
			var r wire.RecoverInfo
			if err := ask(c, recoverWait, &r, wire.VerbRecover); err != nil {
				return err
			}
			fmt.Printf("%s made anew, empty\n", plural(r.Shards, "shard"))
			return nil
		},
	}
	c.Flags().BoolVar(&accept, "accept-loss", false, "give up the records that were in them")
	return c
}
