package overlay

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/filch-hpc/filch"
)

// reach returns a connection ready for writing to a peer, and dials if there is
// none. One dial runs per peer; the other callers wait for it.
func (h *Host) reach(p *remote) (*conn, error) {
	for {
		p.mu.Lock()
		if c := p.usable(); c != nil {
			p.mu.Unlock()
			return c, nil
		}
		var wait, fresh <-chan struct{}
		var ctx context.Context
		switch {
		case len(p.conns) > 0:
			wait = p.conns[0].gone // closing; libp2p would hand it out again
			if p.fresh == nil {
				p.fresh = make(chan struct{})
			}
			fresh = p.fresh
		case p.dial != nil:
			wait = p.dial
		default:
			p.dial = make(chan struct{})
			ctx, p.stop = context.WithCancel(h.ctx)
		}
		p.mu.Unlock()
		if wait != nil {
			select {
			case <-wait:
			case <-fresh:
			case <-h.ctx.Done():
				return nil, ErrClosed
			}
			p.mu.Lock()
			err := p.why
			p.mu.Unlock()
			if err != nil {
				return nil, err
			}
			continue
		}
		return h.redial(ctx, p)
	}
}

// maxTries and tryPause say how often a failed dial is repeated.
const (
	maxTries = 4
	tryPause = 50 * time.Millisecond
)

// redial dials a peer for the callers waiting in reach. It goes on while the other
// side is only slow. It gives up if the address refuses connections, if the peer
// refuses the hello, or if the peer is cut.
func (h *Host) redial(ctx context.Context, p *remote) (c *conn, err error) {
	id, err := derivePeer(h.cfg.Secret, p.name)
	for n := 1; err == nil; n++ {
		p.mu.Lock()
		addrs := p.addrs
		p.mu.Unlock()
		select {
		case h.slots <- struct{}{}:
			c, err = h.dial(ctx, id, addrs)
			<-h.slots
		case <-ctx.Done():
			err = ctx.Err()
		}
		var r *Refusal
		if err == nil || n == maxTries || errors.As(err, &r) || errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
		t := time.NewTimer(time.Duration(n) * tryPause)
		select {
		case <-t.C:
			err = nil
		case <-ctx.Done():
			t.Stop()
		}
	}
	p.mu.Lock()
	p.stop()
	close(p.dial)
	p.dial, p.stop, p.why = nil, nil, err
	if err != nil {
		p.failed = time.Now()
	}
	p.mu.Unlock()
	var r *Refusal
	if errors.As(err, &r) {
		h.hooks.Load().Refused(p.name, r)
	}
	return c, err
}

// dial connects to a peer id at one of the addresses and waits until both
// sides have admitted each other.
func (h *Host) dial(ctx context.Context, id peer.ID, addrs []string) (*conn, error) {
	h.count.dials.Add(1)
	c, err := h.tryDial(ctx, id, addrs)
	if err != nil {
		h.count.failed.Add(1)
		return nil, err
	}
	return c, nil
}

func (h *Host) tryDial(ctx context.Context, id peer.ID, addrs []string) (*conn, error) {
	var ms []ma.Multiaddr
	for _, a := range addrs {
		if m, err := parseAddr(a); err == nil {
			ms = append(ms, m)
		}
	}
	if len(ms) == 0 {
		return nil, ErrUnreachable
	}
	ps := h.net.Peerstore()
	ps.ClearAddrs(id)
	ps.AddAddrs(id, ms, peerstore.PermanentAddrTTL)
	// libp2p waits 5 s to 5 min before it repeats a failed dial; the member list
	// decides how often to try.
	h.net.Backoff().Clear(id)
	nc, err := h.net.DialPeer(network.WithDialPeerTimeout(ctx, DialTimeout), id)
	if err != nil {
		return nil, plain(err)
	}
	c := h.t.conn(nc)
	if c == nil {
		return nil, h.t.lateError(id)
	}
	if err := c.wait(ctx, AdmitTimeout); err != nil {
		return nil, err
	}
	return c, nil
}

// plain takes the cause out of libp2p's error of a dial.
func plain(err error) error {
	var d *swarm.DialError
	if errors.As(err, &d) && len(d.DialErrors) > 0 {
		return undialed(printable(d.DialErrors[0].Address), d.DialErrors[0].Cause)
	}
	return err
}

// undialed is the error of a dial. A refusal is returned unchanged.
func undialed(addr string, why error) error {
	var r *Refusal
	if errors.As(why, &r) {
		return r
	}
	return fmt.Errorf("cannot dial %s: %w", addr, why)
}

func (h *Host) Dial(ctx context.Context, addr string) (filch.NodeName, error) {
	id, err := h.identify(ctx, addr, "")
	if err != nil {
		return "", err
	}
	if id == h.net.LocalPeer() {
		if addr == h.addr {
			return h.cfg.Name, nil
		}
		return "", &Refusal{
			Code: NameTaken,
			Text: fmt.Sprintf("the name %s is taken by the node at %s (this one is at %s)", h.cfg.Name, addr, h.addr),
		}
	}
	c, err := h.dial(ctx, id, []string{addr})
	if err != nil {
		return "", err
	}
	return c.hello().Name, nil
}

func (h *Host) Probe(ctx context.Context, node filch.NodeName, addrs []string) error {
	id, err := derivePeer(h.cfg.Secret, node)
	if err != nil {
		return err
	}
	err = ErrUnreachable
	refused := 0
	for _, a := range addrs {
		if _, err = h.identify(ctx, a, id); err == nil {
			return nil
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			refused++
		}
	}
	if refused > 0 && refused == len(addrs) && !h.linked(node) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// linked reports whether a connection to a node is still in the table.
func (h *Host) linked(node filch.NodeName) bool {
	p := h.t.peer(node)
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) > 0
}

// identify learns at the gate which node answers at an address. The swarm would
// hand out an existing connection, and needs an id to dial. With an id given,
// identify fails if another node answers.
func (h *Host) identify(ctx context.Context, addr string, want peer.ID) (peer.ID, error) {
	if _, err := parseAddr(addr); err != nil {
		return "", err
	}
	d := ProbeTimeout
	if want == "" {
		d = DialTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	h.count.dials.Add(1)
	c, id, err := h.knock(ctx, addr, want, probes)
	if err != nil {
		h.count.failed.Add(1)
		return "", undialed(addr, err)
	}
	return id, c.Close()
}
