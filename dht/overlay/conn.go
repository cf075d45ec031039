package overlay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/filch-hpc/filch"
)

// conn is one libp2p connection. Before a conn is settled, only the hello passes.
type conn struct {
	net     network.Conn
	once    sync.Once
	settled chan struct{} // closed on admission or refusal
	gone    chan struct{} // closed when the connection closes
	who     Hello         // the peer's, when admitted; set before settled is closed
	err     error         // the reason of a refusal; likewise

	// The rest is guarded by the mutex of the remote of the admitted peer.
	closing bool
	outs    int           // this side's open class streams
	opened  int           // this side's class streams ever opened
	read    int           // the peer's class streams read to their end
	told    int           // number of streams ever opened by the peer; -1 not yet known
	asked   bool          // the peer has sent a bye and completes the retirement
	flushed chan struct{} // closed when closing and outs is 0
	drained chan struct{} // closed when read has reached told
}

func newConn(n network.Conn) *conn {
	return &conn{
		net: n, told: -1, settled: make(chan struct{}), gone: make(chan struct{}),
		flushed: make(chan struct{}), drained: make(chan struct{}),
	}
}

// hello is the peer's hello; empty before admission.
func (c *conn) hello() Hello {
	select {
	case <-c.settled:
		return c.who
	default:
		return Hello{}
	}
}

// settle decides, and reports whether this decision was the first; only the first
// counts.
func (c *conn) settle(who Hello, err error) (first bool) {
	c.once.Do(func() {
		c.who, c.err = who, err
		close(c.settled)
		first = true
	})
	return first
}

// wait returns nil once the connection is admitted, or else the reason of the
// refusal.
func (c *conn) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.settled:
		return c.err
	case <-t.C:
		return fmt.Errorf("no answer to the hello within %v", d)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ends returns flushed and drained.
func (p *remote) ends(c *conn) (flushed, drained chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return c.flushed, c.drained
}

// note closes flushed and drained when due; the remote's mutex is held.
func (c *conn) note() {
	if c.closing && c.outs == 0 {
		closeOnce(c.flushed)
	}
	if c.told >= 0 && c.read >= c.told {
		closeOnce(c.drained)
	}
}

func closeOnce(ch chan struct{}) {
	select {
	case <-ch:
	default:
		close(ch)
	}
}

// notifee is the Host as a receiver of connection events from libp2p's network.
type notifee Host

func (n *notifee) Listen(network.Network, ma.Multiaddr)      {}
func (n *notifee) ListenClose(network.Network, ma.Multiaddr) {}

// Connected runs before any stream of the connection is served.
func (n *notifee) Connected(_ network.Network, nc network.Conn) {
	h := (*Host)(n)
	c := newConn(nc)
	h.t.mu.Lock()
	h.t.open[nc] = c
	h.t.mu.Unlock()
	f := func() { h.expect(c) }
	if nc.Stat().Direction == network.DirOutbound {
		f = func() { h.greet(c) }
	} else {
		h.count.accepted.Add(1)
	}
	if !h.spawn(f) {
		nc.Close()
	}
}

func (n *notifee) Disconnected(_ network.Network, nc network.Conn) {
	h := (*Host)(n)
	c := h.t.drop(nc)
	if c == nil {
		return
	}
	closeOnce(c.gone)
	if name := c.hello().Name; name != "" {
		h.detach(c, name)
	}
}

// detach takes a closed connection from its remote.
func (h *Host) detach(c *conn, name filch.NodeName) {
	p := h.t.peer(name)
	if p == nil {
		h.hooks.Load().Closed(name)
		return
	}
	p.mu.Lock()
	if i := slices.Index(p.conns, c); i >= 0 {
		p.conns = slices.Delete(p.conns, i, i+1)
	}
	if !c.closing {
		c.closing = true
		h.t.active.Add(-1)
	}
	for k := range p.out {
		if q := &p.out[k]; q.on == c {
			// The next process of the peer has not read this stream, and must not wait for it.
			q.stream, q.on, q.base = nil, nil, q.serial
		}
	}
	c.outs = 0
	c.note()
	last := len(p.conns) == 0
	p.mu.Unlock()
	if last {
		h.hooks.Load().Closed(name)
	}
}

