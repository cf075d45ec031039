package stealer

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/filch-hpc/filch"
)

// Layout says in which order ranks go to nodes.
type Layout uint8

// The layouts, as srun -m names them. LayoutAuto is cyclic when there are not
// more ranks than nodes, else block.
const (
	LayoutAuto Layout = iota
	LayoutBlock
	LayoutCyclic
	LayoutPlane
)

// Span is the ranks First .. First+Count-1.
type Span struct {
	First filch.Rank
	Count int32
}

// Need is the complete request of a job.
type Need struct {
	Ranks      int32
	Base, Each filch.Room // shared by all ranks on a node, and taken by each
	MinNodes   int32      // at least 1, at most Ranks
	MaxNodes   int32      // 0 no bound
	PerNode    int32      // 0 no bound
	filch.Nodes
	Spare     int32 // nodes held besides those with ranks
	Exclusive bool
	Layout    Layout
	Plane     int32
	Task      bool // one process, and no gang
	Step      bool // in slots that a job or a task has: the role of the node does not matter
}

// Allows reports whether the job may use a node: the node is for such work, and is among the
// nodes that the job asks for.
func (n *Need) Allows(m *filch.Member) bool {
	return (n.Step || m.Role.Takes(!n.Task)) && n.Nodes.Allows(m)
}

// Local reports whether one node may have all ranks, so that a job that fits on its own node
// asks no other. A job with a range of nodes takes as many nodes as there are.
func (n *Need) Local() bool {
	return n.MinNodes <= 1 && n.Spare == 0 && (n.PerNode == 0 || n.PerNode >= n.Ranks) && (n.MaxNodes <= 1 || n.Ranks <= 1)
}

// Offer is room for ranks on a node, to choose from.
type Offer struct {
	Node  filch.NodeName
	Lease filch.LeaseID
	Ranks int32
	Word  uint64 // the version of the Grant behind the offer
}

// Share is a node's part of a job.
type Share struct {
	Node  filch.NodeName
	Lease filch.LeaseID
	Ranks int32
	Word  uint64 // of the offer
	Spans []Span
}

// limit is the most ranks of the job for a node with the given total, leaving at
// least one rank for each of the other nodes needed.
func (n *Need) limit(total filch.Room) int32 {
	k := total.Fits(n.Base, n.Each)
	if n.PerNode > 0 {
		k = min(k, n.PerNode)
	}
	return min(k, n.Ranks-max(n.MinNodes, 1)+1)
}

// part is the most ranks that the job's own node is asked for at first: an even part of the ranks
// where the job asks for several nodes, so that the other nodes get as many, as with srun. Without
// enough room elsewhere, the gather asks for more. A job that takes whole nodes, or holds spare
// nodes, asks every node for all room anyway.
func (n *Need) part() int32 {
	if n.MinNodes <= 1 || n.Exclusive || n.Spare > 0 {
		return n.Ranks
	}
	k := (n.Ranks + n.MinNodes - 1) / n.MinNodes
	if p := n.Plane; n.Layout == LayoutPlane && p > 1 {
		k = min((k-1)/p*p, n.Ranks-p) + p // whole planes, which may be as large as all ranks
	}
	return k
}

// Choose picks nodes for the job out of the offers: the node called first before
// the others, then the largest offers. Choose takes the fewest nodes possible, but
// with a range of nodes as many as allowed (as srun does).
func (n *Need) Choose(offers []Offer, first filch.NodeName) ([]Offer, bool) {
	offers = slices.DeleteFunc(slices.Clone(offers), func(o Offer) bool { return o.Ranks <= 0 })
	most := func(a, b Offer) int { return cmp.Compare(b.Ranks, a.Ranks) }
	slices.SortStableFunc(offers, most)
	i := slices.IndexFunc(offers, func(o Offer) bool { return o.Node == first })
	if i > 0 {
		mine := offers[i]
		copy(offers[1:i+1], offers[:i])
		offers[0] = mine
	}
	if got, ok := n.take(offers); ok || i <= 0 {
		return got, ok
	}
	slices.SortStableFunc(offers, most)
	return n.take(offers)
}

// take takes offers from the front.
func (n *Need) take(offers []Offer) ([]Offer, bool) {
	top := len(offers)
	if n.MaxNodes > 0 {
		top = min(top, int(n.MaxNodes))
	}
	top = min(top, int(n.Ranks))
	sum, k := int64(0), 0
	for k < top && (sum < int64(n.Ranks) || k < int(n.MinNodes) || n.MaxNodes > 0) {
		sum += int64(offers[k].Ranks)
		k++
	}
	if sum < int64(n.Ranks) || k < int(n.MinNodes) {
		return nil, false
	}
	return offers[:k], true
}

