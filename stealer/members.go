// Package stealer decides whom to ask for slots, for how much and when again,
// and when the slots that were lent make a job.
//
// A [Gather] works for one job at the node where it was submitted. It sends
// nothing: what is to be asked comes out as a list, what was granted goes in.
// Victims are drawn from [Members] by a seeded generator of its own.
package stealer

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/slots"
)

// Standing is what a member may be used for.
type Standing uint8

// The standings.
const (
	Up       Standing = iota
	Suspect           // no sign of life: what it lent counts, no new work
	Gone              // its launcher is, and its host answers: as Suspect, and it may be back at once
	Draining          // lends nothing more, goes on with what it has
	Dead              // its slots are gone
	Left              // as Dead, on its own wish
)

func (s Standing) String() string {
	return [...]string{"up", "suspect", "gone", "draining", "dead", "left"}[min(s, Left)]
}

// Answers reports whether a node shows life, whatever it takes.
func (s Standing) Answers() bool { return s == Up || s == Draining }

// Member is a node of the instance as its peers know it.
type Member struct {
	Name        filch.NodeName
	Incarnation uint64
	Standing    Standing
	Total       slots.Room
	Group       string // of nodes near to each other: an allocation; "" unknown
	Why         string // it drains; "" none was given
}

// Members is the list of all nodes ever seen, in the order of first sight, so
// that an index stays true. A simulator may share one among its nodes.
type Members struct {
	list  []Member
	index map[filch.NodeName]int32
}

// NewMembers makes an empty list.
func NewMembers() *Members { return &Members{index: make(map[filch.NodeName]int32)} }

// Set adds or replaces a member; it returns its index and what was known.
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
func (m *Members) Find(name filch.NodeName) int32 {
	if i, ok := m.index[name]; ok {
		return i
	}
	return -1
}

// At is the member with that index.
func (m *Members) At(i int32) *Member { return &m.list[i] }

// Len counts all members ever seen.
func (m *Members) Len() int { return len(m.list) }
