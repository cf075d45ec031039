package bringup

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
)

// made is a network interface with those addresses: "10.0.0.5/8".
func made(name string, nets ...string) nic {
	n := nic{name: name, up: true, loopback: name == "lo"}
	for _, s := range nets {
		n.nets = append(n.nets, netip.MustParsePrefix(s))
	}
	return n.usable()
}

func unplugged(n nic) nic {
	n.up = false
	return n
}

var (
	loopback = made("lo", "127.0.0.1/8", "::1/128")
	eth      = made("eth0", "10.1.0.5/16", "fe80::1/64")
	storage  = made("eth1", "192.168.7.5/24")
	ib       = made("ib0", "fe80::2/64", "10.9.0.5/16")
	hsn      = made("hsn0", "fd00:1::5/64", "10.253.0.5/16")
	public   = made("eno1", "198.51.100.7/24", "2001:db8::7/64")
	bridges  = nics{
		made("docker0", "172.17.0.1/16"), made("virbr0", "192.168.122.1/24"), made("br-4f2a", "172.18.0.1/16"), made("veth12", "172.19.0.1/16"),
		made("cni0", "10.88.0.1/16"), made("flannel.1", "10.244.0.1/32"), made("podman0", "10.89.0.1/16"), made("lxcbr0", "10.0.3.1/24"),
		made("lxdbr0", "10.0.4.1/24"), made("cali1a", "10.0.5.1/32"),
	}
)

func TestFabricAddress(t *testing.T) {
	for _, c := range []struct {
		name   string
		nics   nics
		near   string // where the batch system began
		lonely bool   // the only node
		want   string
		hint   string
	}{
		{"the only network", nics{loopback, eth}, "", false, "10.1.0.5", ""},
		{"InfiniBand before Ethernet", nics{loopback, eth, ib}, "10.1.0.1", false, "10.9.0.5", ""},
		{"Slingshot before Ethernet", nics{loopback, hsn, eth}, "10.1.0.1", false, "10.253.0.5", ""},
		{"InfiniBand that is down", nics{loopback, unplugged(ib), eth}, "", false, "10.1.0.5", ""},
		{"InfiniBand without an address", nics{made("ib0", "fe80::2/64"), eth}, "", false, "10.1.0.5", ""},
		{"the batch system's network among several", nics{loopback, storage, eth}, "10.1.3.4", false, "10.1.0.5", ""},
		{"several networks and no word", nics{loopback, storage, eth}, "", false, "192.168.7.5", ""},
		{"a public one beside a private one", nics{loopback, public, eth}, "198.51.100.1", false, "10.1.0.5", ""},
		{"bridges for containers are none", append(nics{loopback}, append(bridges, eth)...), "", false, "10.1.0.5", ""},
		{"nothing but bridges", append(nics{loopback}, bridges...), "", false, "127.0.0.1", ""},
		{"a private one of IPv6", nics{loopback, made("eth0", "fd00::5/64")}, "", false, "fd00::5", ""},
		{"public alone", nics{loopback, public}, "", false, "", "--iface eno1"},
		{"public alone, one node", nics{loopback, public}, "", true, "127.0.0.1", ""},
		{"no network", nics{loopback}, "", false, "127.0.0.1", ""},
	} {
		near, _ := netip.ParseAddr(c.near)
		got, err := c.nics.fabric(near, !c.lonely)
		if got != c.want || (err != nil) != (c.hint != "") || err != nil && !strings.Contains(said(err), c.hint) {
			t.Errorf("%s: got %q, %v; want %q %s", c.name, got, err, c.want, c.hint)
		}
	}
}

func TestNamedInterface(t *testing.T) {
	all := nics{loopback, eth, ib, unplugged(storage), made("eth2", "fe80::3/64"), public}
	for _, c := range []struct{ name, want, err string }{
		{"ib0", "10.9.0.5", ""},
		{"eno1", "198.51.100.7", ""},
		{"lo", "127.0.0.1", ""},
		{"eth1", "", "the network interface eth1 is down"},
		{"eth2", "", "the network interface eth2 has no address"},
		{"ib7", "", `there is no network interface "ib7" this machine has lo, eth0, ib0, eth1, eth2, eno1`},
	} {
		got, err := all.named(c.name)
		if got != c.want || c.err != "" && (err == nil || said(err) != c.err) {
			t.Errorf("%s: got %q, %v; want %q %s", c.name, got, err, c.want, c.err)
		}
	}
}

// said is what a user reads of an error, its hint included.
func said(err error) string {
	var e *filch.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	return strings.TrimSpace(e.Text + " " + e.Hint)
}
