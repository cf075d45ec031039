package keeper

import (
	"net"
	"testing"
)

// Open MPI reads no networks of IPv6: those of a node that listens on such an
// address are told by the IPv4 network of the same interface, or not at all.
func TestNetwork4(t *testing.T) {
	addrs := func(list ...string) (all []net.Addr) {
		for _, s := range list {
			ip, n, err := net.ParseCIDR(s)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, &net.IPNet{IP: ip, Mask: n.Mask})
		}
		return all
	}
	for want, list := range map[string][]net.Addr{
		"192.0.2.0/24": addrs("fd00::2/64", "192.0.2.2/24", "10.1.2.3/8"),
		"127.0.0.0/8":  addrs("127.0.0.1/8", "::1/128"),
		"":             addrs("fd00::2/64", "fe80::1/64"),
	} {
		if got := network4(list); got != want {
			t.Errorf("of %v: got %q, want %q", list, got, want)
		}
	}
	for address, want := range map[string]string{"127.0.0.1": "127.0.0.0/8", "nonsense": "", "203.0.113.9": ""} {
		if got := network(address); got != want {
			t.Errorf("of %s: got %q, want %q", address, got, want)
		}
	}
}
