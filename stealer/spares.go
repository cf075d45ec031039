package stealer

import (
	"slices"

	"github.com/filch-hpc/filch"
)

// Place picks nodes for the ranks out of the offers, as [Need.Choose] does, and besides them
// the spare nodes: each has room for as many ranks as any node of the job has. If the largest
// offers leave no such nodes, Place fills no node beyond the size of smaller offers.
func (n *Need) Place(offers []Offer, first filch.NodeName) (shares, spares []Share, ok bool) {
	chosen, ok := n.Choose(offers, first)
	if !ok {
		return nil, nil, false
	}
	if n.Spare == 0 {
		return n.Assign(chosen, first), nil, true
	}
	for size := most(offers); size > 0; size = below(offers, size) {
		clipped := slices.Clone(offers)
		for i := range clipped {
			clipped[i].Ranks = min(clipped[i].Ranks, size)
		}
		if chosen, ok = n.Choose(clipped, first); !ok {
			return nil, nil, false
		}
		shares = n.Assign(chosen, first)
		if spares = n.spares(offers, shares); len(spares) == int(n.Spare) {
			return shares, spares, true
		}
	}
	return nil, nil, false
}

// most is the number of ranks of the largest offer.
func most(offers []Offer) int32 { return below(offers, filch.Unbounded) }

// below is the number of ranks of the largest offer with fewer than k ranks, 0 if there is none.
func below(offers []Offer, k int32) (size int32) {
	for _, o := range offers {
		if o.Ranks < k {
			size = max(size, o.Ranks)
		}
	}
	return size
}

// spares are up to n.Spare of the nodes without a share, each with room for the largest share.
func (n *Need) spares(offers []Offer, shares []Share) (spares []Share) {
	size := int32(1)
	for _, s := range shares {
		size = max(size, s.Ranks)
	}
	for _, o := range offers {
		if len(spares) == int(n.Spare) {
			break
		}
		if o.Ranks >= size && !slices.ContainsFunc(shares, func(s Share) bool { return s.Node == o.Node }) {
			spares = append(spares, Share{Node: o.Node, Lease: o.Lease, Ranks: size, Word: o.Word})
		}
	}
	return spares
}

// Spared is the most spare nodes that such a job can ever have on these nodes, up to n.Spare;
// false if the ranks find no room even without.
func (n *Need) Spared(m *filch.Members) (spares int32, ok bool) {
	var offers []Offer
	for i := range m.All() {
		p := m.At(int32(i))
		if p.Standing > filch.Draining || !n.Allows(p) {
			continue
		}
		if k := n.limit(p.Total); k > 0 {
			offers = append(offers, Offer{Node: p.Name, Ranks: k})
		}
	}
	for d := *n; d.Spare >= 0; d.Spare-- {
		if _, _, ok := d.Place(offers, ""); ok {
			return d.Spare, true
		}
	}
	return 0, false
}

// nodes are the nodes that Place would pick, with the spare nodes.
func (n *Need) nodes(offers []Offer, first filch.NodeName) (names []filch.NodeName, ok bool) {
	chosen, ok := n.Choose(offers, first)
	if !ok || n.Spare == 0 {
		for _, o := range chosen {
			names = append(names, o.Node)
		}
		return names, ok
	}
	shares, spares, ok := n.Place(offers, first)
	for _, s := range append(shares, spares...) {
		names = append(names, s.Node)
	}
	return names, ok
}
