package overlay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-multistream"

	"github.com/filch-hpc/filch"
)

// Sizes of buffers and writes.
const (
	readBuffer = 4 << 10   // of every incoming stream
	writeChunk = 256 << 10 // each chunk written frees room in the queue
	keepBuffer = 32 << 10  // a larger queue buffer is not kept when idle
)

func (h *Host) Send(to filch.NodeName, c Class, payload []byte) error {
	_, err := h.send(to, c, payload)
	return err
}

func (h *Host) SendWait(ctx context.Context, to filch.NodeName, c Class, payload []byte) error {
	for {
		room, err := h.send(to, c, payload)
		if !errors.Is(err, ErrFull) {
			return err
		}
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		case <-h.ctx.Done():
			return ErrClosed
		}
	}
}

func (h *Host) send(to filch.NodeName, c Class, payload []byte) (<-chan struct{}, error) {
	if c >= NumClasses {
		return nil, fmt.Errorf("cannot send to %s: unknown class %d", to, c)
	}
	if len(payload) > ClassLimits[c].Frame {
		return nil, ErrTooLarge
	}
	p := h.t.peer(to)
	if p == nil && to == h.cfg.Name {
		p = h.t.entry(to)
	}
	if h.ctx.Err() != nil {
		return nil, ErrClosed
	}
	if p == nil {
		return nil, ErrUnreachable
	}
	room, start, err := h.enqueue(p, c, payload)
	if err == nil && start && !h.spawn(func() { h.pump(p, c) }) {
		return nil, ErrClosed
	}
	return room, err
}

// enqueue adds a frame to a queue and reports whether to start a pump.
func (h *Host) enqueue(p *remote, c Class, payload []byte) (room <-chan struct{}, start bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.conns) == 0 && p.name != h.cfg.Name {
		if len(p.addrs) == 0 || p.dialing.rests() {
			return nil, false, ErrUnreachable
		}
	}
	q := &p.out[c]
	n := len(payload) + 4
	if q.bytes > 0 && q.bytes+n > ClassLimits[c].Queue {
		q.full = true
		h.count.class[c].full.Add(1)
		if q.room == nil {
			q.room = make(chan struct{})
		}
		return q.room, false, ErrFull
	}
	q.pend = appendBlock(q.pend, payload)
	q.frames++
	q.bytes += n
	h.count.class[c].framesOut.Add(1)
	h.count.class[c].bytesOut.Add(uint64(len(payload)))
	start, q.busy = !q.busy, true
	return nil, start, nil
}

// pump writes the frames waiting for a peer in one class and returns when none is
// left. Frames arriving during a write go out together in the next write.
func (h *Host) pump(p *remote, c Class) {
	q := &p.out[c]
	var work []byte
	for {
		p.mu.Lock()
		if len(q.pend) == 0 || h.ctx.Err() != nil {
			q.busy = false
			switch {
			case cap(q.pend) > keepBuffer:
				q.pend = nil
			case cap(q.pend) == 0 && cap(work) <= keepBuffer:
				q.pend = work[:0]
			}
			s, k := q.takeStale()
			p.mu.Unlock()
			h.end(p, s, k)
			break
		}
		work, q.pend = q.pend, work[:0]
		q.frames = 0
		epoch := p.epoch
		p.mu.Unlock()
		p.sent.Store(h.t.now())
		if p.name == h.cfg.Name {
			h.loop(p, c, work)
			continue
		}
		h.flush(p, c, work, epoch)
	}
	h.trim()
}

// flush writes one batch. Frames swallowed by a broken connection are lost.
func (h *Host) flush(p *remote, c Class, work []byte, epoch uint64) {
	off := 0
	for fresh := false; off < len(work); {
		s, isNew, err := h.stream(p, c, off == 0, epoch)
		if err != nil {
			h.lose(p, c, len(work)-off, countFrames(work, off), err)
			return
		}
		fresh = fresh || isNew
		n := min(writeChunk, len(work)-off)
		if m, err := s.Write(work[off : off+n]); err != nil {
			h.drop(p, c, s)
			if off == 0 && m == 0 && !fresh {
				continue // the stream had died before: no byte of the batch went out
			}
			h.lose(p, c, len(work)-off, countFrames(work, off+m), nil)
			return
		}
		off += n
		h.progress(p, c, n)
	}
}

// countFrames counts the frames with their end after off.
func countFrames(work []byte, off int) int {
	n := 0
	for at := 0; at < len(work); {
		at += 4 + int(binary.BigEndian.Uint32(work[at:]))
		if at > off {
			n++
		}
	}
	return n
}

// progress makes room for n bytes written or lost.
func (h *Host) progress(p *remote, c Class, n int) {
	p.mu.Lock()
	q := &p.out[c]
	q.bytes -= n
	tell := q.full && q.bytes <= ClassLimits[c].Queue/2
	if tell {
		q.full = false
	}
	q.wake()
	p.mu.Unlock()
	if f := h.tell.Load(); tell && f != nil {
		(*f)(p.name, c)
	}
}

