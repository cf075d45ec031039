package kad_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/kad"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/overlay/networktest"
)

// quiet is a host that sends no gossip to the nodes for which it is mute. A contact that
// is mute admits a node that joins, and never sends the list.
type quiet struct {
	*overlay.Host
	mute atomic.Pointer[func(to filch.NodeName) bool]
}

func (q *quiet) Send(to filch.NodeName, c overlay.Class, payload []byte) error {
	if mute := q.mute.Load(); c == overlay.Gossip && mute != nil && (*mute)(to) {
		return nil
	}
	return q.Host.Send(to, c, payload)
}

func (q *quiet) hush(to func(filch.NodeName) bool) { q.mute.Store(&to) }

// meshNode is a mesh with lookups, and the frames that reached it.
type meshNode struct {
	*overlay.Mesh
	host   *quiet
	finder *kad.Finder

	mu   sync.Mutex
	from []filch.NodeName
}

func (n *meshNode) heard(from filch.NodeName) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.from, from)
}

func (n *meshNode) knows(name filch.NodeName) bool {
	for _, m := range n.Members() {
		if m.Name == name {
			return true
		}
	}
	return false
}

func newMesh(t *testing.T, i, limit int) *meshNode { return newLife(t, i, limit, 1) }

// newLife starts a node with an incarnation.
func newLife(t *testing.T, i, limit int, incarnation uint64) *meshNode {
	t.Helper()
	h := newNode(t, i)
	n := &meshNode{host: &quiet{Host: h.Host}, finder: h.finder}
	n.Mesh = overlay.NewMesh(n.host, overlay.MeshConfig{
		Incarnation: incarnation, Capacity: []byte("card"), Seed: uint64(i), Finder: h.finder, ListLimit: limit, Events: h.finder.Follow,
	})
	n.SetHandler(func(from filch.NodeName, _ overlay.Class, _ []byte) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.from = append(n.from, from)
	})
	t.Cleanup(func() { n.Close() })
	return n
}

// With lists held at six of 20 nodes, a frame to any node arrives: lookups find the
// nodes that the list lacks. Without the limit, the lists become whole.
func TestFramesReachUnlistedNodes(t *testing.T) {
	const nodes, limit = 20, 6
	var all []*meshNode
	for i := range nodes {
		n := newMesh(t, i, limit)
		if i > 0 {
			if err := n.Join(limited(t), all[(i-1)/2].Addr()); err != nil {
				t.Fatalf("join of %d: %v", i, err)
			}
		}
		all = append(all, n)
	}
	unlisted := 0
	for i, a := range all {
		b := all[(i+7)%nodes]
		if !a.knows(b.Name()) {
			unlisted++
		}
		networktest.Eventually(t, "a frame from "+string(a.Name())+" to "+string(b.Name()), func() bool {
			if err := a.Send(b.Name(), overlay.Control, []byte("x")); err != nil {
				t.Logf("%s to %s: %v", a.Name(), b.Name(), err)
			}
			return b.heard(a.Name())
		})
	}
	if unlisted < nodes/2 {
		t.Errorf("%d of %d receivers were unlisted, want most", unlisted, nodes)
	}
	for _, n := range all {
		if got := len(n.Members()); got > limit {
			t.Errorf("the list of %s has %d nodes, more than %d", n.Name(), got, limit)
		}
		if n.Whole() {
			t.Errorf("the list of %s claims to be whole", n.Name())
		}
	}
	for _, n := range all {
		n.SetListLimit(filch.MaxNodes)
	}
	for _, n := range all {
		networktest.Eventually(t, "the list of "+string(n.Name())+" is whole", func() bool {
			return n.Whole() && len(n.Members()) == nodes
		})
	}
}

// A node joins through a contact that admits it and ends before it sends the list.
func TestJoinOutlivesItsContact(t *testing.T) {
	var all []*meshNode
	for i := range 5 {
		n := newMesh(t, i, 0)
		if i > 0 {
			if err := n.Join(limited(t), all[0].Addr()); err != nil {
				t.Fatalf("join of %d: %v", i, err)
			}
		}
		all = append(all, n)
	}
	contact := all[2]
	// Most nodes are connected to each other by now, so the contact can name some.
	networktest.Eventually(t, "the contact is connected", func() bool { return contact.Stats().Conns >= 3 })
	contact.host.hush(func(filch.NodeName) bool { return true })
	x := newMesh(t, 9, 0)
	joined := make(chan error, 1)
	go func() { joined <- x.Join(limited(t), contact.Addr()) }()
	networktest.Eventually(t, "the contact has admitted the node", func() bool {
		return slices.ContainsFunc(contact.Peers(), func(p overlay.Peer) bool { return p.Name == x.Name() })
	})
	networktest.Eventually(t, "the contact has named nodes", func() bool { return x.finder.Spares() > 1 })
	contact.Close()
	if err := <-joined; err != nil {
		t.Fatalf("the join failed: %v", err)
	}
	if n := x.finder.Spares(); n != 0 {
		t.Errorf("after the join %d nodes named by the contact are kept", n)
	}
	if got := len(x.Members()); got < 5 {
		t.Errorf("after the join the list has %d nodes", got)
	}
}

// A listed node has begun a new life at another address, and no news of the new life
// came. A lookup leads to the node.
func TestFramesReachANodeThatMoved(t *testing.T) {
	var all []*meshNode
	for i := range 3 {
		n := newMesh(t, i, 0)
		if i > 0 {
			if err := n.Join(limited(t), all[0].Addr()); err != nil {
				t.Fatalf("join of %d: %v", i, err)
			}
		}
		all = append(all, n)
	}
	a, b, c := all[0], all[1], all[2]
	networktest.Eventually(t, "all know each other", func() bool {
		return len(a.Members()) == 3 && len(b.Members()) == 3 && len(c.Members()) == 3
	})
	toA := func(to filch.NodeName) bool { return to == a.Name() }
	c.host.hush(toA)
	b.Close()
	again := newLife(t, 1, 0, 2)
	again.host.hush(toA)
	if err := again.Join(limited(t), c.Addr()); err != nil {
		t.Fatal(err)
	}
	networktest.Eventually(t, "a frame to the new address", func() bool {
		if err := a.Send(b.Name(), overlay.Control, []byte("x")); err != nil {
			t.Log(err)
		}
		return again.heard(a.Name())
	})
}

var _ overlay.Finder = (*kad.Finder)(nil)
