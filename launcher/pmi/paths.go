package pmi

import (
	"time"

	"github.com/filch-hpc/filch"
)

// Paths carries parcels between any two keepers of a job, along the tree of the job's
// nodes: in order, each exactly once and up to a length of maxParcel, over relays that
// may lose, repeat and reorder frames. The wire-up of PMIx uses Paths between its engines
// on the nodes.
//
// A parcel to a node behind a departed node is lost: [Paths.Send] or [Paths.Receive]
// reports the loss where known.
type Paths struct {
	tree  tree
	nodes int32
	begun map[int32][]byte // by sender: an incomplete parcel
}

// Parcel is a message from the keeper of a node to the keeper of another.
type Parcel struct {
	From, To int32
	Body     []byte
}

// maxParcel bounds a parcel: the bytes that a job may put, see maxKVS.
const maxParcel = maxKVS + maxChunk

// NewPaths makes the paths of a node.
func NewPaths(node, nodes int32) *Paths {
	nodes = max(nodes, 1)
	return &Paths{tree: newTree(node, nodes), nodes: nodes, begun: map[int32][]byte{}}
}

// Neighbors returns the nodes with a link to this node.
func (p *Paths) Neighbors() []int32 {
	all := make([]int32, len(p.tree.links))
	for i := range p.tree.links {
		all[i] = p.tree.links[i].peer
	}
	return all
}

// Send puts a parcel on its way; Flush makes the frames. The result is false without a
// way to the node.
func (p *Paths) Send(to int32, body []byte) bool {
	return p.pass(message{kind: kindParcel, from: p.tree.me, to: to, data: body, last: true})
}

// Reaches reports whether there is a way to a node, as far as this node knows.
func (p *Paths) Reaches(node int32) bool {
	l := p.toward(node)
	return l != nil && !l.gone
}

// pass sends m toward the receiving node, cut into pieces of a frame's size.
func (p *Paths) pass(m message) bool {
	if !p.Reaches(m.to) {
		return false
	}
	l := p.toward(m.to)
	rest := m.data
	for {
		piece := m
		piece.data = rest[:min(len(rest), maxChunk)]
		rest = rest[len(piece.data):]
		piece.last = m.last && len(rest) == 0
		l.say(piece)
		if len(rest) == 0 {
			return true
		}
	}
}

// toward is the link on the way to any other node.
func (p *Paths) toward(node int32) *link {
	if node < 0 || node >= p.nodes || node == p.tree.me {
		return nil
	}
	if l := p.tree.toward(node); l != nil {
		return l
	}
	if p.tree.root() {
		return nil
	}
	return p.tree.parent()
}

// Receive takes a frame from the keeper of node from; an empty frame means that the
// keeper is gone. Receive returns the parcels for this node.
func (p *Paths) Receive(now time.Duration, from int32, frame []byte, out *Out) []Parcel {
	l := p.tree.link(from)
	if l == nil {
		out.Notes = append(out.Notes, "dropped a frame from a node that is not a neighbor in the tree")
		return nil
	}
	if len(frame) == 0 {
		l.leave(now)
		return nil
	}
	m, ok := l.receive(now, frame)
	switch {
	case !ok || m.kind != kindParcel && m.kind != kindAck:
		out.Notes = append(out.Notes, "dropped a malformed frame of another keeper")
		return nil
	case m.kind == kindAck:
		return nil
	case m.to != p.tree.me:
		if !p.pass(m) {
			out.Notes = append(out.Notes, "dropped a parcel for a node that is gone")
		}
		return nil
	}
	return p.collect(m, out)
}

// collect joins the pieces of a parcel.
func (p *Paths) collect(m message, out *Out) []Parcel {
	body := append(p.begun[m.from], m.data...)
	switch {
	case len(body) > maxParcel:
		out.Notes = append(out.Notes, "dropped a parcel that is too long")
		body = nil
	case m.last:
		delete(p.begun, m.from)
		return []Parcel{{From: m.from, To: m.to, Body: body}}
	}
	p.begun[m.from] = body
	return nil
}

// Flush makes the frames that the windows allow now.
func (p *Paths) Flush(now time.Duration, out *Out) {
	for i := range p.tree.links {
		p.tree.links[i].flush(now, out)
	}
}

// Deadline is the time of the next Flush.
func (p *Paths) Deadline() time.Duration {
	d := filch.Never
	for i := range p.tree.links {
		d = min(d, p.tree.links[i].deadline())
	}
	return d
}
