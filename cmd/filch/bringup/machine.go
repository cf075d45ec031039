package bringup

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/config/place"
)

// listenHost is the listen address of launchers: the address asked for, else the
// address of the interface asked for, in an allocation a private address of this
// machine, else the loopback, which no other machine reaches.
func (o *upOptions) listenHost() (string, error) {
	switch {
	case o.address != "":
		ip, err := netip.ParseAddr(o.address)
		if err != nil {
			return "", ui.Misused(filch.Errorf(filch.Invalid, "--address %s is not an IP address", strconv.Quote(o.address)))
		}
		return ip.String(), nil
	case o.iface != "":
		host, err := nicsHere().named(o.iface)
		return host, cli.OfOption("iface", err)
	case place.AllocationName(os.Getenv) != "":
		if host := nicsHere().private(launchNode()); host != "" {
			return host, nil
		}
	}
	return "127.0.0.1", nil
}

// OutwardAddress is the address of this machine that the nodes of an allocation reach.
func OutwardAddress() (string, error) { return nicsHere().fabric(launchNode(), true) }

// nic is a network interface.
type nic struct {
	name         string
	up, loopback bool
	nets         []netip.Prefix // usable, each with its address; IPv4 before IPv6
}

// nics are the network interfaces of a machine.
type nics []nic

// nicsHere are the network interfaces of this machine.
func nicsHere() (list nics) {
	all, _ := net.Interfaces()
	for _, i := range all {
		n := nic{name: i.Name, up: i.Flags&net.FlagUp != 0, loopback: i.Flags&net.FlagLoopback != 0}
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				n.nets = append(n.nets, p)
			}
		}
		list = append(list, n.usable())
	}
	return list
}

// usable leaves out addresses that mean nothing without the interface.
func (n nic) usable() nic {
	n.nets = slices.DeleteFunc(slices.Clone(n.nets), func(p netip.Prefix) bool { return p.Addr().IsLinkLocalUnicast() })
	slices.SortStableFunc(n.nets, func(a, b netip.Prefix) int { return a.Addr().BitLen() - b.Addr().BitLen() })
	return n
}

// named is the address of the named interface.
func (l nics) named(name string) (string, error) {
	i := slices.IndexFunc(l, func(n nic) bool { return n.name == name })
	if i < 0 {
		var names []string
		for _, n := range l {
			names = append(names, n.name)
		}
		return "", ui.Misused(filch.Errorf(filch.Invalid, "there is no network interface %s", strconv.Quote(name)).
			WithHint("this machine has %s", strings.Join(names, ", ")))
	}
	switch n := l[i]; {
	case !n.up:
		return "", filch.Errorf(filch.Unavailable, "the network interface %s is down", name)
	case len(n.nets) == 0:
		return "", filch.Errorf(filch.Unavailable, "the network interface %s has no address", name)
	default:
		return n.nets[0].Addr().String(), nil
	}
}

// private is an address inside a private network: of a fast interconnect (ib*,
// hsn*) if there is such a network, else of near's network, else of any; "" when
// there is none. Addresses of bridges for containers are not reachable from
// elsewhere.
func (l nics) private(near netip.Addr) string {
	best, bestRank := "", 0
	for _, n := range l {
		if !n.outward() {
			continue
		}
		for _, a := range n.nets {
			rank := 1
			switch {
			case !a.Addr().IsPrivate():
				continue
			case ui.HasAnyPrefix(n.name, "ib", "hsn"):
				rank = 3
			case near.IsValid() && a.Contains(near):
				rank = 2
			}
			if rank > bestRank {
				best, bestRank = a.Addr().String(), rank
			}
		}
	}
	return best
}

// outward reports whether an interface may lead to other machines.
func (n nic) outward() bool {
	return n.up && !n.loopback && !ui.HasAnyPrefix(n.name, "docker", "podman", "virbr", "br-", "veth", "cni", "cali", "flannel", "lxcbr", "lxdbr")
}

// fabric is the listen address of a launcher of an allocation. A public address
// is taken only when asked for.
func (l nics) fabric(near netip.Addr, others bool) (string, error) {
	if host := l.private(near); host != "" {
		return host, nil
	}
	for _, n := range l {
		if others && n.outward() && len(n.nets) > 0 {
			return "", filch.Errorf(filch.Unavailable, "this node has no private address").
				WithHint("name the network interface to use: --iface %s", n.name)
		}
	}
	return "127.0.0.1", nil
}

// launchNode is an address of the node where the batch system began.
func launchNode() netip.Addr {
	a, _ := netip.ParseAddr(os.Getenv("SLURM_LAUNCH_NODE_IPADDR"))
	return a
}

// fabricHost is [nics.fabric] of this machine, unless --address or --iface is
// set.
func (o *upOptions) fabricHost(others bool) (string, error) {
	if o.address != "" || o.iface != "" {
		return o.listenHost()
	}
	return nicsHere().fabric(launchNode(), others)
}

// addressTowards is the address of this machine from which host is reached.
func addressTowards(hostport string) (string, error) {
	c, err := net.Dial("udp", hostport) // sends nothing
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).IP.String(), nil
}
