package dht

import (
	"math/bits"
	"slices"

	"github.com/filch-hpc/filch"
)

// ring is who this node watches, tells and gossips with. Who watches whom follows
// from the list alone, so that nodes with the same list agree without a word.
type ring struct {
	stale    bool
	version  uint64 // grows with every change
	watching []*entry
	tellers  []*entry // predecessors: they watch this node
	links    []*entry // news go to them
}

// refresh works the ring out anew after a change in the list.
func (m *Members) refresh(out *MembersOut) {
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

// place is where an entry stands in the list.
func (m *Members) place(e *entry) int {
	i, _ := slices.BinarySearchFunc(m.all, e, func(a, b *entry) int { return compareNodes(a.key, a.m.Name, b.key, b.m.Name) })
	return i
}

// walk returns the next n members in one direction, if asked only those that are
// not in doubt.
func (m *Members) walk(dir, n int, sure bool) []*entry {
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

// rewatch chooses who is watched: the next successors, and behind suspects as
// many more again, so that a whole rack's failure is found in a few rounds.
func (m *Members) rewatch(out *MembersOut) {
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
			e.watch = &watch{since: m.awake}
			m.ping(e, out)
		}
	}
	for _, e := range old {
		if !slices.Contains(m.ring.watching, e) {
			e.watch = nil
		}
	}
}

// fingers adds to the successors a member at each distance of a half to all of
// the ring, of a quarter to a half, an eighth to a quarter and so on. News that go
// to them all reach everybody in about log2(n) steps. Any member at that distance
// serves, so the one of before stays: otherwise each node that comes would take
// the place of some, and as many connections would be made for it.
func (m *Members) fingers(links, before []*entry) []*entry {
	for k := range bits.Len(uint(m.live)) + 1 {
		if e := m.finger(k, links, before); e != nil && !slices.Contains(links, e) {
			links = append(links, e)
		}
	}
	return links
}

// finger is the link at the k-th distance, nil if nobody is there.
func (m *Members) finger(k int, links, before []*entry) *entry {
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
func (m *Members) RingVersion() uint64 { return m.ring.version }

// Neighbors are the members that this node talks with all the time: their
// connections should stay open.
func (m *Members) Neighbors() []filch.NodeName {
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

// responsible reports whether this node is to try a dead one again: it is one
// of those who would tell it of the news.
func (m *Members) responsible(e *entry) bool {
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
