package filch

// Standing says how a member may be used.
type Standing uint8

// The standings.
const (
	Up       Standing = iota
	Suspect           // no sign of life: grants count, no new work
	Gone              // launcher ended, host answers: as Suspect, and may be back at once
	Draining          // lends nothing more, goes on with current work
	Dead              // the slots are gone
	Left              // as Dead, by the node's own wish
)

func (s Standing) String() string {
	return [...]string{"up", "suspect", "gone", "draining", "dead", "left"}[min(s, Left)]
}

// Answers reports whether a node shows life, even if the node refuses work.
func (s Standing) Answers() bool { return s == Up || s == Draining }

// Member is a node of the instance as its peers know it.
type Member struct {
	Name        NodeName
	Incarnation uint64
	Standing    Standing
	Total       Room
	Group       string // of nodes near to each other: an allocation; "" unknown
	Why         string // the reason for draining; "" none was given
	Labels      Labels
	Role        Role
}

// Members is the list of all nodes ever seen, in the order of first sight, so an
// index stays valid. A simulator may share a list among simulated nodes.
type Members struct {
	list  []Member
	index map[NodeName]int32
}

// NewMembers makes an empty list.
func NewMembers() *Members { return &Members{index: make(map[NodeName]int32)} }

// Set adds or replaces a member and returns the index and the previous entry.
func (m *Members) Set(p Member) (i int32, old Member, known bool) {
	if i, known = m.index[p.Name]; known {
		old = m.list[i]
		m.list[i] = p
		return i, old, true
	}
	i = int32(len(m.list))
	m.list = append(m.list, p)
	m.index[p.Name] = i
	return i, Member{}, false
}

// Find is the index of a member, or -1.
func (m *Members) Find(name NodeName) int32 {
	if i, ok := m.index[name]; ok {
		return i
	}
	return -1
}

// Get is a member, or nil.
func (m *Members) Get(name NodeName) *Member {
	if i, ok := m.index[name]; ok {
		return &m.list[i]
	}
	return nil
}

// At is the member at the index.
func (m *Members) At(i int32) *Member { return &m.list[i] }

// All is the list, in the order of first sight. The caller changes no entry.
func (m *Members) All() []Member { return m.list }

// Len counts all members ever seen.
func (m *Members) Len() int { return len(m.list) }

// Root is the largest k with k*k <= n: the number of members that a node asks first.
func Root(n int) int {
	k := 0
	for (k+1)*(k+1) <= n {
		k++
	}
	return k
}
