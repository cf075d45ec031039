package members

import (
	"math/bits"
	"slices"

	"github.com/filch-hpc/filch"
)

// ring holds the nodes watched by this node, the receivers of its beats and the
// receivers of its news. The list alone determines the watchers of each node, so
// nodes with the same list agree without a message.
type ring struct {
	stale    bool
	version  uint64 // grows with every change
	watching []*entry
	tellers  []*entry // predecessors: they watch this node, which sends beats to them
	links    []*entry // news are sent to these members
}

// refresh recomputes the ring after a change in the list.
func (m *List) refresh(out *Out) {
	if !m.ring.stale {
		return
	}
	m.ring.stale = false
	m.ring.version++
	if !m.joins.done || m.down {
		return
	}
	m.ring.tellers = m.walk(-1, watched, false)
	m.rewatch(out)
	m.ring.links = m.fingers(m.walk(1, watched, true), m.ring.links)
	if m.live > 1 {
		if m.beatAt == filch.Never {
			m.beatAt = m.now
		}
		m.tick = min(m.tick, m.now+checkEvery)
	}
}

// place is the index of an entry in the list.
func (m *List) place(e *entry) int {
	i, _ := slices.BinarySearchFunc(m.all, e, func(a, b *entry) int { return compareNodes(a.key, a.m.Name, b.key, b.m.Name) })
	return i
}

// walk returns the next n members in one direction; with sure, Alive members only.
func (m *List) walk(dir, n int, sure bool) []*entry {
	at := m.place(m.self)
	var out []*entry
	for i := 1; i < len(m.all) && len(out) < n; i++ {
		e := m.all[((at+dir*i)%len(m.all)+len(m.all))%len(m.all)]
		if e.m.State == Alive || !e.m.State.Over() && !sure {
			out = append(out, e)
		}
	}
	return out
}

// rewatch chooses the watched members: the next successors, and one more for each
// suspect, so the failure of a whole rack is found in a few rounds.
func (m *List) rewatch(out *Out) {
	at := m.place(m.self)
	old := m.ring.watching
	m.ring.watching = nil
	want := watched
	for i := 1; i < len(m.all) && want > 0 && len(m.ring.watching) < maxWatch; i++ {
		e := m.all[(at+i)%len(m.all)]
		switch e.m.State {
		case Alive:
			want--
		case Suspect, Gone:
			want++
		default:
			continue
		}
		m.ring.watching = append(m.ring.watching, e)
		if e.watch == nil {
			e.watch = &suspicion{since: m.awake}
			m.ping(e, out)
		}
	}
	for _, e := range old {
		if !slices.Contains(m.ring.watching, e) {
			e.watch = nil
		}
	}
}

// fingers adds to the successors a member at each distance of a half to all of the
// ring, of a quarter to a half, an eighth to a quarter and so on. News sent to all
// links reach every node in about log2(n) steps. Any member at the distance serves,
// so the previous finger stays: otherwise each new node would displace some
// fingers, at the cost of as many new connections.
func (m *List) fingers(links, before []*entry) []*entry {
	for k := range bits.Len(uint(m.live)) + 1 {
		if e := m.finger(k, links, before); e != nil && !slices.Contains(links, e) {
			links = append(links, e)
		}
	}
	return links
}

// finger is the link at the k-th distance, or nil if there is no live member.
func (m *List) finger(k int, links, before []*entry) *entry {
	near := uint64(1) << (63 - k)
	at := func(e *entry) bool {
		d := e.key - m.self.key
		return d >= near && (d-near) < near && e != m.self
	}
	for _, l := range [][]*entry{links, before} {
		for _, e := range l {
			if e.m.State == Alive && m.index[e.m.Name] == e && at(e) {
				return e
			}
		}
	}
	target := m.self.key + near
	i, _ := slices.BinarySearchFunc(m.all, target, func(e *entry, k uint64) int { return compareNodes(e.key, e.m.Name, k, "") })
	for j := range m.all {
		e := m.all[(i+j)%len(m.all)]
		if !at(e) {
			break
		}
		if e.m.State == Alive {
			return e
		}
	}
	return nil
}

// RingVersion grows whenever Neighbors may have changed.
func (m *List) RingVersion() uint64 { return m.ring.version }

// Neighbors are the members in constant contact with this node: their connections
// should stay open.
func (m *List) Neighbors() []filch.NodeName {
	var out []filch.NodeName
	for _, l := range [][]*entry{m.ring.watching, m.ring.tellers, m.ring.links} {
		for _, e := range l {
			if !slices.Contains(out, e.m.Name) {
				out = append(out, e.m.Name)
			}
		}
	}
	return out
}

// responsible reports whether this node must probe a dead member again: this node
// is one of the nodes due to send news to the dead member.
func (m *List) responsible(e *entry) bool {
	i := m.place(e)
	n := 0
	for j := 1; j < len(m.all) && n < watched; j++ {
		p := m.all[((i-j)%len(m.all)+len(m.all))%len(m.all)]
		if p == m.self {
			return true
		}
		if !p.m.State.Over() {
			n++
		}
	}
	return false
}
