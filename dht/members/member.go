package members

import (
	"cmp"
	"slices"

	"github.com/filch-hpc/filch"
)

// State is a node's state in the list.
type State uint8

// The states. Dead and Left are final for an incarnation.
const (
	Alive   State = iota
	Suspect       // silent; the node gets no new work
	Gone          // the process ended, its host answers: shards and tasks move; may come back
	Dead          // declared dead
	Left          // left by its own wish
)

var stateNames = [...]string{"alive", "suspect", "gone", "dead", "left"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "state-?"
}

// Over reports whether the node takes no part any more.
func (s State) Over() bool { return s >= Dead }

// Member is an entry of the list: one node. Only the node itself raises Version;
// others change State alone.
type Member struct {
	Name        filch.NodeName
	Incarnation uint64 // grows with every restart, and after a death
	Version     uint32 // of the node's own part of the entry, in this incarnation
	State       State
	Draining    bool     // the node takes no new work on request
	Addrs       []string // host:port, the first one preferred
	Capacity    []byte   // opaque here
}

// Limits of a Member.
const (
	maxAddrs = 8
	maxAddr  = 128
	// MaxCapacity is the number of bytes of Member.Capacity at most.
	MaxCapacity = 4 << 10
)

// supersedes reports whether m is news for a holder of old. A death ends an
// incarnation for good. Within a version Suspect overrides Alive, and Gone
// overrides both: the node itself refutes either with another version.
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

// digest is a member's part of the sums compared by two nodes. Dead and departed
// members do not count, since each node forgets such members at a different time.
func (m *Member) digest(key uint64) uint64 {
	if m.State.Over() {
		return 0
	}
	x := filch.Mix(key ^ m.Incarnation)
	return filch.Mix(x ^ uint64(m.Version)<<8 ^ uint64(m.State))
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
