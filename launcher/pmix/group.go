package pmix

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/pmi"
)

// groupKey names a set of ranks alike on all nodes; zero is the whole job.
type groupKey [16]byte

// group holds the fences of a set of ranks. The nodes of the set form a tree of their
// own, in the order of the job: parts come together on the way up, and the whole goes
// down. The n-th fence of a set is the n-th on every node, as all ranks of the set enter
// each fence before the next.
type group struct {
	nodes []int32 // nodes with ranks of the set, ascending
	seq   uint32  // fences entered here so far
	open  map[uint32]*fence
}

// fence is this node's state of a fence.
type fence struct {
	entered bool
	id      uint32 // the helper's
	parts   int    // children whose part is here
	from    map[int32]bool
	data    []byte
}

// keyOf returns the key of a set of ranks and the nodes of the ranks.
func (e *Engine) keyOf(ranks []filch.Rank) (key groupKey, nodes []int32, ok bool) {
	ranks = sorted(ranks)
	if len(ranks) == 0 || len(ranks) == len(e.home) {
		nodes = make([]int32, len(e.cfg.Nodes))
		for i := range nodes {
			nodes[i] = int32(i)
		}
		return key, nodes, true
	}
	h := sha256.New()
	for _, r := range ranks {
		if int(r) >= len(e.home) || e.home[r] < 0 {
			return key, nil, false
		}
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(r)))
		nodes = append(nodes, e.home[r])
	}
	copy(key[:], h.Sum(nil))
	slices.Sort(nodes)
	return key, slices.Compact(nodes), true
}

// group returns the group of a key, made on first use; nil when there are too many
// groups.
func (e *Engine) group(key groupKey) *group {
	g := e.groups[key]
	if g == nil && len(e.groups) < maxFences {
		g = &group{open: map[uint32]*fence{}}
		e.groups[key] = g
	}
	return g
}

func (g *group) fence(seq uint32) *fence {
	f := g.open[seq]
	if f == nil && len(g.open) < maxOpen {
		f = &fence{from: map[int32]bool{}}
		g.open[seq] = f
	}
	return f
}

// enter takes this node's part of a fence from the helper.
func (e *Engine) enter(id uint32, ranks []filch.Rank, blob []byte, out *pmi.Out) bool {
	key, nodes, ok := e.keyOf(ranks)
	if !ok || !slices.Contains(nodes, e.cfg.Node) {
		return false
	}
	g := e.group(key)
	if g == nil {
		return false
	}
	g.nodes = nodes
	g.seq++
	f := g.fence(g.seq)
	if f == nil {
		return false
	}
	f.entered, f.id = true, id
	f.data = append(f.data, blob...)
	e.advance(key, g, g.seq, f, out)
	return true
}

// place returns the neighbors of a node in the tree of a group: the parent (-1 for the
// root) and the children.
func (g *group) place(me int32) (parent int32, children []int32) {
	i := slices.Index(g.nodes, me)
	if parent = -1; i > 0 {
		parent = g.nodes[(i-1)/pmi.Width]
	}
	from := min(i*pmi.Width+1, len(g.nodes))
	return parent, g.nodes[from:min(from+pmi.Width, len(g.nodes))]
}

// advance sends a part that is complete here and below to the parent; at the root the
// part is the whole.
func (e *Engine) advance(key groupKey, g *group, seq uint32, f *fence, out *pmi.Out) {
	if !f.entered {
		return
	}
	parent, children := g.place(e.cfg.Node)
	if len(f.data) > maxPut {
		e.full(out)
		return
	}
	if f.parts < len(children) {
		return
	}
	if parent >= 0 {
		e.send(parent, parcel{kind: parcelUp, key: key, id: seq, data: f.data}, out)
		f.data = nil
		return
	}
	e.down(key, g, seq, f, f.data, out)
}

// down gives the whole of a fence to the helper and to the nodes below.
func (e *Engine) down(key groupKey, g *group, seq uint32, f *fence, data []byte, out *pmi.Out) {
	_, children := g.place(e.cfg.Node)
	for _, c := range children {
		e.send(c, parcel{kind: parcelDown, key: key, id: seq, data: data}, out)
	}
	delete(g.open, seq)
	e.wired = e.wired || key == groupKey{}
	e.tell(out, newFrame(kindFenceDone).u32(f.id).u32(statusOK).blob(data))
}

// part takes a child's part of a fence.
func (e *Engine) part(from int32, p parcel, out *pmi.Out) bool {
	g := e.group(p.key)
	if g == nil || p.id+maxOpen <= g.seq {
		return false
	}
	f := g.fence(p.id)
	if f == nil || f.from[from] {
		return false
	}
	f.from[from] = true
	f.parts++
	if f.data = append(f.data, p.data...); len(f.data) > maxPut {
		e.full(out)
		return true
	}
	e.advance(p.key, g, p.id, f, out)
	return true
}

// whole takes the whole from the parent.
func (e *Engine) whole(from int32, p parcel, out *pmi.Out) bool {
	g := e.groups[p.key]
	if g == nil || g.open[p.id] == nil || !g.open[p.id].entered {
		return false
	}
	if parent, _ := g.place(e.cfg.Node); parent != from {
		return false
	}
	e.down(p.key, g, p.id, g.open[p.id], p.data, out)
	return true
}

// full ends the job, whose ranks have put too many bytes.
func (e *Engine) full(out *pmi.Out) {
	if len(e.order) > 0 {
		out.Breaks = append(out.Breaks, pmi.Break{Rank: e.order[0], Text: "is part of a job that put more than 64 MiB of addresses"})
	}
}
