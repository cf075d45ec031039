package mem

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
)

func (n *Node) Dial(ctx context.Context, addr string) (filch.NodeName, error) {
	if addr == n.addr {
		return n.name, nil
	}
	o, err := n.reach(ctx, addr)
	if err != nil {
		return "", err
	}
	if o.name == n.name {
		return "", &overlay.Refusal{
			Code: overlay.NameTaken,
			Text: fmt.Sprintf("the name %s is taken by the node at %s (this one is at %s)", n.name, addr, n.addr),
		}
	}
	_, err = n.connect(ctx, o.name, []string{addr})
	return o.name, err
}

func (n *Node) Probe(ctx context.Context, node filch.NodeName, addrs []string) error {
	var err error = overlay.ErrUnreachable
	refused := 0
	for _, a := range addrs {
		var o *Node
		if o, err = n.reach(ctx, a); err == nil {
			if o.name == node {
				return nil
			}
			err = fmt.Errorf("%s answers at %s, not %s", o.name, a, node)
		}
		if errors.Is(err, overlay.ErrUnreachable) { // no node has the address
			refused++
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.peers[node]; refused > 0 && refused == len(addrs) && (p == nil || p.conn == "") {
		return overlay.ErrRefused
	}
	return err
}

// reach finds the node at an address. If there is no node, reach fails at once; if
// the way is cut or the node stalled, at the end of the context.
func (n *Node) reach(ctx context.Context, addr string) (*Node, error) {
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	n.mu.Lock()
	n.stats.Dials++
	n.mu.Unlock()
	fail := func(err error) (*Node, error) {
		n.mu.Lock()
		n.stats.Failed++
		n.mu.Unlock()
		return nil, fmt.Errorf("cannot dial %s: %w", addr, err)
	}
	o, cut, _, _ := n.fabric.route(n.addr, addr)
	if o == nil {
		return fail(overlay.ErrUnreachable)
	}
	_, back, _, _ := n.fabric.route(addr, n.addr)
	if cut || back {
		select {
		case <-ctx.Done():
			return fail(ctx.Err())
		case <-n.done:
			return fail(overlay.ErrClosed)
		}
	}
	stop := make(chan struct{})
	defer context.AfterFunc(ctx, func() { close(stop) })()
	o, err := n.pass(stop, addr)
	if err != nil {
		return fail(err)
	}
	return o, nil
}

// connect does the work of the hello on a real connection: both ends call their
// Admit, then both know each other.
func (n *Node) connect(ctx context.Context, to filch.NodeName, addrs []string) (string, error) {
	var err error = overlay.ErrUnreachable
	for _, a := range addrs {
		var o *Node
		if o, err = n.reach(ctx, a); err != nil {
			continue
		}
		if o.name != to {
			err = fmt.Errorf("%s answers at %s, not %s", o.name, a, to)
			continue
		}
		if err = n.greet(ctx, o); err == nil {
			return a, nil
		}
	}
	return "", err
}

func (n *Node) hello() overlay.Hello {
	n.mu.Lock()
	card, inc := n.hooks.Card, n.incarnation
	n.mu.Unlock()
	return overlay.Hello{Name: n.name, Incarnation: inc, Card: slices.Clone(card())}
}

func (n *Node) greet(ctx context.Context, o *Node) error {
	mine, theirs := n.hello(), o.hello()
	if r := o.admit(ctx, mine); r != nil {
		return r
	}
	if r := n.admit(ctx, theirs); r != nil {
		return overlay.NotAdmitted(o.name, r)
	}
	if !o.attach(mine, n.addr) {
		return overlay.ErrClosed
	}
	if !n.attach(theirs, o.addr) {
		return overlay.ErrClosed
	}
	return nil
}

func (n *Node) admit(ctx context.Context, h overlay.Hello) *overlay.Refusal {
	n.mu.Lock()
	f := n.hooks.Admit
	n.mu.Unlock()
	r := f(ctx, h)
	if r != nil {
		n.mu.Lock()
		n.stats.Refused++
		n.mu.Unlock()
	}
	return r
}

func (n *Node) attach(h overlay.Hello, addr string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	p := n.peerLocked(h.Name)
	p.conn, p.incarnation = addr, h.Incarnation
	if len(p.addrs) == 0 {
		p.addrs = []string{addr}
	}
	n.stats.Accepted++
	return true
}
