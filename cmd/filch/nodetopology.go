package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/topology"
	"github.com/filch-hpc/filch/launcher/wire"
)

// printTopology prints a row for each NUMA node of each node.
func printTopology(list []wire.NodeInfo) error {
	t := &ui.Table{Head: []string{"NODE", "SOCKET", "NUMA", "SLOTS", "FREE", "CPUS"}, Right: map[int]bool{1: true, 2: true, 3: true, 4: true}}
	for i := range list {
		n := &list[i]
		name := string(n.Node)
		if n.Local {
			name += " *"
		}
		if len(n.Processors) == 0 {
			t.Add(name, "-", "-", fmt.Sprint(n.Slots), fmt.Sprint(n.Free), "-")
			continue
		}
		for _, p := range partsOf(n) {
			t.Add(name, fmt.Sprint(p.socket), fmt.Sprint(p.domain), fmt.Sprint(p.slots), fmt.Sprint(p.free), strings.Join(p.cpus, " "))
		}
	}
	if err := t.Print(); err != nil {
		return err
	}
	for i := range list {
		if n := &list[i]; len(n.Processors) == 0 && n.Slots > 0 {
			ui.Printf("note  a slot without CPUs is only counted: the node has more slots than hardware threads, or does not answer\n")
			break
		}
	}
	return nil
}

// part is the slots of a NUMA node of a socket.
type part struct {
	socket, domain int32
	slots, free    int
	cpus           []string // of each slot
}

// partsOf divides the slots of a node.
func partsOf(n *wire.NodeInfo) (parts []part) {
	for s, p := range n.Processors {
		i := slices.IndexFunc(parts, func(o part) bool { return o.socket == p.Socket && o.domain == p.Domain })
		if i < 0 {
			i = len(parts)
			parts = append(parts, part{socket: p.Socket, domain: p.Domain})
		}
		parts[i].slots++
		if slices.Contains(n.FreeSlots, int32(s)) {
			parts[i].free++
		}
		parts[i].cpus = append(parts[i].cpus, topology.FormatList(p.CPUs))
	}
	return parts
}
