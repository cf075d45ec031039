package dht

import (
	"cmp"
	"slices"

	"github.com/filch-hpc/filch"
)

// MemberState is how a node stands in the list.
type MemberState uint8

// The states. Dead and Left are final for an incarnation.
const (
	Alive   MemberState = iota
	Suspect             // silent; it gets no new work
	Gone                // its process is, and its host answers: shards and tasks move; it may come back, or be wronged
	Dead                // declared so
	Left                // went on its own
)

var memberStateNames = [...]string{"alive", "suspect", "gone", "dead", "left"}

func (s MemberState) String() string {
	if int(s) < len(memberStateNames) {
		return memberStateNames[s]
	}
	return "state-?"
}

// Over reports whether the node takes no part any more.
func (s MemberState) Over() bool { return s >= Dead }

// Member is what the list says about one node. Only the node itself raises
// Version; others change State alone.
type Member struct {
	Name        filch.NodeName
	Incarnation uint64 // grows with every restart, and after a death
	Version     uint32 // of what the node says about itself in this incarnation
	State       MemberState
	Draining    bool     // it takes no new work on request
	Addrs       []string // host:port, the first one preferred
	Capacity    []byte   // opaque here
}

// Limits of a Member.
const (
	maxNodeName = 63
	maxAddrs    = 8
	maxAddr     = 128
	// MaxCapacity is the number of bytes of Member.Capacity at most.
	MaxCapacity = 4 << 10
)

// MaxMembers bounds the list; more are not taken in. Beyond it lookups by
// package kad take over.
const MaxMembers = 10_000

// supersedes reports whether m is news for whoever knows old. A death ends an
// incarnation for good; within a version suspicion overrides life, and that it is
// gone overrides both: the node itself refutes them with another version.
func (m *Member) supersedes(old *Member) bool {
	if m.Incarnation != old.Incarnation {
		return m.Incarnation > old.Incarnation
	}
	if m.State.Over() || old.State.Over() {
		return m.State.Over() && m.State > old.State
	}
	if m.Version != old.Version {
		return m.Version > old.Version
	}
	return m.State > old.State
}

// key is a node's place on the ring. Names are hashed, so that neighbors on the
// ring are not neighbors in a rack.
func key(n filch.NodeName) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(n) {
		h = (h ^ uint64(n[i])) * 1099511628211
	}
	return mix(h)
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// digest stands for a member in the sums that two nodes compare; those who are
// gone do not count, since each node forgets them at its own time.
func (m *Member) digest(key uint64) uint64 {
	if m.State.Over() {
		return 0
	}
	x := mix(key ^ m.Incarnation)
	return mix(x ^ uint64(m.Version)<<8 ^ uint64(m.State))
}

func (m *Member) clone() Member {
	c := *m
	c.Addrs = slices.Clone(m.Addrs)
	c.Capacity = slices.Clone(m.Capacity)
	return c
}

func sameAddr(a, b []string) bool {
	for _, x := range a {
		if slices.Contains(b, x) {
			return true
		}
	}
	return false
}

func compareNodes(aKey uint64, a filch.NodeName, bKey uint64, b filch.NodeName) int {
	return cmp.Or(cmp.Compare(aKey, bKey), cmp.Compare(a, b))
}
