package overlay

import (
	"context"
	"encoding/binary"
	"io"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-multistream"
)

// byeTimeout bounds the wait for a peer to finish with a connection.
const byeTimeout = 30 * time.Second

// stay is a peer's answer to a bye if the peer cannot say how soon it will have
// read everything, since the peer's handler is blocked.
const stay = 1<<32 - 1

// leave ends an unneeded connection without loss. A close throws away frames unread
// by the other side. So both sides end their streams and send the number of streams
// ever opened, and the connection is closed when both have read this many streams
// to their ends.
func (h *Host) leave(p *remote, c *conn) {
	if !h.retire(p, c) {
		return
	}
	h.spawn(func() {
		kept := false
		defer func() {
			if !kept {
				c.net.Close()
			}
		}()
		ctx, cancel := context.WithTimeout(h.ctx, byeTimeout)
		defer cancel()
		flushed, drained := p.ends(c)
		if !waitAll(ctx, c.gone, flushed) {
			return
		}
		s, err := c.net.NewStream(ctx)
		if err != nil {
			return
		}
		defer s.Reset()
		s.SetDeadline(time.Now().Add(byeTimeout))
		lazy := multistream.NewMSSelect(s, protoBye)
		if _, err := lazy.Write(h.opened(p, c)); err != nil {
			return
		}
		n, err := told(lazy)
		if n == stay && err == nil {
			kept = h.restore(p, c)
			return
		}
		if err == nil && h.note(p, c, n) {
			waitAll(ctx, c.gone, drained)
		}
	})
}

// restore takes a connection back into use after the peer refused to give it up. It
// reports false if the connection has closed.
func (h *Host) restore(p *remote, c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-c.gone:
		return false
	default:
	}
	if c.asked {
		return true // the peer now gives up the connection by itself
	}
	c.closing, c.told = false, -1
	c.flushed, c.drained = make(chan struct{}), make(chan struct{})
	h.t.active.Add(1)
	p.dialing.usable()
	p.sent.Store(h.t.now()) // the next trim closes other peers' connections first
	return true
}

// serveBye is the other side of leave. It answers when this side's streams have
// ended and the other side's streams have been read.
func (h *Host) serveBye(s network.Stream) {
	defer s.Close()
	c := h.t.conn(s.Conn())
	if c == nil {
		return
	}
	p := h.t.peer(c.hello().Name)
	if p == nil {
		return
	}
	s.SetDeadline(time.Now().Add(byeTimeout))
	n, err := told(s)
	if err != nil {
		return
	}
	if p.taking.Load() > 0 {
		s.Write(binary.BigEndian.AppendUint32(nil, stay))
		return
	}
	p.mu.Lock()
	c.asked = true
	p.mu.Unlock()
	h.retire(p, c)
	ctx, cancel := context.WithTimeout(h.ctx, byeTimeout)
	defer cancel()
	defer c.net.Close()
	flushed, drained := p.ends(c)
	if !h.note(p, c, n) || !waitAll(ctx, c.gone, flushed, drained) {
		return
	}
	if _, err := s.Write(h.opened(p, c)); err == nil {
		waitAll(ctx, nil, c.gone)
	}
}

// opened is the number of class streams opened by this side on a connection in
// retirement.
func (h *Host) opened(p *remote, c *conn) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return binary.BigEndian.AppendUint32(nil, uint32(c.opened))
}

// told reads the number of streams opened by the other side.
func told(r io.Reader) (uint32, error) {
	var b [4]byte
	_, err := io.ReadFull(r, b[:])
	return binary.BigEndian.Uint32(b[:]), err
}

// note stores the number; it reports false if the connection has closed.
func (h *Host) note(p *remote, c *conn, n uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.told = int(n)
	c.note()
	select {
	case <-c.gone:
		return false
	default:
		return true
	}
}

func waitAll(ctx context.Context, gone <-chan struct{}, all ...<-chan struct{}) bool {
	for _, ch := range all {
		select {
		case <-ch:
		case <-gone:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// retire takes a connection out of use and ends the streams not in use by a pump; a
// pump ends its stream after the current batch.
func (h *Host) retire(p *remote, c *conn) bool {
	p.mu.Lock()
	if c.closing {
		p.mu.Unlock()
		return false
	}
	c.closing = true
	h.t.active.Add(-1)
	var ended []network.Stream
	for k := range p.out {
		if q := &p.out[k]; q.on == c && !q.busy {
			s, _ := q.takeStale()
			ended = append(ended, s)
		}
	}
	c.note()
	p.mu.Unlock()
	for _, s := range ended {
		h.end(p, s, c)
	}
	return true
}

// trim closes idle connections while more than MaxConns are open, not counting
// connections of protected peers.
func (h *Host) trim() {
	if h.t.conns() <= h.cfg.MaxConns {
		return
	}
	for {
		var oldest *remote
		var at int64
		count := 0
		for _, p := range h.t.all() {
			p.mu.Lock()
			n := 0
			for _, c := range p.conns {
				if !c.closing {
					n++
				}
			}
			loose := len(p.tags) == 0
			if loose {
				count += n
			}
			used := max(p.heard.Load(), p.sent.Load())
			if n > 0 && loose && !p.pinned && p.quiet() && p.taking.Load() == 0 && (oldest == nil || used < at) {
				oldest, at = p, used
			}
			p.mu.Unlock()
		}
		if count <= h.cfg.MaxConns || oldest == nil {
			return
		}
		oldest.mu.Lock()
		c := oldest.usable()
		oldest.mu.Unlock()
		if c == nil {
			return
		}
		h.count.evicted.Add(1)
		h.leave(oldest, c)
	}
}
