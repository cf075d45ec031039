// Package kad finds nodes by Kademlia: the id space, and lookups that need no
// list of all members.
//
// A [Finder] is attached to an overlay.Host before the host listens. Every node
// admitted by the host enters the routing table; a lookup asks the nearest known
// nodes for nearer nodes until there are none. While the member list holds all
// nodes, the list is the better answer, being complete and free; package kad is for
// instances with too many nodes for the list (filch.MaxNodes).
//
// Values and providers of go-libp2p-kad-dht are switched off: the library loses
// updates, waits for hung nodes for 20 s, and takes 49 messages for a write.
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
	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/dht/overlay"
)

// The shape of lookups. Few concurrent requests and a resiliency of one answer keep
// a lookup at some ten messages, and the number of opened connections low.
const (
	bucketSize   = 20
	concurrency  = 3
	resiliency   = 1
	queryTimeout = 5 * time.Second
)

// Protocol is the prefix of the protocol's name on the wire.
const Protocol = "/filch"

// Contact is a node found by a lookup. Dialing an address of the node yields the
// node's name.
type Contact struct {
	ID    string // determines the node's place in the id space
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
		// The default mode asks whether the node is public; in a private network no
		// node answers this question.
		kaddht.Mode(kaddht.ModeServer),
		kaddht.ProtocolPrefix(Protocol),
		kaddht.BucketSize(bucketSize), kaddht.Concurrency(concurrency), kaddht.Resiliency(resiliency),
		kaddht.DisableValues(), kaddht.DisableProviders(),
		kaddht.RoutingTableFilter(func(_ any, id peer.ID) bool { return h.Admitted(id) }),
		// A refresh dials every node named in an answer.
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

// FindClosest returns up to n nodes with the ids nearest to the key's, nearest
// first, including this node.
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

// Refresh fills the routing table by lookups of random ids, for a node joined
// without a member list.
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
// keeps asking dead nodes. Follow is called with every event of the host's mesh.
func (f *Finder) Follow(h *overlay.Host, e members.Event) {
	if e.Kind == members.EventDead || e.Kind == members.EventLeft {
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

// Close ends the background work; Close is for overlay.Config.Detach.
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