// adopt admits a connection for the peer named in the hello.
func (h *Host) adopt(c *conn, who Hello) error {
	p := h.t.entry(who.Name)
	if p == nil {
		return ErrClosed
	}
	p.mu.Lock()
	if !c.settle(who, nil) {
		p.mu.Unlock()
		return errors.New("the connection closed before its hello was answered")
	}
	h.t.active.Add(1)
	var old, double []*conn
	for _, o := range p.conns {
		switch {
		case o.hello().Incarnation != who.Incarnation:
			old = append(old, o)
			if !o.closing {
				o.closing = true
				h.t.active.Add(-1)
			}
		case !o.closing:
			double = append(double, o)
		}
	}
	p.conns = append(p.conns, c)
	p.dialing.usable()
	p.dialing.forgive()
	if len(p.addrs) == 0 && c.net.Stat().Direction == network.DirOutbound {
		p.addrs = []string{printable(c.net.RemoteMultiaddr())}
	}
	p.mu.Unlock()
	p.heard.Store(h.t.now())
	for _, o := range old {
		h.spawn(func() { o.net.Close() })
	}
	h.single(p, c, double)
	h.trim()
	// The peer's protocols may have been known before.
	return h.known.Emit(event.EvtPeerProtocolsUpdated{Peer: c.net.RemotePeer()})
}

// single ends all but one of several connections to a peer. Two nodes make such
// connections by dialing each other at once. The node with the lesser name ends
// them and keeps a connection dialed by itself, so both sides agree.
func (h *Host) single(p *remote, c *conn, double []*conn) {
	if len(double) == 0 || h.cfg.Name > p.name {
		return
	}
	all := append(double, c)
	keep := slices.IndexFunc(all, func(o *conn) bool { return o.net.Stat().Direction == network.DirOutbound })
	for i, o := range all {
		if i != max(keep, 0) {
			h.leave(p, o)
		}
	}
}

func (h *Host) Peers() []Peer {
	var out []Peer
	for _, p := range h.t.all() {
		p.mu.Lock()
		if c := p.usable(); c != nil {
			q := 0
			for k := range p.out {
				q += p.out[k].bytes
			}
			out = append(out, Peer{Name: p.name, Addr: printable(c.net.RemoteMultiaddr()), Queued: q, Protected: len(p.tags) > 0})
		}
		p.mu.Unlock()
	}
	for i := range out {
		out[i].Heard = h.Heard(out[i].Name)
	}
	slices.SortFunc(out, func(a, b Peer) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return out
}

func (h *Host) Cut(node filch.NodeName) {
	if p := h.t.peer(node); p != nil {
		h.cut(p)
	}
}

// cut drops the frames waiting for a peer and closes the connections. A close may
// wait for a peer not reading, so each close runs on its own goroutine; a new
// connection is made when the old ones have closed.
func (h *Host) cut(p *remote) {
	p.mu.Lock()
	h.dropLocked(p)
	p.dialing.abort()
	conns := slices.Clone(p.conns)
	for _, c := range conns {
		if !c.closing {
			c.closing = true
			h.t.active.Add(-1)
		}
	}
	p.mu.Unlock()
	for _, c := range conns {
		h.spawn(func() { c.net.Close() })
	}
}

// SetIncarnation cuts the open connections, so every peer receives a new hello.
// Frames in the queues are dropped before the change, since they belong to the old
// incarnation; connections made meanwhile are cut after the change.
func (h *Host) SetIncarnation(i uint64) {
	for _, p := range h.t.all() {
		h.cut(p)
	}
	h.t.mu.Lock()
	h.t.incarnation = i
	h.t.mu.Unlock()
	for _, p := range h.t.all() {
		h.cut(p)
	}
}
