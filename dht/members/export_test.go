package members

import "github.com/filch-hpc/filch"

// Get is the entry of a node.
func (m *List) Get(name filch.NodeName) (Member, bool) {
	if e := m.table.index[name]; e != nil {
		return e.m.clone(), true
	}
	return Member{}, false
}

// Joined reports whether the whole list is here.
func (m *List) Joined() bool { return m.join.done }

// Live is the number of members that are alive or suspect, this node included.
func (m *List) Live() int { return m.table.live }
