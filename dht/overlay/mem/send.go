package mem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
)

func (n *Node) Send(to filch.NodeName, c overlay.Class, payload []byte) error {
	_, err := n.send(to, c, payload)
	return err
}

func (n *Node) SendWait(ctx context.Context, to filch.NodeName, c overlay.Class, payload []byte) error {
	for {
		room, err := n.send(to, c, payload)
		if !errors.Is(err, overlay.ErrFull) {
			return err
		}
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		case <-n.done:
			return overlay.ErrClosed
		}
	}
}

func (n *Node) send(to filch.NodeName, c overlay.Class, payload []byte) (<-chan struct{}, error) {
	if c >= overlay.NumClasses {
		return nil, fmt.Errorf("cannot send to %s: unknown class %d", to, c)
	}
	lim := overlay.ClassLimits[c]
	if len(payload) > lim.Frame {
		return nil, overlay.ErrTooLarge
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, overlay.ErrClosed
	}
	p := n.peers[to]
	if to == n.name {
		p = n.peerLocked(to)
		p.addrs = []string{n.addr}
	}
	if p == nil || len(p.addrs) == 0 && p.conn == "" {
		return nil, overlay.ErrUnreachable
	}
	q := &p.out[c]
	if q.bytes > 0 && q.bytes+len(payload) > lim.Queue {
		q.full = true
		n.stats.Class[c].Full++
		if q.room == nil {
			q.room = make(chan struct{})
		}
		return q.room, overlay.ErrFull
	}
	q.frames = append(q.frames, slices.Clone(payload))
	q.bytes += len(payload)
	n.stats.Class[c].FramesOut++
	n.stats.Class[c].BytesOut += uint64(len(payload))
	if !q.busy {
		q.busy = true
		n.wg.Go(func() { n.pump(to, p, c) })
	}
	return nil, nil
}

// pump delivers the frames waiting for one peer and class, in order, and returns
// when none is left.
func (n *Node) pump(to filch.NodeName, p *peer, c overlay.Class) {
	for {
		n.mu.Lock()
		q := &p.out[c]
		if len(q.frames) == 0 || n.closed {
			q.busy = false
			n.mu.Unlock()
			return
		}
		frame, epoch := q.frames[0], p.epoch
		n.mu.Unlock()
		err := n.deliver(to, p, c, frame, epoch)
		n.mu.Lock()
		if p.epoch == epoch && len(q.frames) > 0 {
			q.frames = q.frames[1:]
			q.bytes -= len(frame)
			if err != nil {
				n.stats.Class[c].Lost++
			}
		}
		tell := q.full && q.bytes <= overlay.ClassLimits[c].Queue/2
		f := n.writable
		if tell {
			q.full = false
		}
		q.wake()
		n.mu.Unlock()
		if tell && f != nil {
			f(to, c)
		}
	}
}

// deliver passes one frame to the other node's handler and returns after the
// handler.
func (n *Node) deliver(to filch.NodeName, p *peer, c overlay.Class, frame []byte, epoch uint64) error {
	if to == n.name {
		return n.take(n.done, n.name, n.incarnation, c, frame)
	}
	n.mu.Lock()
	conn := p.conn
	addrs := p.addrs
	n.mu.Unlock()
	if conn == "" {
		ctx, cancel := context.WithTimeout(context.Background(), DialTimeout)
		defer cancel()
		var err error
		if conn, err = n.connect(ctx, to, addrs); err != nil {
			var r *overlay.Refusal
			if errors.As(err, &r) {
				n.hooks.Refused(to, r)
			}
			return err
		}
	}
	o, err := n.pass(n.done, conn)
	if err != nil {
		return err
	}
	n.mu.Lock()
	inc, cut := n.incarnation, p.epoch != epoch
	n.mu.Unlock()
	if cut {
		return overlay.ErrUnreachable
	}
	err = o.take(n.done, n.name, inc, c, frame)
	if errors.Is(err, overlay.ErrUnreachable) {
		n.lost(to, conn) // the other end knows of no connection
	}
	return err
}

// pass waits for the delay and while either end is stalled, and returns the
// node at the other end.
func (n *Node) pass(done <-chan struct{}, addr string) (*Node, error) {
	for {
		o, cut, delay, stalled := n.fabric.route(n.addr, addr)
		if stalled != nil {
			select {
			case <-stalled:
				continue
			case <-done:
				return nil, overlay.ErrClosed
			}
		}
		if delay > 0 {
			t := time.NewTimer(delay)
			select {
			case <-t.C:
			case <-done:
				t.Stop()
				return nil, overlay.ErrClosed
			}
			o, cut, _, stalled = n.fabric.route(n.addr, addr)
			if stalled != nil {
				continue
			}
		}
		if o == nil || cut {
			return nil, overlay.ErrUnreachable
		}
		return o, nil
	}
}

// take runs on the sender's goroutine, so a blocking handler holds up the sender's
// queue and nothing else. A node without a handler holds the frame until the sender is closed.
func (n *Node) take(closed <-chan struct{}, from filch.NodeName, incarnation uint64, c overlay.Class, frame []byte) error {
	if c != overlay.Gossip {
		select {
		case <-n.ready:
		case <-closed:
			return overlay.ErrClosed
		case <-n.done:
			return overlay.ErrClosed
		}
	}
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return overlay.ErrClosed
	}
	if from != n.name {
		p := n.peers[from]
		if p == nil || p.conn == "" {
			n.mu.Unlock()
			return overlay.ErrUnreachable
		}
		p.heard = time.Now()
	}
	h, hooks := n.handler, n.hooks
	n.stats.Class[c].FramesIn++
	n.stats.Class[c].BytesIn += uint64(len(frame))
	n.mu.Unlock()
	switch {
	case c == overlay.Gossip:
		hooks.Gossip(from, incarnation, frame)
	case from == n.name || hooks.Deliver(from, incarnation):
		h(from, c, frame)
	}
	return nil
}
