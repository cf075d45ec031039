package policy

import (
	"slices"

	"github.com/filch-hpc/filch"
)

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
// hops; X asks the nodes nearer to the source first, Z and F the farther nodes. All nodes
// place the members alike: in the order of names, from the source on. A node that is gone
// leaves its place of the mesh empty.
func (m *Members) mesh(self, source filch.NodeName) []filch.NodeName {
	if m.Find(self) < 0 {
		return nil
	}
	order, n := m.byName(), m.Len()
	first := 0
	if m.Find(source) >= 0 && !mutantOwnSource {
		first = m.place(source)
	}
	if mutantOwnSource {
		first = m.place(self)
	}
	at := func(place int) spot { return spotOf((place - first + n) % n) }
	me := at(m.place(self))
	d := spotOf(n - 1).hops(spot{})
	class := me.class(d)
	type victim struct {
		name filch.NodeName
		near int // to the source
	}
	var list []victim
	for place := range n {
		p := m.At(order[place])
		if !lends(p) || p.Name == self {
			continue
		}
		s := at(place)
		h := me.hops(s)
		far := h == 2 && (class == ClassZ && d > 2 && s.class(d) == ClassZ ||
			class == ClassX && me.hops(spot{}) == 1 && s.class(d) == ClassX)
		if h == 1 || far {
			list = append(list, victim{p.Name, s.hops(spot{})})
		}
	}
	slices.SortStableFunc(list, func(a, b victim) int {
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

// meshPatience is the number of failures in a row after which a node of the mesh asks drawn
// nodes, as many as other thieves do: nodes that are gone leave places of the mesh empty.
const meshPatience = 6
