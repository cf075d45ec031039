package mem

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
)

// DialTimeout bounds a dial of a cut-off or stalled node.
const DialTimeout = 1500 * time.Millisecond

// Node is one end of a Fabric.
type Node struct {
	fabric *Fabric
	name   filch.NodeName
	addr   string
	ready  chan struct{} // closed when there is a handler
	done   chan struct{}
	wg     sync.WaitGroup

	mu          sync.Mutex
	incarnation uint64
	handler     overlay.Handler
	hooks       overlay.Hooks
	writable    func(filch.NodeName, overlay.Class)
	peers       map[filch.NodeName]*peer
	stats       overlay.Stats
	closed      bool
}

// peer is a node's state for another node; guarded by the node's mutex.
type peer struct {
	addrs       []string
	conn        string // the address at the other end of the connection; "" none
	incarnation uint64 // from the peer's hello
	heard       time.Time
	tags        map[string]bool
	out         [overlay.NumClasses]queue
	epoch       uint64 // grows with every cut, to recognize stale deliveries
}

type queue struct {
	frames [][]byte
	bytes  int
	full   bool // a Send was refused since the last call of writable
	busy   bool // a goroutine is emptying the queue
	room   chan struct{}
}

func newNode(f *Fabric, name filch.NodeName, incarnation uint64, addr string) *Node {
	return &Node{
		fabric: f, name: name, addr: addr, incarnation: incarnation,
		ready: make(chan struct{}), done: make(chan struct{}),
		peers: map[filch.NodeName]*peer{},
		hooks: overlay.OpenHooks(),
	}
}

// Name implements overlay.Network, as do the other methods without a comment.
func (n *Node) Name() filch.NodeName { return n.name }

func (n *Node) Addr() string { return n.addr }

func (n *Node) SetHandler(h overlay.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.handler == nil {
		close(n.ready)
	}
	n.handler = h
}

func (n *Node) SetWritable(f func(filch.NodeName, overlay.Class)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.writable = f
}

func (n *Node) SetHooks(h overlay.Hooks) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hooks = h
}

func (n *Node) SetIncarnation(i uint64) {
	n.cutAll() // queued frames belong to the old incarnation
	n.mu.Lock()
	n.incarnation = i
	n.mu.Unlock()
	n.cutAll()
}

func (n *Node) cutAll() {
	n.mu.Lock()
	names := make([]filch.NodeName, 0, len(n.peers))
	for name := range n.peers {
		names = append(names, name)
	}
	n.mu.Unlock()
	for _, name := range names {
		n.Cut(name)
	}
}

// peerLocked returns the entry of a peer, making a missing entry.
func (n *Node) peerLocked(name filch.NodeName) *peer {
	p := n.peers[name]
	if p == nil {
		p = &peer{tags: map[string]bool{}}
		n.peers[name] = p
	}
	return p
}

func (n *Node) Learn(node filch.NodeName, addrs []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.peerLocked(node).addrs = slices.Clone(addrs)
}

func (n *Node) Forget(node filch.NodeName) {
	n.Cut(node)
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.peers[node]; p != nil && len(p.tags) == 0 {
		delete(n.peers, node)
	}
}

func (n *Node) Protect(node filch.NodeName, tag string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.peerLocked(node).tags[tag] = true
}

func (n *Node) Unprotect(node filch.NodeName, tag string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.peers[node]; p != nil {
		delete(p.tags, tag)
	}
}

// Pin does nothing: connections in memory are not bounded.
func (n *Node) Pin([]filch.NodeName) {}

func (n *Node) Heard(node filch.NodeName) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.peers[node]; p != nil {
		return p.heard
	}
	return time.Time{}
}

func (n *Node) Peers() []overlay.Peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []overlay.Peer
	for name, p := range n.peers {
		if p.conn == "" {
			continue
		}
		q := 0
		for c := range p.out {
			q += p.out[c].bytes
		}
		out = append(out, overlay.Peer{Name: name, Addr: p.conn, Heard: p.heard, Queued: q, Protected: len(p.tags) > 0})
	}
	slices.SortFunc(out, func(a, b overlay.Peer) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return out
}

func (n *Node) Stats() overlay.Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.stats
	for _, p := range n.peers {
		if p.conn != "" {
			s.Conns++
		}
	}
	return s
}

func (n *Node) Cut(node filch.NodeName) {
	n.mu.Lock()
	p := n.peers[node]
	if p == nil {
		n.mu.Unlock()
		return
	}
	other := p.conn
	n.dropLocked(p)
	n.mu.Unlock()
	if other == "" {
		return
	}
	n.hooks.Closed(node)
	if o, _, _, _ := n.fabric.route(n.addr, other); o != nil && o != n {
		o.lost(n.name, n.addr)
	}
}

// lost is called by the other end when the connection is gone.
func (n *Node) lost(name filch.NodeName, addr string) {
	n.mu.Lock()
	p := n.peers[name]
	was := p != nil && p.conn == addr
	if was {
		n.dropLocked(p)
	}
	n.mu.Unlock()
	if was {
		n.hooks.Closed(name)
	}
}

// dropLocked forgets the connection and drops all frames waiting for the peer.
func (n *Node) dropLocked(p *peer) {
	p.conn = ""
	p.epoch++
	for c := range p.out {
		q := &p.out[c]
		n.stats.Class[c].Lost += uint64(len(q.frames))
		q.frames, q.bytes = nil, 0
		q.wake()
	}
}

func (q *queue) wake() {
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
}

func (n *Node) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	n.mu.Unlock()
	n.fabric.remove(n.addr)
	n.cutAll()
	close(n.done)
	n.wg.Wait()
	return nil
}

// String names the node in failing tests.
func (n *Node) String() string { return fmt.Sprintf("%s at %s", n.name, n.addr) }
