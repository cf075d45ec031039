package peers

import (
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Card is a node's description of itself for all other nodes, sent by gossip.
type Card struct {
	Total  filch.Room
	PID    int32
	Build  string
	Group  string // the allocation
	Labels filch.Labels
	Role   filch.Role
	Drain  *launcher.Drain
}

// EncodeCard makes the opaque bytes that the overlay carries.
func EncodeCard(c Card) ([]byte, error) { return wire.Marshal(c) }

// Member is a node as this node knows it.
type Member struct {
	node.Peer
	Addrs []string
	Card  Card
}

// Directory is the list of nodes as this node knows them. All goroutines may use the
// Directory; the Node has a list of its own.
type Directory struct {
	self filch.NodeName

	mu     sync.Mutex // guards byName
	byName map[filch.NodeName]Member
}

// NewDirectory makes the empty list of the node self.
func NewDirectory(self filch.NodeName) *Directory {
	return &Directory{self: self, byName: map[filch.NodeName]Member{}}
}

// Set adds a node, or replaces the node's entry.
func (d *Directory) Set(m Member) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.byName[m.Name] = m
}

// Forget removes a node that is dead or has left.
func (d *Directory) Forget(n filch.NodeName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m, ok := d.byName[n]; ok && m.Standing >= filch.Dead {
		delete(d.byName, n)
	}
}

// Find returns a node; false: the node is not known.
func (d *Directory) Find(n filch.NodeName) (Member, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, ok := d.byName[n]
	return m, ok
}

// Live reports whether n is another node and may answer.
func (d *Directory) Live(n filch.NodeName) bool {
	m, known := d.Find(n)
	return known && n != d.self && m.Standing < filch.Dead
}

// Incarnation returns the incarnation of a node, 0 if the node is not known.
func (d *Directory) Incarnation(n filch.NodeName) uint64 {
	m, _ := d.Find(n)
	return m.Incarnation
}

// List returns all members that are not forgotten, by name.
func (d *Directory) List() []Member {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]Member, 0, len(d.byName))
	for _, m := range d.byName {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Member) int {
		if c := place.NaturalOrder(string(a.Name), string(b.Name)); c != 0 {
			return c
		}
		return strings.Compare(string(a.Name), string(b.Name))
	})
	return all
}

// Others returns the live members except this node.
func (d *Directory) Others() []Member {
	return slices.DeleteFunc(d.List(), func(m Member) bool {
		return m.Name == d.self || m.Standing >= filch.Dead
	})
}

// Names returns the other nodes that are not dead, by name.
func (d *Directory) Names() []filch.NodeName {
	var names []filch.NodeName
	for _, m := range d.Others() {
		names = append(names, m.Name)
	}
	return names
}

// Net returns this node's address for a job over these nodes, without the port. A job of a
// single node may spawn ranks on any other node. The address is empty where this node listens
// on the loopback and other nodes do not.
func (d *Directory) Net(nodes []launcher.NodeRanks) string {
	own := d.host(d.self)
	if !own.IsValid() || !own.IsLoopback() {
		return d.Address(d.self)
	}
	names := d.Names()
	if len(nodes) > 1 {
		names = names[:0]
		for _, n := range nodes {
			names = append(names, n.Node)
		}
	}
	for _, n := range names {
		if !d.host(n).IsLoopback() {
			return ""
		}
	}
	return own.String()
}

// Address returns the address of a node as text; "" if the address is not known.
func (d *Directory) Address(name filch.NodeName) string {
	if a := d.host(name); a.IsValid() {
		return a.String()
	}
	return ""
}

// host returns the address of a node.
func (d *Directory) host(name filch.NodeName) netip.Addr {
	if m, _ := d.Find(name); len(m.Addrs) > 0 {
		if a, err := netip.ParseAddrPort(m.Addrs[0]); err == nil {
			return a.Addr().Unmap()
		}
	}
	return netip.Addr{}
}

// Reachable returns the addresses of some other nodes that answer.
func (d *Directory) Reachable() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := make([]filch.NodeName, 0, len(d.byName))
	for name, m := range d.byName {
		if m.Standing.Answers() && name != d.self && len(m.Addrs) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var addrs []string
	for _, name := range names[:min(len(names), place.MaxPeers)] {
		addrs = append(addrs, d.byName[name].Addrs[0])
	}
	return addrs
}
