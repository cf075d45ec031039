package policy

import (
	"slices"

	"github.com/filch-hpc/filch"
)

// Victims is a thief's choice of the nodes to ask.
type Victims uint8

// The choices.
const (
	// Random draws sqrt(N) distinct nodes each time (MATRIX v1, algorithm 1).
	Random       Victims = iota
	Mesh                 // deterministic: neighbors of a virtual mesh by class (DVS)
	Hierarchical         // nodes of the own group first, others after a failure
)

// Choose names up to k nodes to ask; failures counts the failures in a row so far.
func (m *Members) Choose(v Victims, self filch.NodeName, k, failures int, r *filch.Rand) []filch.NodeName {
	if mutantSameVictims {
		*r = 1
	}
	switch v {
	case Mesh:
		return m.mesh(self, failures)
	case Hierarchical:
		if me := m.Get(self); me != nil && me.Group != "" && failures%2 == 0 {
			if near := m.Draw(self, k, r, func(p *filch.Member) bool { return lends(p) && p.Group == me.Group }); len(near) > 0 {
				return near
			}
		}
	}
	return m.Draw(self, k, r, lends)
}

// Draw picks k distinct nodes that fit, never self.
func (m *Members) Draw(self filch.NodeName, k int, r *filch.Rand, fits func(*filch.Member) bool) []filch.NodeName {
	var names []filch.NodeName
	if n := m.Len(); 4*k < n {
		for tries := 0; tries < 8*k && len(names) < k; tries++ {
			p := m.At(int32(r.IntN(n)))
			if p.Name != self && fits(p) && !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
		if len(names) > 0 {
			return names
		}
	}
	for i := range m.All() {
		if p := m.At(int32(i)); p.Name != self && fits(p) {
			names = append(names, p.Name)
		}
	}
	for i := 0; i < min(k, len(names)); i++ { // the first k of a shuffle
		j := i + r.IntN(len(names)-i)
		names[i], names[j] = names[j], names[i]
	}
	return names[:min(k, len(names))]
}

// Class is a node's part in deterministic victim selection (DVS, 3.1).
type Class uint8

// The classes.
const (
	Source Class = iota
	ClassX       // on the axes: carry load outward
	ClassZ       // at the rim: balance among the quadrants
	ClassF       // the rest: carry load back inward
)

// spot is a place on the virtual mesh, relative to the source.
type spot struct{ x, y int }

func (s spot) hops(t spot) int { return abs(s.x-t.x) + abs(s.y-t.y) }

func abs(n int) int { return max(n, -n) }

// spotOf places members in rings around the source: ring d has 4d members.
func spotOf(i int) spot {
	d, first := 0, 0
	for n := 1; i >= first+n; n = max(4*d, 1) {
		first += n
		d++
	}
	if d == 0 {
		return spot{}
	}
	k := i - first
	side, step := k/d, k%d
	switch side {
	case 0:
		return spot{d - step, step}
	case 1:
		return spot{-step, d - step}
	case 2:
		return spot{step - d, -step}
	}
	return spot{step, step - d}
}

// class is the class of a place when the farthest node is d hops away.
func (s spot) class(d int) Class {
	switch h := s.hops(spot{}); {
	case h == 0:
		return Source
	case d >= 2 && h == d:
		return ClassZ
	case s.x == 0 || s.y == 0:
		return ClassX
	}
	return ClassF
}

// mesh names the victims of self in DVS: direct neighbors, and by class some nodes at two
// hops; X asks the nodes nearer to the source first, Z and F the farther nodes. After
// many failures in a row a node may ask all nodes: nodes that are gone leave places of
// the mesh empty.
func (m *Members) mesh(self filch.NodeName, failures int) []filch.NodeName {
	i := m.Find(self)
	if i < 0 {
		return nil
	}
	me := spotOf(int(i))
	d := spotOf(m.Len() - 1).hops(spot{})
	class := me.class(d)
	type victim struct {
		name filch.NodeName
		near int // to the source
		hops int
	}
	var list []victim
	for k := range m.All() {
		p := m.At(int32(k))
		if !lends(p) || p.Name == self {
			continue
		}
		s := spotOf(k)
		h := me.hops(s)
		far := h == 2 && (class == ClassZ && d > 2 && s.class(d) == ClassZ ||
			class == ClassX && me.hops(spot{}) == 1 && s.class(d) == ClassX)
		if h == 1 || far || failures >= meshPatience {
			list = append(list, victim{p.Name, s.hops(spot{}), h})
		}
	}
	slices.SortStableFunc(list, func(a, b victim) int {
		if (a.hops > 2) != (b.hops > 2) {
			return a.hops - b.hops
		}
		if class == ClassX || class == Source {
			return a.near - b.near
		}
		return b.near - a.near
	})
	names := make([]filch.NodeName, len(list))
	for k := range list {
		names[k] = list[k].name
	}
	return names
}

// meshPatience is the number of failures after which a node of the mesh asks all nodes.
const meshPatience = 6

// Half is half of n, rounded up, so that a single task can be stolen too; the
// code of MATRIX rounds down.
func Half(n int64) int64 {
	if mutantHalfDown {
		return n / 2
	}
	return n/2 + n%2
}
