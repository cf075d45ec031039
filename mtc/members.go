package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Members is the list of all nodes ever seen, in the order of first sight, so
// that an index stays true. A simulator may share one among its cores.
type Members struct {
	list  []Member
	index map[filch.NodeName]int32
	up    int // of them, those that work may go to
	lend  int // and those that it may come from
}

// NewMembers makes an empty list.
func NewMembers() *Members { return &Members{index: make(map[filch.NodeName]int32)} }

// Set adds or replaces a member; it returns what was known.
func (m *Members) Set(p Member) (old Member, known bool) {
	i, known := m.index[p.Name]
	if known {
		old = m.list[i]
		m.list[i] = p
	} else {
		m.index[p.Name] = int32(len(m.list))
		m.list = append(m.list, p)
	}
	m.count(&old, -1)
	m.count(&p, 1)
	return old, known
}

func (m *Members) count(p *Member, by int) {
	if p.Up {
		m.up += by
	}
	if p.lends() {
		m.lend += by
	}
}

// lends reports whether work may come from a node.
func (p *Member) lends() bool { return p.Up || p.Draining && !mutantDrainKeeps }

func (m *Members) find(name filch.NodeName) *Member {
	if i, ok := m.index[name]; ok {
		return &m.list[i]
	}
	return nil
}

// each calls f with every member, in the order of first sight.
func (m *Members) each(f func(*Member)) {
	for i := range m.list {
		f(&m.list[i])
	}
}

// others counts the nodes but this one that work may go to.
func (m *Members) others(self filch.NodeName) int {
	if p := m.find(self); p != nil && p.Up {
		return m.up - 1
	}
	return m.up
}

// lenders counts the nodes but this one that work may come from.
func (m *Members) lenders(self filch.NodeName) int {
	if p := m.find(self); p != nil && p.lends() {
		return m.lend - 1
	}
	return m.lend
}

// dead reports whether an owner is known to be gone: its node is, or lives
// another life.
func (m *Members) dead(o Owner) bool {
	p := m.find(o.Node)
	return p != nil && (p.Incarnation > o.Incarnation || p.Dead && p.Incarnation == o.Incarnation)
}

// gone reports whether an owner may live, though its node is called gone.
func (m *Members) gone(o Owner) bool { return m.mayLive(o) && m.find(o.Node).Gone }

// mayLive reports whether an owner is known, and not to be dead.
func (m *Members) mayLive(o Owner) bool {
	p := m.find(o.Node)
	return p != nil && !p.Dead && p.Incarnation == o.Incarnation
}

// Victims is how a thief chooses whom to ask.
type Victims uint8

// The choices.
const (
	Random       Victims = iota // sqrt(N) distinct nodes, drawn anew each time (MATRIX v1, algorithm 1)
	Mesh                        // deterministic: neighbors of a virtual mesh by class (DVS)
	Hierarchical                // nodes of the own group first, others after a failure
)

// root is the largest k with k*k <= n.
func root(n int) int {
	k := 0
	for (k+1)*(k+1) <= n {
		k++
	}
	return k
}

// choose names up to k nodes to ask; failures are those in a row so far.
func (m *Members) choose(v Victims, self filch.NodeName, k, failures int, r *rng) []filch.NodeName {
	if mutantSameVictims {
		*r = 1
	}
	switch v {
	case Mesh:
		return m.mesh(self, failures)
	case Hierarchical:
		if me := m.find(self); me != nil && me.Group != "" && failures%2 == 0 {
			if near := m.draw(self, k, r, func(p *Member) bool { return p.lends() && p.Group == me.Group }); len(near) > 0 {
				return near
			}
		}
	}
	return m.draw(self, k, r, (*Member).lends)
}

// draw picks k distinct nodes that fit, never self.
func (m *Members) draw(self filch.NodeName, k int, r *rng, fits func(*Member) bool) []filch.NodeName {
	var names []filch.NodeName
	if n := len(m.list); 4*k < n {
		for tries := 0; tries < 8*k && len(names) < k; tries++ {
			p := &m.list[r.below(n)]
			if p.Name != self && fits(p) && !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
		return names
	}
	for i := range m.list {
		if p := &m.list[i]; p.Name != self && fits(p) {
			names = append(names, p.Name)
		}
	}
	for i := 0; i < min(k, len(names)); i++ { // the first k of a shuffle
		j := i + r.below(len(names)-i)
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
	ClassF       // the rest: carry it back inward
)

// spot is a place on the virtual mesh, relative to the source.
type spot struct{ x, y int }

func (s spot) hops(t spot) int { return abs(s.x-t.x) + abs(s.y-t.y) }

func abs(n int) int { return max(n, -n) }

// spotOf places members in rings around the source: ring d has 4d of them.
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

// mesh names the victims of self in DVS: direct neighbors, and by class some at
// two hops; X asks those nearer to the source first, Z and F the farther ones.
// After many failures in a row everybody may be asked: places of the mesh are
// left empty by nodes that are gone.
func (m *Members) mesh(self filch.NodeName, failures int) []filch.NodeName {
	i, ok := m.index[self]
	if !ok {
		return nil
	}
	me := spotOf(int(i))
	d := spotOf(len(m.list) - 1).hops(spot{})
	class := me.class(d)
	type victim struct {
		name filch.NodeName
		near int // to the source
		hops int
	}
	var list []victim
	for k := range m.list {
		p := &m.list[k]
		if !p.lends() || p.Name == self {
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

// meshPatience is after how many failures a node of the mesh asks everybody.
const meshPatience = 6

// waits is when something that waits for a moment is looked at again: cooling
// tasks, tokens, cancels and words to stewards that were not acknowledged.
type waits struct{ at time.Duration }
