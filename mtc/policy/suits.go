package policy

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// Suits reports whether some tasks of a job may run on a node.
func Suits(s *record.Spec, m *filch.Member) bool {
	return mutantAnyNode || SuitsNeed(record.Need{Each: s.Each, Nodes: s.Nodes, Gang: s.Gang}, m) ||
		slices.ContainsFunc(s.Needs, func(n record.Need) bool { return SuitsNeed(n, m) })
}

// SuitsNeed reports whether a task with the need may run on a node: the need allows the
// node, the node is for such tasks, and the whole room of the node suffices. A node of unknown
// room suffices.
func SuitsNeed(n record.Need, m *filch.Member) bool {
	return (m.Role.Takes(n.Gang.Ranks > 0) || mutantRoleless) && (n.Nodes == nil || n.Nodes.Allows(m)) && (m.Total == filch.Room{} || m.Total.Holds(n.Each))
}

// OtherSuits reports whether some tasks of a job may run on a node that takes work, self aside.
func (m *Members) OtherSuits(self filch.NodeName, s *record.Spec) bool {
	for i := range m.Len() {
		if p := m.At(int32(i)); p.Name != self && p.Standing == filch.Up && Suits(s, p) {
			return true
		}
	}
	return false
}
