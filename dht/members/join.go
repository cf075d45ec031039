package members

import (
	"time"

	"github.com/filch-hpc/filch"
)

// Verdict is the judgment of a node's hello.
type Verdict struct {
	// OK: take the node in. Probe: the answer depends on whether the addresses in
	// Addrs still answer; probe, then call Admit again.
	OK, Probe bool
	// Stale: the name is known with this higher incarnation; the node may come back
	// with a still higher incarnation.
	Stale uint64
	Addrs []string // of the node holding the name
}

// Admit judges a node's hello: one name has one holder.
func (m *List) Admit(h Member) Verdict {
	if h.Name == m.table.self.m.Name {
		return Verdict{Addrs: m.table.self.m.Addrs}
	}
	e := m.table.index[h.Name]
	switch {
	case e == nil || h.Incarnation == e.m.Incarnation:
		return Verdict{OK: true}
	case h.Incarnation < e.m.Incarnation:
		return Verdict{Stale: e.m.Incarnation, Addrs: e.m.Addrs}
	case e.m.State.Over() || sameAddr(h.Addrs, e.m.Addrs):
		return Verdict{OK: true}
	}
	return Verdict{Probe: true, Addrs: e.m.Addrs}
}

// Met receives the entry of an admitted node.
func (m *List) Met(now time.Duration, h Member, out *Out) {
	m.clock.step(now)
	if m.down || h.State.Over() || h.Name == m.table.self.m.Name {
		return
	}
	if !m.join.done {
		m.Contacts.before(&h)
		return
	}
	m.merge(h.Name, &h, out)
	if m.table.index[h.Name] == nil {
		m.Contacts.meet(&h, out)
	}
	if e := m.table.index[h.Name]; e != nil && e.m.Incarnation == h.Incarnation {
		e.heard = m.clock.awake
	}
	m.refresh(out)
	m.flush(out)
}

// Apart makes a joining node ignore gossip until the list has arrived.
func (m *List) Apart() { m.join.done, m.join.at = false, filch.Never }

// ApartAgain is Apart for a former member. If such nodes reach one another and no
// node with the list, one of the nodes begins the list.
func (m *List) ApartAgain(now time.Duration) {
	m.clock.step(now)
	m.Apart()
	m.join.again = comeback{on: true, began: m.clock.now}
}

// Meet merges this node's list with another node's, if they differ. The caller can
// reach the other node.
func (m *List) Meet(now time.Duration, name filch.NodeName, out *Out) {
	m.clock.step(now)
	if e := m.table.index[name]; !m.down && m.join.done && (e == nil || e.m.State.Over()) {
		m.sync.start(name, out)
	}
}

// Join asks the named nodes for the list, one after the other. The caller can reach
// the named nodes.
func (m *List) Join(now time.Duration, via []filch.NodeName, out *Out) {
	m.clock.step(now)
	m.join.start(via, out)
}

// onJoin takes a node in and sends the list to the node.
func (m *List) onJoin(from filch.NodeName, g *gossip, out *Out) {
	if g.members[0].Name != from {
		return
	}
	if !m.join.done {
		m.join.waitsToo(from, out)
		return
	}
	n := g.members[0]
	if e := m.table.index[from]; n.State.Over() || e != nil && e.m.State.Over() && e.m.Incarnation >= n.Incarnation {
		return
	}
	m.merge(from, &n, out)
	ms := make([]Member, 0, len(m.table.all))
	for _, e := range m.table.all {
		ms = append(ms, e.m)
	}
	all := pages(ms)
	for i, p := range all {
		out.send(from, &gossip{kind: kindList, nonce: g.nonce, page: uint16(i), pages: uint16(len(all)), members: p})
	}
}

// onList receives a page of the list. Dead and departed members are taken in as
// well: a node returning from the other side of a cut must know which senders to
// ignore.
func (m *List) onList(from filch.NodeName, g *gossip, out *Out) {
	if !m.join.takes(g) {
		return
	}
	for i := range g.members {
		m.merge(from, &g.members[i], out)
		if m.down {
			return
		}
	}
	if m.join.left == 0 {
		m.news.drop() // the sender already knows the whole list
		m.begin(out)
	}
}

// begin ends the join of this node. The node has the list, or its own list becomes the
// list for the others to join.
func (m *List) begin(out *Out) {
	m.join.finish()
	m.ring.stale = true
	m.Contacts.joined(out)
	out.Events = append(out.Events, Event{Kind: SelfJoined, Member: m.table.self.m.clone()})
	m.beatAt = m.clock.now
}
