package policy

import (
	"cmp"
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// Members is the list of all nodes ever seen, with the number of nodes open to work. The
// cores of a simulator may share a list.
type Members struct {
	filch.Members
	up     int     // nodes that take work
	lend   int     // nodes that give work to thieves
	order  []int32 // indices in the order of names
	places []int32 // by index: the place in order
}

// NewMembers makes an empty list.
func NewMembers() *Members { return &Members{Members: *filch.NewMembers()} }

// Set adds or replaces a member and returns the member before.
func (m *Members) Set(p filch.Member) (old filch.Member, known bool) {
	_, old, known = m.Members.Set(p)
	if known {
		m.count(&old, -1)
	}
	m.count(&p, 1)
	return old, known
}

func (m *Members) count(p *filch.Member, by int) {
	if p.Standing == filch.Up {
		m.up += by
	}
	if lends(p) {
		m.lend += by
	}
}

// byName is the indices of all members in the order of names, which is the same on all
// nodes.
func (m *Members) byName() []int32 {
	if len(m.order) == m.Len() {
		return m.order
	}
	m.order, m.places = m.order[:0], make([]int32, m.Len())
	for i := range int32(m.Len()) {
		m.order = append(m.order, i)
	}
	slices.SortFunc(m.order, func(a, b int32) int { return cmp.Compare(m.At(a).Name, m.At(b).Name) })
	for place, i := range m.order {
		m.places[i] = int32(place)
	}
	return m.order
}

// place is a member's place in the order of names; 0 for an unknown name.
func (m *Members) place(name filch.NodeName) int {
	m.byName()
	return int(m.places[max(m.Find(name), 0)])
}

// before is the node before another in the order of names, which is cyclic.
func (m *Members) before(name filch.NodeName) filch.NodeName {
	order := m.byName()
	return m.At(order[(m.place(name)+len(order)-1)%len(order)]).Name
}

// lends reports whether p gives work to thieves.
func lends(p *filch.Member) bool {
	return p.Standing == filch.Up || p.Standing == filch.Draining && !mutantDrainKeeps
}

// Working counts the nodes open to new work.
func (m *Members) Working() int { return m.up }

// Others counts the nodes open to new work, without self.
func (m *Members) Others(self filch.NodeName) int {
	if p := m.Get(self); p != nil && p.Standing == filch.Up {
		return m.up - 1
	}
	return m.up
}

// Lenders counts the nodes that give work to thieves, without self.
func (m *Members) Lenders(self filch.NodeName) int {
	if p := m.Get(self); p != nil && lends(p) {
		return m.lend - 1
	}
	return m.lend
}

// Dead reports whether an owner is known to be dead: its node is, or is in another
// incarnation.
func (m *Members) Dead(o record.Owner) bool {
	p := m.Get(o.Node)
	return p != nil && (p.Incarnation > o.Incarnation || p.Standing >= filch.Dead && p.Incarnation == o.Incarnation)
}

// Gone reports whether an owner may live, though its node is called gone.
func (m *Members) Gone(o record.Owner) bool {
	return m.MayLive(o) && m.Get(o.Node).Standing == filch.Gone
}

// MayLive reports whether an owner is known, and not known to be dead.
func (m *Members) MayLive(o record.Owner) bool {
	p := m.Get(o.Node)
	return p != nil && p.Standing < filch.Dead && p.Incarnation == o.Incarnation
}
