package kad

import "github.com/libp2p/go-libp2p/core/peer"

// Spares is the number of nodes that the contacts of a joining node have named.
func (f *Finder) Spares() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.spares)
}

// Size is the number of nodes in the routing table.
func (f *Finder) Size() int {
	_, d, err := f.get()
	if err != nil {
		return 0
	}
	return d.RoutingTable().Size()
}

// Known are the nodes in the routing table.
func (f *Finder) Known() []peer.ID {
	_, d, err := f.get()
	if err != nil {
		return nil
	}
	return d.RoutingTable().ListPeers()
}
