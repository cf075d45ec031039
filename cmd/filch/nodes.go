package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch/cmd/filch/bringup"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

func nodesCommand(g *cli.Global) *cobra.Command {
	asJSON, topo := false, false
	c := &cobra.Command{
		Use:     "nodes",
		GroupID: "nodes",
		Short:   "list the nodes of the instance",
		Long: `Lists every node that the answering node knows, with its slots, its free slots, and
its state:

  up        takes work
  suspect   no heartbeat for two seconds: gets no new work
  gone      the launcher has ended, but the machine answers: other nodes take over
            the tasks and records at once
  draining  starts no new work; the reason is below the list
  dead      no heartbeat for five seconds: ranks and tasks there are lost
  left      has left the instance

* marks the node that answered. HELD BY names the jobs that have slots of the node, most
slots first, as JOB:SLOTS; stuck are slots of processes that cannot be killed, and lent are
slots that tasks use until a job that waits for more slots can start. FOR (filch up --role), GPUS, whole and free of
all, LABELS and RESOURCES, free of all, appear when a node has some: filch up --label,
--resource.

--topology lists the sockets and NUMA nodes of each node instead, with the CPUs of their
slots: 0,4 is a slot with the hardware threads 0 and 4.`,
		Example: "  filch nodes\n  filch nodes --topology\n  filch nodes --json",
		RunE: func(*cobra.Command, []string) error {
			c, err := g.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			query := cli.QueryNodes
			if topo {
				query = cli.QueryProcessors
			}
			list, err := query(c)
			if err != nil {
				return err
			}
			if asJSON {
				return ui.PrintJSON(list)
			}
			if topo {
				return printTopology(list)
			}
			return printNodes(c.Dir.Instance, list)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&topo, "topology", false, "list sockets, NUMA nodes and the CPUs of slots")
	return c
}

func printNodes(instance string, list []wire.NodeInfo) error {
	up, slots, free := 0, 0, 0
	t := &ui.Table{Head: []string{"NODE", "STATE", "SLOTS", "FREE", "HELD BY", "MEMORY", "PID", "ADDRESS"}, Right: map[int]bool{2: true, 3: true, 5: true, 6: true}}
	labels := slices.ContainsFunc(list, func(n wire.NodeInfo) bool { return n.Labels != "" })
	resources := slices.ContainsFunc(list, func(n wire.NodeInfo) bool { return n.Named != "" })
	gpus := slices.ContainsFunc(list, func(n wire.NodeInfo) bool { return len(n.GPUs) > 0 })
	roles := slices.ContainsFunc(list, func(n wire.NodeInfo) bool { return n.Role != filch.ForAll })
	if roles {
		t.Head = append(t.Head, "FOR")
	}
	if gpus {
		t.Head = append(t.Head, "GPUS")
	}
	if labels {
		t.Head = append(t.Head, "LABELS")
	}
	if resources {
		t.Head = append(t.Head, "RESOURCES")
	}
	for _, n := range list {
		name, state := string(n.Node), n.State
		if n.Local {
			name += " *"
		}
		switch state {
		case "up":
			up, slots, free = up+1, slots+int(n.Slots), free+int(n.Free)
		case "draining":
			up, slots = up+1, slots+int(n.Slots)
		}
		row := []string{name, state, fmt.Sprint(n.Slots), fmt.Sprint(n.Free), heldBy(&n), memoryCell(n.MemBytes), fmt.Sprint(n.PID), strings.Join(n.Addrs, " ")}
		if roles {
			row = append(row, n.Role.String())
		}
		if gpus {
			row = append(row, gpuCell(&n))
		}
		if labels {
			row = append(row, cmp.Or(string(n.Labels), "-"))
		}
		if resources {
			row = append(row, cmp.Or(n.NamedFree.OutOf(n.Named), "-"))
		}
		if t.Add(row...); state == "dead" {
			t.Alert()
		}
	}
	ui.Printf("%s  %d of %s up  %d of %s free\n", ui.Clean(instance), up, filch.Plural(len(list), "node"), free, filch.Plural(slots, "slot"))
	if err := t.Print(); err != nil {
		return err
	}
	for _, n := range list {
		if n.State == "draining" && n.Drain != nil {
			ui.Printf("note  %s drains%s\n", ui.Clean(string(n.Node)), ui.Clean(bringup.DrainLine(n.Drain, time.Now())))
		}
	}
	return nil
}

// gpuCell is the GPUs of a node of which no part is lent, of all GPUs.
func gpuCell(n *wire.NodeInfo) string {
	if len(n.GPUs) == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", len(n.GPUsFree), len(n.GPUs))
}

// heldByMax bounds the jobs in a cell.
const heldByMax = 3

// heldBy names the jobs with slots of a node, as JOB:SLOTS without blanks, with :spare
// where slots are kept for a loss, and how many slots tasks use until their holder can start.
func heldBy(n *wire.NodeInfo) string {
	// A gang may have no rank on its owner.
	list := slices.DeleteFunc(slices.Clone(n.Holders), func(h launcher.Holder) bool { return h.Slots == 0 })
	slices.SortStableFunc(list, func(a, b launcher.Holder) int { return cmp.Compare(b.Slots, a.Slots) })
	var words []string
	for _, h := range list[:min(len(list), heldByMax)] {
		word := fmt.Sprintf("%d:%d", h.Job, h.Slots)
		if h.Spare > 0 {
			word += ":spare"
		}
		words = append(words, word)
	}
	if more := len(list) - heldByMax; more > 0 {
		words = append(words, fmt.Sprintf("+%d", more))
	}
	if n.Lent > 0 {
		words = append(words, fmt.Sprintf("lent:%d", n.Lent))
	}
	if n.Stuck > 0 {
		words = append(words, fmt.Sprintf("stuck:%d", n.Stuck))
	}
	return cmp.Or(strings.Join(words, ","), "-")
}

func memoryCell(n int64) string {
	if n == 0 {
		return "-"
	}
	if g := n >> 30; g >= 10 {
		return fmt.Sprintf("%dG", g)
	}
	return spec.FormatMemory(n >> 20 << 20)
}
