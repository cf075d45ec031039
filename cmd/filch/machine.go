package main

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
)

// usableCores are the processors that this process may use, by the kernel's
// numbers: the affinity mask, not what the machine has.
func usableCores() ([]int32, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, filch.Errorf(filch.Internal, "cannot tell which cores may be used: %s", err.Error())
	}
	var cores []int32
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			cores = append(cores, int32(i))
		}
	}
	return cores, nil
}

// machineMemory is what this machine, or the cgroup that we are in, has in
// bytes; 0 if it cannot be told.
func machineMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	total := int64(info.Totalram) * int64(info.Unit)
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
			total = min(total, n)
		}
	}
	return total
}

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
	all, _ := i.Addrs()
	var addrs []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLinkLocalUnicast() {
			addrs = append(addrs, p.Addr())
		}
	}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return addrs
}

// privateAddress is an address of this machine inside a private network, of a
// fast interconnect (ib*, hsn*) if there is one; "" when there is none. Those
// of bridges for containers are not reachable from elsewhere.
func privateAddress() string {
	all, _ := net.Interfaces()
	best, bestRank := "", 0
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 || hasAnyPrefix(i.Name, "docker", "virbr", "br-", "veth", "cni", "flannel") {
			continue
		}
		rank := 1
		if hasAnyPrefix(i.Name, "ib", "hsn") {
			rank = 2
		}
		for _, a := range addressesOf(i) {
			if a.IsPrivate() && rank > bestRank {
				best, bestRank = a.String(), rank
			}
		}
	}
	return best
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
