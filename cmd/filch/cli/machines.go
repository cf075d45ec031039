package cli

import (
	"net/netip"
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
)

// Machines lists the nodes that are up by their listen address: nodes with the
// same address share a machine. With only, Machines lists no other nodes. The
// list is empty if the launcher does not answer.
func Machines(instance string, only []launcher.NodeRanks) map[netip.Addr][]filch.NodeName {
	c, err := client.Dial(client.Options{Instance: instance, Build: Build})
	if err != nil {
		return nil
	}
	defer c.Close()
	list, err := QueryNodes(c)
	if err != nil {
		return nil
	}
	by := map[netip.Addr][]filch.NodeName{}
	for _, n := range list {
		if n.State != "up" || n.Slots == 0 || len(n.Addrs) == 0 {
			continue
		}
		if only != nil && !slices.ContainsFunc(only, func(o launcher.NodeRanks) bool { return o.Node == n.Node }) {
			continue
		}
		if a, err := netip.ParseAddrPort(n.Addrs[0]); err == nil {
			by[a.Addr()] = append(by[a.Addr()], n.Node)
		}
	}
	return by
}

// Neighbors are the nodes of a run that share a machine with another node of the
// run: their ranks have no shared memory, and talk over TCP.
func Neighbors(instance string, nodes []launcher.NodeRanks) []filch.NodeName {
	var all []filch.NodeName
	if len(nodes) < 2 {
		return nil
	}
	by := Machines(instance, nodes)
	for _, n := range nodes {
		for _, names := range by {
			if len(names) > 1 && slices.Contains(names, n.Node) {
				all = append(all, n.Node)
			}
		}
	}
	return all
}
