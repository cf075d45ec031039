package pmi

import (
	"encoding/binary"
	"time"

	"github.com/filch-hpc/filch"
)

// Width is the number of children in the tree of fences.
const Width = 16

// tree holds a node's neighbors in the tree of the job's nodes.
type tree struct {
	me, nodes int32
	children  []int32
	links     []link // the parent's first, where there is one; then the children's
}

func newTree(me, nodes int32) tree {
	t := tree{me: me, nodes: nodes}
	if me > 0 {
		t.links = append(t.links, newLink((me-1)/Width))
	}
	for i := int64(1); i <= Width; i++ {
		c := int64(me)*Width + i
		if c >= int64(nodes) {
			break
		}
		t.children = append(t.children, int32(c))
		t.links = append(t.links, newLink(int32(c)))
	}
	return t
}

func (t *tree) root() bool { return t.me == 0 }

// link returns the link to a neighbor, nil for any other node.
func (t *tree) link(node int32) *link {
	for i := range t.links {
		if t.links[i].peer == node {
			return &t.links[i]
		}
	}
	return nil
}

// child is the index of a child, by its link.
func (t *tree) child(l *link) int {
	for i, c := range t.children {
		if c == l.peer {
			return i
		}
	}
	return -1
}

func (t *tree) parent() *link { return &t.links[0] }

// toChildren queues m for every child.
func (t *tree) toChildren(m message) {
	if len(t.children) == 0 {
		return
	}
	payload := m.encode()
	for _, c := range t.children {
		t.link(c).send(m.kind, payload)
	}
}

// toward is the link on the way to a node below this node.
func (t *tree) toward(node int32) *link {
	if node >= t.nodes {
		return nil
	}
	for node > t.me {
		up := (node - 1) / Width
		if up == t.me {
			return t.link(node)
		}
		node = up
	}
	return nil
}

// link carries frames to and from a neighbor in order and exactly once, over a network
// with loss, repetition and reordering: frames are numbered from 1, acknowledgments are
// cumulative and ride on frames of the other direction where there are any, and
// unacknowledged frames are sent again.
type link struct {
	peer int32

	queue []outgoing // the first has the number base
	base  uint32
	sent  int // of queue, on the way
	again time.Duration
	wait  time.Duration // before the next resend

	want  uint32 // the number of the next frame to take
	owed  int    // frames taken and not acknowledged
	ackBy time.Duration

	gone   bool // the neighbor is gone for good
	goneAt time.Duration
}

type outgoing struct {
	kind    kind
	payload []byte
}

func newLink(peer int32) link {
	return link{peer: peer, base: 1, want: 1, wait: resendFirst, again: filch.Never, ackBy: filch.Never}
}

// leave notes that the neighbor is gone: the link sends nothing any more.
func (l *link) leave(now time.Duration) {
	if !l.gone {
		l.gone, l.goneAt = true, now
	}
	l.queue, l.sent, l.owed = nil, 0, 0
	l.again, l.ackBy = filch.Never, filch.Never
}

func (l *link) send(k kind, payload []byte) {
	if l.gone {
		return
	}
	l.queue = append(l.queue, outgoing{k, payload})
}

func (l *link) say(m message) { l.send(m.kind, m.encode()) }

// flush sends the frames that the window allows, and a separate acknowledgment where an
// acknowledgment is due and no frame carries the number.
func (l *link) flush(now time.Duration, out *Out) {
	if now >= l.again {
		l.sent = 0
		l.wait = min(2*l.wait, resendMost)
	}
	said := false
	for l.sent < min(len(l.queue), maxWindow) {
		o := l.queue[l.sent]
		out.Peers = append(out.Peers, PeerFrame{l.peer, l.frame(o.kind, l.base+uint32(l.sent), o.payload)})
		l.sent++
		said = true
	}
	switch {
	case said:
		l.again = now + l.wait
	case l.owed >= maxUnacked || now >= l.ackBy:
		out.Peers = append(out.Peers, PeerFrame{l.peer, l.frame(kindAck, 0, nil)})
	default:
		return
	}
	l.owed, l.ackBy = 0, filch.Never
}

func (l *link) frame(k kind, seq uint32, payload []byte) []byte {
	b := make([]byte, 0, headerBytes+len(payload))
	b = append(b, codecVersion, byte(k))
	b = binary.BigEndian.AppendUint32(b, seq)
	b = binary.BigEndian.AppendUint32(b, l.want-1)
	return append(b, payload...)
}

func (l *link) deadline() time.Duration { return min(l.again, l.ackBy) }

// receive takes a frame. ok is false for an invalid frame. The message is of kindAck when
// there is nothing to act on: an acknowledgment, a repeated frame, or a frame that
// arrived before its predecessors.
func (l *link) receive(now time.Duration, b []byte) (m message, ok bool) {
	if len(b) < headerBytes || b[0] != codecVersion {
		return m, false
	}
	k := kind(b[1])
	seq, ack := binary.BigEndian.Uint32(b[2:]), binary.BigEndian.Uint32(b[6:])
	m, ok = decode(k, b[headerBytes:])
	if !ok || !l.acknowledged(now, ack) {
		return m, false
	}
	if k == kindAck {
		return m, seq == 0
	}
	if seq != l.want {
		l.ackBy = now
		return message{}, seq > 0
	}
	l.want++
	l.owed++
	l.ackBy = min(l.ackBy, now+ackAfter)
	return m, true
}

// acknowledged drops the frames up to number ack, which the neighbor has.
func (l *link) acknowledged(now time.Duration, ack uint32) bool {
	n := int64(ack) - int64(l.base) + 1
	if n <= 0 {
		return true
	}
	if n > int64(l.sent) {
		// Not sent since the last resend began, or never.
		if n > int64(len(l.queue)) {
			return false
		}
		l.sent = int(n)
	}
	clear(l.queue[:n])
	l.queue = l.queue[n:]
	l.base += uint32(n)
	l.sent -= int(n)
	l.wait = resendFirst
	l.again = filch.Never
	if l.sent > 0 {
		l.again = now + l.wait
	}
	if len(l.queue) == 0 {
		l.queue = nil
	}
	return true
}

func (e *Engine) flush(now time.Duration, out *Out) {
	for i := range e.tree.links {
		e.tree.links[i].flush(now, out)
	}
}
