package main

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
)

// listenHost is the address that launchers listen on: the one asked for, that
// of the interface asked for, in an allocation a private address of this
// machine, else the loopback, which no other machine reaches.
func (o *upOptions) listenHost() (string, error) {
	switch {
	case o.address != "":
		ip, err := netip.ParseAddr(o.address)
		if err != nil {
			return "", misuse{filch.Errorf(filch.Invalid, "--address %s is not an IP address", strconv.Quote(o.address))}
		}
		return ip.String(), nil
	case o.iface != "":
		return interfaceAddress(o.iface)
	case place.AllocationName(os.Getenv) != "":
		if host := privateAddress(); host != "" {
			return host, nil
		}
	}
	return "127.0.0.1", nil
}

func interfaceAddress(name string) (string, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		var names []string
		all, _ := net.Interfaces()
		for _, a := range all {
			names = append(names, a.Name)
		}
		return "", misuse{filch.Errorf(filch.Invalid, "there is no network interface %s", strconv.Quote(name)).
			WithHint("this machine has %s", strings.Join(names, ", "))}
	}
	addrs := addressesOf(*i)
	if len(addrs) == 0 {
		return "", filch.Errorf(filch.Invalid, "the network interface %s has no address", name)
	}
	return addrs[0].String(), nil
}

// addressesOf are the interface's usable addresses, IPv4 before IPv6.
func addressesOf(i net.Interface) []netip.Addr {
	var addrs []netip.Addr
	for _, p := range prefixesOf(i) {
		addrs = append(addrs, p.Addr())
	}
	return addrs
}

// prefixesOf are the same with their networks.
func prefixesOf(i net.Interface) []netip.Prefix {
	all, _ := i.Addrs()
	var found []netip.Prefix
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLinkLocalUnicast() {
			found = append(found, p)
		}
	}
	slices.SortStableFunc(found, func(a, b netip.Prefix) int { return a.Addr().BitLen() - b.Addr().BitLen() })
	return found
}

// privateAddress is an address of this machine inside a private network: of a
// fast interconnect (ib*, hsn*) if there is one, else of the network that the
// batch system uses, else of any; "" when there is none. Those of bridges for
// containers are not reachable from elsewhere.
func privateAddress() string {
	near, _ := netip.ParseAddr(os.Getenv("SLURM_LAUNCH_NODE_IPADDR"))
	all, _ := net.Interfaces()
	best, bestRank := "", 0
	for _, i := range all {
		if !outward(i) {
			continue
		}
		for _, a := range prefixesOf(i) {
			rank := 1
			switch {
			case !a.Addr().IsPrivate():
				continue
			case hasAnyPrefix(i.Name, "ib", "hsn"):
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
func outward(i net.Interface) bool {
	return i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 && !hasAnyPrefix(i.Name, "docker", "virbr", "br-", "veth", "cni", "flannel")
}

// fabricHost is the address that a launcher of an allocation listens on. A
// public one is not taken unasked.
func (o *upOptions) fabricHost(others bool) (string, error) {
	if o.address != "" || o.iface != "" {
		return o.listenHost()
	}
	if host := privateAddress(); host != "" {
		return host, nil
	}
	all, _ := net.Interfaces()
	for _, i := range all {
		if others && outward(i) && len(addressesOf(i)) > 0 {
			return "", filch.Errorf(filch.Invalid, "this node has no private address").
				WithHint("name the network interface to use: --iface %s", i.Name)
		}
	}
	return "127.0.0.1", nil
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
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
