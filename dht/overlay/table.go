package overlay

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/filch-hpc/filch"
)

// table holds a Host's peers and the connections to them.
type table struct {
	start  time.Time
	active atomic.Int64 // admitted connections, not closing

	mu          sync.RWMutex
	incarnation uint64
	peers       map[filch.NodeName]*remote
	open        map[network.Conn]*conn
	late        map[peer.ID]error // the reason of the last refusal of a peer's connection
	serial      uint32            // above any stream's to a forgotten node, see Forget
	closed      bool
}

func (t *table) init(incarnation uint64) {
	t.start, t.incarnation = time.Now(), incarnation
	t.peers, t.open, t.late = map[filch.NodeName]*remote{}, map[network.Conn]*conn{}, map[peer.ID]error{}
}

// maxLate bounds the refusals not yet asked for.
const maxLate = 256

// drop forgets a closed connection, and returns it.
func (t *table) drop(n network.Conn) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.open[n]
	delete(t.open, n)
	if c == nil {
		return nil
	}
	c.settle(Hello{}, errors.New("the connection closed before its hello was answered"))
	if c.err != nil {
		if len(t.late) >= maxLate {
			clear(t.late)
		}
		t.late[n.RemotePeer()] = c.err
	}
	return c
}

// lateError returns the reason why an already closed connection was refused.
func (t *table) lateError(id peer.ID) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.late[id]; err != nil {
		delete(t.late, id)
		return err
	}
	return errRefused
}

// now is monotonic since the start, in nanoseconds and never 0.
func (t *table) now() int64 { return int64(time.Since(t.start)) + 1 }

func (t *table) conns() int { return int(t.active.Load()) }

func (t *table) conn(n network.Conn) *conn {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.open[n]
}

// admitted returns the first of several connections that has been admitted; nil if
// there is none.
func (t *table) admitted(all []network.Conn) *conn {
	for _, n := range all {
		if c := t.conn(n); c != nil && c.hello().Name != "" {
			return c
		}
	}
	return nil
}

func (t *table) peer(name filch.NodeName) *remote {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.peers[name]
}

// entry is like peer, but makes a missing entry; nil once the host is closed.
func (t *table) entry(name filch.NodeName) *remote {
	if p := t.peer(name); p != nil {
		return p
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	p := t.peers[name]
	if p == nil {
		p = newRemote(name, t.serial)
		t.peers[name] = p
	}
	return p
}

// linked reports whether a connection to a node is still in the table.
func (t *table) linked(node filch.NodeName) bool {
	p := t.peer(node)
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) > 0
}

func (t *table) all() []*remote {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]*remote, 0, len(t.peers))
	for _, p := range t.peers {
		out = append(out, p)
	}
	return out
}

// close reports whether this call closed the table.
func (t *table) close() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.closed
	t.closed = true
	return !was
}

// spawn runs f on a goroutine, and Close waits for it; after Close f does not run.
func (h *Host) spawn(f func()) bool {
	h.t.mu.RLock()
	defer h.t.mu.RUnlock()
	if h.t.closed {
		return false
	}
	h.wg.Go(f)
	return true
}

// remote is a Host's state for one node.
type remote struct {
	name   filch.NodeName
	heard  atomic.Int64 // by table.now; 0 never
	sent   atomic.Int64
	taking atomic.Int32 // frames being handled by the handler

	mu      sync.Mutex
	epoch   uint64 // grows when the queued frames are dropped
	addrs   []string
	tags    map[string]struct{}
	pinned  bool
	conns   []*conn // admitted
	out     [NumClasses]outbox
	in      [NumClasses]inbox
	dialing dialing
}

// newRemote numbers the streams from beyond a serial.
func newRemote(name filch.NodeName, serial uint32) *remote {
	p := &remote{name: name, tags: map[string]struct{}{}}
	for c := range p.out {
		p.out[c].serial, p.out[c].base = serial, serial
	}
	return p
}

// outbox holds the frames of one class waiting for a peer, in their encoded form.
type outbox struct {
	pend   []byte
	frames int           // in pend
	bytes  int           // in pend and in the batch being written
	busy   bool          // a pump runs
	full   bool          // a Send was refused since the last call of writable
	room   chan struct{} // closed when there may be room; nil when no sender waits
	stream network.Stream
	on     *conn  // the stream's
	serial uint32 // of the last stream opened
	base   uint32 // of the last broken stream
}

// wake wakes the senders waiting for room.
func (q *outbox) wake() {
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
}

// usable returns a connection ready for writing frames.
func (p *remote) usable() *conn {
	for _, c := range p.conns {
		if !c.closing {
			return c
		}
	}
	return nil
}

// quiet reports whether no frame waits for the peer.
func (p *remote) quiet() bool {
	for c := range p.out {
		if p.out[c].bytes > 0 || p.out[c].busy {
			return false
		}
	}
	return true
}

func (h *Host) Learn(node filch.NodeName, addrs []string) {
	p := h.t.entry(node)
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Equal(p.addrs, addrs) {
		return
	}
	p.addrs = append(p.addrs[:0:0], addrs...)
	p.dialing.failed = time.Time{}
	p.dialing.abort() // the dial uses the node's old addresses
}

func (h *Host) Forget(node filch.NodeName) {
	h.Cut(node)
	beyond := uint32(0)
	if p := h.t.peer(node); p != nil {
		p.mu.Lock()
		for c := range p.out {
			beyond = max(beyond, p.out[c].serial+1)
		}
		p.mu.Unlock()
	}
	h.t.mu.Lock()
	// The node may come back and remember the serials read from this node: it would
	// take newly numbered streams for old ones.
	h.t.serial = max(h.t.serial, beyond)
	delete(h.t.peers, node)
	h.t.mu.Unlock()
	if id, err := derivePeer(h.cfg.Secret, node); err == nil {
		h.net.Peerstore().ClearAddrs(id)
		h.net.Peerstore().RemovePeer(id)
	}
}

func (h *Host) Protect(node filch.NodeName, tag string) {
	if p := h.t.entry(node); p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.tags[tag] = struct{}{}
	}
}

func (h *Host) Unprotect(node filch.NodeName, tag string) {
	p := h.t.peer(node)
	if p == nil {
		return
	}
	p.mu.Lock()
	delete(p.tags, tag)
	p.mu.Unlock()
	h.trim()
}

func (h *Host) Pin(nodes []filch.NodeName) {
	keep := map[filch.NodeName]bool{}
	for _, n := range nodes {
		keep[n] = true
	}
	for _, p := range h.t.all() {
		p.mu.Lock()
		p.pinned = keep[p.name]
		p.mu.Unlock()
	}
}

func (h *Host) Heard(node filch.NodeName) time.Time {
	if p := h.t.peer(node); p != nil {
		if at := p.heard.Load(); at != 0 {
			return h.t.start.Add(time.Duration(at))
		}
	}
	return time.Time{}
}