// lose drops the rest of a batch; if no connection could be made, also all frames
// waiting behind the batch.
func (h *Host) lose(p *remote, c Class, bytes, frames int, dial error) {
	h.count.class[c].lost.Add(uint64(frames))
	if dial != nil && !errors.Is(dial, errCut) {
		p.mu.Lock()
		q := &p.out[c]
		h.count.class[c].lost.Add(uint64(q.frames))
		bytes += len(q.pend)
		q.pend, q.frames = nil, 0
		p.mu.Unlock()
	}
	h.progress(p, c, bytes)
}

// dropLocked drops the frames waiting for a peer being cut.
func (h *Host) dropLocked(p *remote) {
	p.epoch++
	for c := range p.out {
		q := &p.out[c]
		h.count.class[c].lost.Add(uint64(q.frames))
		q.bytes -= len(q.pend)
		q.pend, q.frames = nil, 0
		q.base = q.serial
		q.wake()
	}
}

// stream returns the stream of a class, on a connection in use. A batch stays on
// its first stream.
func (h *Host) stream(p *remote, c Class, start bool, epoch uint64) (s network.Stream, fresh bool, err error) {
	q := &p.out[c]
	for {
		var stale network.Stream
		var on *conn
		p.mu.Lock()
		if start {
			stale, on = q.takeStale()
		}
		s = q.stream
		cut := p.epoch != epoch
		p.mu.Unlock()
		h.end(p, stale, on)
		if cut {
			return nil, false, errCut
		}
		if s != nil {
			return s, fresh, nil
		}
		if !start {
			return nil, false, network.ErrReset
		}
		k, err := h.dialer.reach(p)
		if err != nil {
			return nil, false, err
		}
		ctx, cancel := context.WithTimeout(h.ctx, DialTimeout)
		raw, err := k.net.NewStream(ctx)
		cancel()
		p.mu.Lock()
		if k.closing || p.epoch != epoch {
			p.mu.Unlock()
			if err == nil {
				raw.Reset()
			}
			continue
		}
		if err != nil {
			p.mu.Unlock()
			k.net.Close()
			return nil, false, err
		}
		q.serial++
		head := appendSerial(nil, q.serial, q.base)
		q.stream, q.on, fresh = &sender{Stream: raw, lazy: multistream.NewMSSelect(raw, protoClass[c]), head: head}, k, true
		k.outs++
		k.opened++
		p.mu.Unlock()
	}
}

// errCut ends a batch begun before the peer was cut.
var errCut = errors.New("the peer was cut")

// sender is a stream with its protocol and serial sent along with the first bytes.
type sender struct {
	network.Stream
	lazy io.Writer
	head []byte // nil once sent
}

func (s *sender) Write(b []byte) (int, error) {
	if s.head == nil {
		return s.Stream.Write(b)
	}
	head := s.head
	s.head = nil
	n, err := s.lazy.Write(append(head, b...))
	return max(n-serialSize, 0), err
}

// takeStale takes the stream away if its connection is being retired; the remote's
// mutex is held.
func (q *outbox) takeStale() (s network.Stream, k *conn) {
	if q.on == nil || !q.on.closing {
		return nil, nil
	}
	s, k = q.stream, q.on
	q.stream, q.on = nil, nil
	return s, k
}

// end ends a stream taken by takeStale.
func (h *Host) end(p *remote, s network.Stream, k *conn) {
	if s == nil {
		return
	}
	s.CloseWrite()
	p.mu.Lock()
	k.outs--
	k.note()
	p.mu.Unlock()
}

// drop resets a failed stream.
func (h *Host) drop(p *remote, c Class, s network.Stream) {
	s.Reset()
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := &p.out[c]; q.stream == s {
		q.on.outs--
		q.on.note()
		q.stream, q.on = nil, nil
		q.base = q.serial
	}
}

// loop hands frames for this node itself to the handler.
func (h *Host) loop(p *remote, c Class, work []byte) {
	for off := 0; off < len(work); {
		n := int(binary.BigEndian.Uint32(work[off:]))
		f := append([]byte(nil), work[off+4:off+4+n]...)
		off += 4 + n
		h.count.class[c].framesIn.Add(1)
		h.count.class[c].bytesIn.Add(uint64(n))
		if c == Gossip {
			h.hooks.Load().Gossip(p.name, h.hello().Incarnation, f)
		} else if hd := h.handler(); hd != nil {
			hd(p.name, c, f)
		}
		h.progress(p, c, n+4)
	}
}

// handler waits until a handler is set; it returns nil once the host is closed.
func (h *Host) handler() Handler {
	select {
	case <-h.ready:
	case <-h.ctx.Done():
		return nil
	}
	return *h.handle.Load()
}
