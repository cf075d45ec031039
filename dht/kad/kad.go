// Package kad finds nodes by Kademlia: the id space, and lookups that need no
// list of all members.
//
// A [Finder] is attached to an overlay.Host before the host listens. Every node
// admitted by the host enters the routing table. A lookup asks the nearest known
// nodes for nearer nodes until there are none. Where the member list has a node, the
// list is the better answer, being free. Lookups serve a node whose list is not
// whole: a node that joins, or a node of an instance larger than the list.
//
// go-libp2p-kad-dht keeps the routing table and answers the lookups of other nodes.
// The lookups of this node are package kad's own: they tell their path, and stop as
// soon as the nearest nodes have answered. Values and providers of go-libp2p-kad-dht
// are switched off: the library loses updates, waits for hung nodes for 20 s, and
// takes 49 messages for a write.
package kad

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// The limits of the routing table and of lookups. Few concurrent questions and few
// nodes that must answer keep a lookup at some ten messages, and the number of opened
// connections low.
const (
	bucketSize   = 20                    // k: nodes in a bucket, and in an answer
	alpha        = 3                     // nodes asked at the same time
	nearest      = 3                     // nodes that must have answered: the nearest
	near         = 8                     // as nearest, for a lookup of this node's own id
	maxAsked     = 64                    // nodes asked in one lookup
	maxOpen      = 4 * alpha             // nodes asked at the same time, with slow ones
	maxBad       = 3                     // nodes named in vain that make a node doubtful
	maxLookups   = 8                     // lookups at the same time: a node opens at most as many streams to another
	maxSpares    = 2 * bucketSize        // nodes named by the answer to Prime
	lookupWait   = 5 * time.Second       // for a whole lookup
	askWait      = 2 * time.Second       // for one node, with the dial
	askTries     = 3                     // questions to one node within askWait
	askPause     = 20 * time.Millisecond // before the second question, then fourfold
	slowTick     = 150 * time.Millisecond
	slowTicks    = 2               // after which a node is slow, and the next is asked, too
	refreshLimit = 5 * time.Second // of the library, for a query of its own
)

// prefix begins the name of the protocol on the wire.
const prefix = "/filch"

// Finder looks nodes up. Finder implements overlay.Finder. At most maxLookups lookups
// run at a time; the others wait.
type Finder struct {
	mu     sync.Mutex
	host   *overlay.Host
	dht    *kaddht.IpfsDHT
	turns  chan struct{}   // of capacity maxLookups
	spares []peer.AddrInfo // see Prime
	joined bool            // the list has come: spares are of no use
}

