package overlay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/filch-hpc/filch"
)

// maxDials is how many dials for frames run at a time: each costs CPU on both
// sides, and many at once would all be late.
const maxDials = 8

// dialer makes the connections of a Host.
type dialer struct {
	host          *Host
	slots         chan struct{} // of capacity maxDials
	dials, failed atomic.Uint64
}

func newDialer(h *Host) *dialer { return &dialer{host: h, slots: make(chan struct{}, maxDials)} }

// dialing is the state of the dials of one peer. The mutex of the peer's remote
// guards a dialing.
type dialing struct {
	fresh  chan struct{} // closed when a connection is admitted; nil when none waits
	ended  chan struct{} // closed when the running dial has ended; nil when none runs
	stop   func()        // ends the running dial; nil when none runs
	failed time.Time     // when the last dial failed
	why    error         // the error of the last dial
}

// begin notes that a dial runs, and returns the context of the dial.
func (d *dialing) begin(parent context.Context) (ctx context.Context) {
	d.ended = make(chan struct{})
	ctx, d.stop = context.WithCancel(parent)
	return ctx
}

// end notes the result of the running dial.
func (d *dialing) end(err error) {
	d.stop()
	close(d.ended)
	d.ended, d.stop, d.why = nil, nil, err
	if err != nil {
		d.failed = time.Now()
	}
}

// abort ends the running dial, if any.
func (d *dialing) abort() {
	if d.stop != nil {
		d.stop()
	}
}

// next is closed when a connection is admitted.
func (d *dialing) next() <-chan struct{} {
	if d.fresh == nil {
		d.fresh = make(chan struct{})
	}
	return d.fresh
}

// usable wakes the callers waiting for a connection.
func (d *dialing) usable() {
	if d.fresh != nil {
		close(d.fresh)
		d.fresh = nil
	}
}

// forgive forgets failed dials.
func (d *dialing) forgive() { d.failed, d.why = time.Time{}, nil }

// rests reports whether a dial failed so lately that no other dial begins yet.
func (d *dialing) rests() bool { return !d.failed.IsZero() && time.Since(d.failed) < redialPause }

// reach returns a connection ready for writing to a peer, and dials if there is
// none. One dial runs per peer; the other callers wait for it.
func (d *dialer) reach(p *remote) (*conn, error) {
	h := d.host
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
			fresh = p.dialing.next()
		case p.dialing.ended != nil:
			wait = p.dialing.ended
		default:
			ctx = p.dialing.begin(h.ctx)
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
			err := p.dialing.why
			p.mu.Unlock()
			if err != nil {
				return nil, err
			}
			continue
		}
		return d.redial(ctx, p)
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
func (d *dialer) redial(ctx context.Context, p *remote) (c *conn, err error) {
	h := d.host
	id, err := derivePeer(h.cfg.Secret, p.name)
	for n := 1; err == nil; n++ {
		p.mu.Lock()
		addrs := p.addrs
		p.mu.Unlock()
		select {
		case d.slots <- struct{}{}:
			c, err = d.dial(ctx, id, addrs)
			<-d.slots
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
	p.dialing.end(err)
	p.mu.Unlock()
	var r *Refusal
	if errors.As(err, &r) {
		h.hooks.Load().Refused(p.name, r)
	}
	return c, err
}

// dial connects to a peer id at one of the addresses and waits until both
// sides have admitted each other.
func (d *dialer) dial(ctx context.Context, id peer.ID, addrs []string) (*conn, error) {
	d.dials.Add(1)
	c, err := d.tryDial(ctx, id, addrs)
	if err != nil {
		d.failed.Add(1)
		return nil, err
	}
	return c, nil
}

func (d *dialer) tryDial(ctx context.Context, id peer.ID, addrs []string) (*conn, error) {
	h := d.host
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
	old := ps.Addrs(id)
	ps.ClearAddrs(id)
	ps.AddAddrs(id, ms, peerstore.PermanentAddrTTL)
	// libp2p waits 5 s to 5 min before it repeats a failed dial; the member list
	// decides how often to try.
	h.net.Backoff().Clear(id)
	nc, err := h.net.DialPeer(network.WithDialPeerTimeout(ctx, DialTimeout), id)
	if err != nil {
		// Another node may have given the addresses, and any name: keep nothing.
		ps.ClearAddrs(id)
		ps.AddAddrs(id, old, peerstore.PermanentAddrTTL)
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
	var number syscall.Errno
	if errors.As(why, &number) {
		why = number // without the names of Go's calls
	}
	return fmt.Errorf("cannot dial %s: %w", addr, why)
}

// Dial implements Carrier.
func (d *dialer) Dial(ctx context.Context, addr string) (filch.NodeName, error) {
	h := d.host
	id, err := d.identify(ctx, addr, "")
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
	c, err := d.dial(ctx, id, []string{addr})
	if errors.Is(err, context.DeadlineExceeded) {
		err = undialed(addr, fmt.Errorf("%w: %w", errHung, context.DeadlineExceeded))
	}
	if err != nil {
		return "", err
	}
	return c.hello().Name, nil
}

// The kernel closes the sockets of a process that ends one after the other. A probe that
// meets a listener or a connection of such a process dials again, probeTries times in all,
// after a pause that grows fourfold.
const (
	probeTries = 4
	probePause = 10 * time.Millisecond
)

// Probe implements Carrier.
func (d *dialer) Probe(ctx context.Context, node filch.NodeName, addrs []string) error {
	id, err := derivePeer(d.host.cfg.Secret, node)
	if err != nil {
		return err
	}
	pause := probePause
	for try := 1; ; try++ {
		ending, err := d.probe(ctx, node, id, addrs)
		if !ending || try == probeTries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		pause *= 4
	}
}

// probe dials each address once. Ending reports that the process there may be about to end:
// it closed a connection without a word, or a connection to it is still open here though
// all hosts refuse new ones.
func (d *dialer) probe(ctx context.Context, node filch.NodeName, id peer.ID, addrs []string) (ending bool, err error) {
	err = ErrUnreachable
	refused := 0
	for _, a := range addrs {
		if _, err = d.identify(ctx, a, id); err == nil {
			return false, nil
		}
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			refused++
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
			ending = true
		}
	}
	if refused == 0 || refused < len(addrs) {
		return ending, err
	}
	if d.host.t.linked(node) {
		return true, err
	}
	return false, fmt.Errorf("%w: %w", ErrRefused, err)
}

// identify learns at the gate which node answers at an address. The swarm would
// hand out an existing connection, and needs an id to dial. With an id given,
// identify fails if another node answers.
func (d *dialer) identify(ctx context.Context, addr string, want peer.ID) (peer.ID, error) {
	if _, err := parseAddr(addr); err != nil {
		return "", err
	}
	wait := ProbeTimeout
	if want == "" {
		wait = DialTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	defer context.AfterFunc(d.host.ctx, cancel)()
	d.dials.Add(1)
	c, id, err := d.knock(ctx, addr, want, probes)
	if err != nil {
		d.failed.Add(1)
		return "", undialed(addr, err)
	}
	return id, c.Close()
}

// Reach returns the name of the node with a peer id once a connection is open that
// both sides have admitted. Reach dials if there is none.
func (d *dialer) Reach(ctx context.Context, id peer.ID, addrs []string) (filch.NodeName, error) {
	c := d.host.t.admitted(d.host.net.ConnsToPeer(id))
	if c == nil {
		var err error
		if c, err = d.dial(ctx, id, addrs); err != nil {
			return "", err
		}
	}
	return c.hello().Name, nil
}
