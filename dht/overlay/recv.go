package overlay

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// A class stream begins with two serials: its own among the sender's streams of the
// class to this peer, and the serial of the last broken stream, for which the
// receiver must not wait. With both serials the receiver reads the frames of
// streams on several connections, which come up and go in any order, in the order
// of sending.
const serialSize = 8

func appendSerial(b []byte, serial, base uint32) []byte {
	b = binary.BigEndian.AppendUint32(b, serial)
	return binary.BigEndian.AppendUint32(b, base)
}

// inbox orders the streams of one class from one peer.
type inbox struct {
	incarnation uint64 // of the sender
	last        uint32 // serial of the last stream read to its end
	now         uint32 // serial of the stream being read
	stream      network.Stream
	changed     chan struct{} // closed on any change; nil when no stream waits
}

func (in *inbox) wake() {
	if in.changed != nil {
		close(in.changed)
		in.changed = nil
	}
}

// Waits of a stream for earlier streams.
const (
	// gapWait is for a stream not yet arrived; its connection may have broken
	// before the first bytes.
	gapWait = 2 * time.Second
	// turnWait is for a stream being read: longer than the retirement of a
	// connection takes. A sender ends a stream before it begins the next, so the
	// old stream is stuck on a connection broken unnoticed.
	turnWait = byeTimeout + time.Second
)

// serveClass reads the frames of one class from one peer.
func (h *Host) serveClass(s network.Stream, c Class) {
	k := h.t.conn(s.Conn())
	if k == nil {
		s.Reset()
		return
	}
	who := k.hello()
	p := h.t.entry(who.Name)
	if p == nil {
		s.Reset()
		return
	}
	var head [serialSize]byte
	s.SetReadDeadline(time.Now().Add(AdmitTimeout))
	_, err := io.ReadFull(s, head[:])
	s.SetReadDeadline(time.Time{})
	serial, base := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
	if err == nil && h.takeTurn(p, c, s, who.Incarnation, serial, base) {
		if err := h.readFrames(p, c, s, who); errors.Is(err, errOversized) {
			h.count.hostile.Add(1)
			k.net.Close()
		}
		p.mu.Lock()
		if in := &p.in[c]; in.stream == s {
			in.last, in.now, in.stream = in.now, 0, nil
			in.wake()
		}
		p.mu.Unlock()
	}
	s.Reset()
	p.mu.Lock()
	k.read++
	k.note()
	p.mu.Unlock()
}

// takeTurn waits until the earlier streams have been read; it reports whether this
// stream may be read. A late stream may not.
func (h *Host) takeTurn(p *remote, c Class, s network.Stream, incarnation uint64, serial, base uint32) bool {
	in := &p.in[c]
	gap, turn := time.NewTimer(gapWait), time.NewTimer(turnWait)
	defer gap.Stop()
	defer turn.Stop()
	missing := false // the wait for missing streams is over
	for {
		p.mu.Lock()
		var stuck network.Stream
		if incarnation > in.incarnation {
			stuck = in.stream
			in.incarnation, in.last, in.now, in.stream = incarnation, 0, 0, nil
		}
		late := incarnation < in.incarnation || serial <= in.last || serial <= in.now
		if !late && in.stream == nil && (missing || max(in.last, base)+1 >= serial) {
			in.now, in.stream = serial, s
			p.mu.Unlock()
			reset(stuck)
			return true
		}
		if in.changed == nil {
			in.changed = make(chan struct{})
		}
		changed := in.changed
		p.mu.Unlock()
		reset(stuck)
		if late {
			return false
		}
		select {
		case <-changed:
		case <-gap.C:
			missing = true
		case <-turn.C:
			p.mu.Lock()
			stuck = in.stream
			p.mu.Unlock()
			reset(stuck)
		case <-h.ctx.Done():
			return false
		}
	}
}

func reset(s network.Stream) {
	if s != nil {
		s.Reset()
	}
}

func (h *Host) readFrames(p *remote, c Class, s network.Stream, who Hello) error {
	r := bufio.NewReaderSize(s, readBuffer)
	count := &h.count.class[c]
	for {
		b, err := readBlock(r, ClassLimits[c].Frame)
		if err != nil {
			return err
		}
		p.heard.Store(h.t.now())
		count.framesIn.Add(1)
		count.bytesIn.Add(uint64(len(b)))
		k := h.hooks.Load()
		if c == Gossip {
			k.Gossip(p.name, who.Incarnation, b)
			continue
		}
		hd := h.handler() // once this node has the list of members, which Deliver looks at
		if hd == nil {
			return ErrClosed
		}
		if !k.Deliver(p.name, who.Incarnation) {
			count.lost.Add(1)
			continue
		}
		p.taking.Add(1)
		hd(p.name, c, b)
		p.taking.Add(-1)
	}
}