// Attach is for overlay.Config.Attach.
func (f *Finder) Attach(h *overlay.Host) error {
	d, err := kaddht.New(h.Libp2p(),
		// The default mode asks whether the node is public; in a private network no
		// node answers this question.
		kaddht.Mode(kaddht.ModeServer),
		kaddht.ProtocolPrefix(prefix),
		kaddht.BucketSize(bucketSize), kaddht.Concurrency(alpha),
		kaddht.DisableValues(), kaddht.DisableProviders(),
		kaddht.RoutingTableFilter(func(_ any, id peer.ID) bool { return h.Admitted(id) }),
		// A refresh dials every node named in an answer.
		kaddht.DisableAutoRefresh(),
		kaddht.RoutingTableRefreshQueryTimeout(refreshLimit),
	)
	if err != nil {
		return fmt.Errorf("cannot attach kademlia: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.host, f.dht, f.turns = h, d, make(chan struct{}, maxLookups)
	return nil
}

var (
	errDetached = errors.New("kademlia is attached to no host")
	errAlone    = errors.New("this node is connected to no other node")
)

func (f *Finder) get() (*overlay.Host, *kaddht.IpfsDHT, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dht == nil {
		return nil, nil, errDetached
	}
	return f.host, f.dht, nil
}

// FindNode implements overlay.Finder.
func (f *Finder) FindNode(ctx context.Context, name filch.NodeName) (overlay.Lookup, error) {
	h, _, err := f.get()
	if err != nil {
		return overlay.Lookup{}, err
	}
	id, err := h.PeerID(name)
	if err != nil {
		return overlay.Lookup{}, err
	}
	r, err := f.find(ctx, string(id), func(l *lookup) { l.sought, l.width = id, bucketSize })
	switch found := len(r.Nearest) > 0 && r.Nearest[0].Node == name; {
	case err == nil && !found:
		err = fmt.Errorf("cannot find node %s: none of %d nodes asked leads to the node", name, r.Asked)
	case err != nil && !errors.Is(err, errAlone):
		err = fmt.Errorf("cannot find node %s: %w", name, err)
	}
	return r, err
}

// FindKey implements overlay.Finder.
func (f *Finder) FindKey(ctx context.Context, key string) (overlay.Lookup, error) {
	return f.find(ctx, key, func(*lookup) {})
}

// FindNear implements overlay.Finder.
func (f *Finder) FindNear(ctx context.Context) (overlay.Lookup, error) {
	_, d, err := f.get()
	if err != nil {
		return overlay.Lookup{}, err
	}
	// The nodes near to this node know this node then, for the lookups of others.
	return f.find(ctx, string(d.PeerID()), func(l *lookup) { l.width = near })
}

// find makes a lookup in its turn.
func (f *Finder) find(ctx context.Context, key string, set func(*lookup)) (overlay.Lookup, error) {
	h, d, err := f.get()
	if err != nil {
		return overlay.Lookup{}, err
	}
	began := time.Now()
	select {
	case f.turns <- struct{}{}:
		defer func() { <-f.turns }()
	case <-ctx.Done():
		took := time.Since(began)
		return overlay.Lookup{Took: took}, fmt.Errorf("no lookup began within %v, as %d others run", took.Round(time.Millisecond), maxLookups)
	}
	l := f.begin(h, d, key)
	set(l)
	return l.run(ctx)
}

// Prime implements overlay.Finder.
func (f *Finder) Prime(ctx context.Context, name filch.NodeName) error {
	h, d, err := f.get()
	if err != nil {
		return err
	}
	id, err := h.PeerID(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	named, err := ask(ctx, h, id, string(d.PeerID()))
	if err != nil {
		return fmt.Errorf("cannot ask node %s for the nodes near to this one: %w", name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.joined {
		return nil
	}
	f.spares = append(slices.Clone(named), f.spares...)
	f.spares = f.spares[:min(len(f.spares), maxSpares)]
	return nil
}

// begin makes a lookup that starts at the known nodes nearest to a key.
func (f *Finder) begin(h *overlay.Host, d *kaddht.IpfsDHT, key string) *lookup {
	l := &lookup{host: h, self: d.PeerID(), key: key, target: kb.ConvertKey(key), width: nearest, began: time.Now()}
	for _, id := range d.RoutingTable().NearestPeers(l.target, bucketSize) {
		l.hear("", d.Host().Peerstore().PeerInfo(id))
	}
	f.mu.Lock()
	spares := f.spares
	f.mu.Unlock()
	for _, s := range spares {
		l.hear("", s)
	}
	return l
}

// addresses are the addresses of a node as HOST:PORT.
func addresses(p peer.AddrInfo) []string {
	var out []string
	for _, a := range p.Addrs {
		if t, err := manet.ToNetAddr(a); err == nil {
			out = append(out, t.String())
		}
	}
	return out
}

// Follow keeps the routing table in step with the member list: kademlia itself
// keeps asking dead nodes. Follow is called with every event of the host's mesh.
func (f *Finder) Follow(e members.Event) {
	if e.Kind == members.SelfJoined {
		f.mu.Lock()
		f.joined, f.spares = true, nil
		f.mu.Unlock()
	}
	h, d, err := f.get()
	if err != nil || e.Kind != members.EventDead && e.Kind != members.EventLeft {
		return
	}
	if id, err := h.PeerID(e.Member.Name); err == nil {
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

var _ overlay.Finder = (*Finder)(nil)