// Assign gives every rank a node. As srun does, even the block layout spreads
// the ranks evenly, as far as the nodes have room. The node called first
// leads, the others follow in the order of their names.
func (n *Need) Assign(offers []Offer, first filch.NodeName) []Share {
	shares := make([]Share, len(offers))
	for i, o := range offers {
		shares[i] = Share{Node: o.Node, Lease: o.Lease, Word: o.Word}
	}
	slices.SortFunc(shares, func(a, b Share) int { return byName(a.Node, b.Node, first) })
	room := make([]int32, len(offers))
	for i := range shares {
		j := slices.IndexFunc(offers, func(o Offer) bool { return o.Node == shares[i].Node })
		room[i] = offers[j].Ranks
	}
	layout := n.Layout
	if layout == LayoutAuto {
		layout = LayoutBlock
		if n.Ranks <= int32(len(offers)) {
			layout = LayoutCyclic
		}
	}
	row := int32(1)
	if layout == LayoutPlane {
		row = max(n.Plane, 1)
	}
	rank, empty := filch.Rank(0), int32(len(shares))
	for left := n.Ranks; left > 0; {
		dealt := left
		for i := range shares {
			// The nodes behind this one get a rank each.
			if shares[i].Ranks == 0 && room[i] > 0 {
				empty--
			}
			k := min(row, room[i]-shares[i].Ranks, left-empty)
			if k <= 0 {
				continue
			}
			shares[i].Ranks += k
			left -= k
			if layout != LayoutBlock {
				shares[i].Spans = extend(shares[i].Spans, Span{rank, k})
			}
			rank += filch.Rank(k)
		}
		if dealt == left {
			panic("stealer: assigned more ranks than there is room for")
		}
	}
	if layout == LayoutBlock {
		rank = 0
		for i := range shares {
			shares[i].Spans = []Span{{rank, shares[i].Ranks}}
			rank += filch.Rank(shares[i].Ranks)
		}
	}
	return slices.DeleteFunc(shares, func(s Share) bool { return s.Ranks == 0 })
}

func extend(spans []Span, s Span) []Span {
	if k := len(spans); k > 0 && spans[k-1].First+filch.Rank(spans[k-1].Count) == s.First {
		spans[k-1].Count += s.Count
		return spans
	}
	return append(spans, s)
}

// byName orders names as a reader does, n2 before n10, with first in front.
func byName(a, b, first filch.NodeName) int {
	if a == b {
		return 0
	}
	if a == first {
		return -1
	}
	if b == first {
		return 1
	}
	return Natural(string(a), string(b))
}

// Natural compares two names, runs of digits by their value.
func Natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		dx, dy := digits(x), digits(y)
		if dx == 0 || dy == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		p, q := strings.TrimLeft(x[:dx], "0"), strings.TrimLeft(y[:dy], "0")
		if c := cmp.Or(cmp.Compare(len(p), len(q)), cmp.Compare(p, q)); c != 0 {
			return c
		}
		x, y = x[dx:], y[dy:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

func digits(s string) int {
	k := 0
	for k < len(s) && s[k] >= '0' && s[k] <= '9' {
		k++
	}
	return k
}

// Even sets PerNode to the least value with which the ranks fit, as reported by
// fits; to 0 if the ranks fit with no value. So the ranks are spread evenly over
// nodes with unequal room, as far as the room goes.
func (n *Need) Even(fits func() bool) {
	most := n.Ranks
	low := int32(sort.Search(int(most), func(k int) bool {
		n.PerNode = int32(k) + 1
		return fits()
	}))
	if n.PerNode = low + 1; low == most {
		n.PerNode = 0
	}
}

// Ceiling is the most ranks of such a job ever possible on these nodes, and the
// number of eligible nodes.
func (n *Need) Ceiling(m *filch.Members) (ranks int64, nodes int32) {
	wide := *n
	wide.Ranks, wide.MinNodes = filch.Unbounded, 1
	var limits []int64
	for i := range m.All() {
		p := m.At(int32(i))
		if p.Standing > filch.Draining || !n.Allows(p) {
			continue
		}
		if k := wide.limit(p.Total); k > 0 {
			limits = append(limits, int64(k))
		}
	}
	nodes = int32(len(limits))
	slices.SortFunc(limits, func(a, b int64) int { return cmp.Compare(b, a) })
	if n.MaxNodes > 0 && len(limits) > int(n.MaxNodes) {
		limits = limits[:n.MaxNodes]
	}
	for _, k := range limits {
		ranks += k
	}
	return ranks, nodes
}
