package policy

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// Members is the list of all nodes ever seen, in the order of first sight, so that an
// index stays valid. The cores of a simulator may share a list.
type Members struct {
	list  []Member
	index map[filch.NodeName]int32
	up    int // nodes that take work
	lend  int // nodes that give work to thieves
}

// NewMembers makes an empty list.
func NewMembers() *Members { return &Members{index: make(map[filch.NodeName]int32)} }

// Set adds or replaces a member and returns the member before.
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

// lends reports whether p gives work to thieves.
func (p *Member) lends() bool { return p.Up || p.Draining && !mutantDrainKeeps }

func (m *Members) Find(name filch.NodeName) *Member {
	if i, ok := m.index[name]; ok {
		return &m.list[i]
	}
	return nil
}

// Each calls f with every member, in the order of first sight.
func (m *Members) Each(f func(*Member)) {
	for i := range m.list {
		f(&m.list[i])
	}
}

// Working counts the nodes open to new work.
func (m *Members) Working() int { return m.up }

// Others counts the nodes open to new work, without self.
func (m *Members) Others(self filch.NodeName) int {
	if p := m.Find(self); p != nil && p.Up {
		return m.up - 1
	}
	return m.up
}

// Lenders counts the nodes that give work to thieves, without self.
func (m *Members) Lenders(self filch.NodeName) int {
	if p := m.Find(self); p != nil && p.lends() {
		return m.lend - 1
	}
	return m.lend
}

// Dead reports whether an owner is known to be dead: its node is, or is in another
// incarnation.
func (m *Members) Dead(o record.Owner) bool {
	p := m.Find(o.Node)
	return p != nil && (p.Incarnation > o.Incarnation || p.Dead && p.Incarnation == o.Incarnation)
}

// Gone reports whether an owner may live, though its node is called gone.
func (m *Members) Gone(o record.Owner) bool { return m.MayLive(o) && m.Find(o.Node).Gone }

// MayLive reports whether an owner is known, and not known to be dead.
func (m *Members) MayLive(o record.Owner) bool {
	p := m.Find(o.Node)
	return p != nil && !p.Dead && p.Incarnation == o.Incarnation
}

// Member is a node of the instance.
type Member struct {
	Name        filch.NodeName
	Incarnation uint64
	Up          bool // neither suspected nor draining: takes and gives work
	// Draining is set for a node that is not suspected: the node gives work and takes
	// none.
	Draining bool
	// Gone is set while the launcher is gone and may come back in the same incarnation:
	// other nodes take its tasks, except tasks that would be lost.
	Gone  bool
	Dead  bool // dead or left: other nodes take its tasks
	Group string
}
