// Package kad finds nodes by Kademlia: the id space, and lookups that need no
// list of all members.
//
// A [Finder] is attached to an overlay.Host before that listens. Whoever the host
// has admitted enters its routing table; a lookup asks the nearest nodes
// it knows for nearer ones until there are none. While the member list holds
// everybody it is the better answer, being complete and free; this is for
// instances that outgrow it (dht.MaxMembers).
//
// Values and providers of go-libp2p-kad-dht are switched off: it loses updates,
// waits for hung nodes for 20 s, and takes 49 messages for a write.
package kad

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	kb "github.com/libp2p/go-libp2p-kbucket"
	"github.com/libp2p/go-libp2p/core/peer"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/overlay"
)

// The shape of lookups. Few requests at a time and one answer to be sure of
// keep a lookup at some ten messages, and the connections that it opens few.
const (
	bucketSize   = 20
	concurrency  = 3
	resiliency   = 1
	queryTimeout = 5 * time.Second
)

// Protocol is the prefix of the protocol's name on the wire.
const Protocol = "/filch"

// Contact is a node that a lookup found. Dialing one of its addresses tells its
// name.
type Contact struct {
	ID    string // its place in the id space follows from it
	Addrs []string
}

// Finder looks nodes up.
type Finder struct {
	mu  sync.Mutex
	dht *kaddht.IpfsDHT
}

// Attach is for overlay.Config.Attach.
func (f *Finder) Attach(h *overlay.Host) error {
	d, err := kaddht.New(h.Libp2p(),
		// The default, to find out whether the node is public, ends in a
		// private network with nobody answering.
		kaddht.Mode(kaddht.ModeServer),
		kaddht.ProtocolPrefix(Protocol),
		kaddht.BucketSize(bucketSize), kaddht.Concurrency(concurrency), kaddht.Resiliency(resiliency),
		kaddht.DisableValues(), kaddht.DisableProviders(),
		kaddht.RoutingTableFilter(func(_ any, id peer.ID) bool { return h.Admitted(id) }),
		// A refresh dials everybody that it hears of.
		kaddht.DisableAutoRefresh(),
		kaddht.RoutingTableRefreshQueryTimeout(queryTimeout),
	)
	if err != nil {
		return fmt.Errorf("cannot attach kademlia: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dht = d
	return nil
}

var errDetached = errors.New("kademlia is attached to no host")

func (f *Finder) get() (*kaddht.IpfsDHT, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dht == nil {
		return nil, errDetached
	}
	return f.dht, nil
}

// FindClosest returns up to n nodes whose ids are nearest to the key's, nearest
// first, this node included.
func (f *Finder) FindClosest(ctx context.Context, key string, n int) ([]Contact, error) {
	d, err := f.get()
	if err != nil {
		return nil, err
	}
	// Without a cancel the lookup's goroutines stay.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ids, err := d.GetClosestPeers(ctx, key)
	if err != nil && !errors.Is(err, kb.ErrLookupFailure) {
		return nil, fmt.Errorf("cannot find the nodes nearest to %q: %w", key, err)
	}
	ids = kb.SortClosestPeers(append(ids, d.PeerID()), kb.ConvertKey(key))
	out := make([]Contact, 0, min(n, len(ids)))
	for _, id := range ids[:min(n, len(ids))] {
		out = append(out, contact(d, id))
	}
	return out, nil
}

func contact(d *kaddht.IpfsDHT, id peer.ID) Contact {
	c := Contact{ID: id.String()}
	addrs := d.Host().Peerstore().Addrs(id)
	if id == d.PeerID() {
		addrs = d.Host().Addrs()
	}
	for _, a := range addrs {
		if t, err := manet.ToNetAddr(a); err == nil {
			c.Addrs = append(c.Addrs, t.String())
		}
	}
	return c
}

// Refresh fills the routing table by lookups of random ids, for a node that
// has joined without a member list.
func (f *Finder) Refresh(ctx context.Context) error {
	d, err := f.get()
	if err != nil {
		return err
	}
	select {
	case err := <-d.ForceRefresh():
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Size is the number of nodes in the routing table.
func (f *Finder) Size() int {
	d, err := f.get()
	if err != nil {
		return 0
	}
	return d.RoutingTable().Size()
}

// Follow keeps the routing table in step with the member list: kademlia itself
// goes on to ask the dead. It is called with every event of the host's mesh.
func (f *Finder) Follow(h *overlay.Host, e dht.MemberEvent) {
	if e.Kind == dht.MemberDead || e.Kind == dht.MemberLeft {
		f.Remove(h, e.Member.Name)
	}
}

// Remove takes a node out of the routing table.
func (f *Finder) Remove(h *overlay.Host, node filch.NodeName) {
	d, err := f.get()
	if err != nil {
		return
	}
	if id, err := h.PeerID(node); err == nil {
		d.RoutingTable().RemovePeer(id)
	}
}

// Close ends the background work; it is for overlay.Config.Detach.
func (f *Finder) Close() error {
	f.mu.Lock()
	d := f.dht
	f.dht = nil
	f.mu.Unlock()
	if d == nil {
		return nil
	}
	return d.Close()
}
