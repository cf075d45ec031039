package members

import (
	"time"

	"github.com/filch-hpc/filch"
)

// Raise gives a node a higher incarnation before joining.
func (m *List) Raise(incarnation uint64) {
	m.table.toggle(m.table.self)
	m.table.self.m.Incarnation = max(m.table.self.m.Incarnation, incarnation)
	m.table.toggle(m.table.self)
}

// Superseded reports a refusal: a peer knows this node's name with a higher
// incarnation.
func (m *List) Superseded(now time.Duration, by filch.NodeName, incarnation uint64, out *Out) {
	m.clock.step(now)
	if !m.down && m.join.done && incarnation > m.table.self.m.Incarnation {
		n := m.table.self.m.clone()
		n.Incarnation = incarnation
		m.fall(Event{Kind: SelfDead, Member: n, By: by, Taken: true}, out)
	}
}

// aboutSelf handles another node's entry of this node: a suspicion or a claim of
// Gone is refuted with a new version, a death is final.
func (m *List) aboutSelf(from filch.NodeName, n *Member, out *Out) {
	self := &m.table.self.m
	switch {
	case n.Incarnation < self.Incarnation:
	case n.Incarnation > self.Incarnation:
		m.fall(Event{Kind: SelfDead, Member: n.clone(), By: from, Taken: !n.State.Over()}, out)
	case n.State == Dead:
		m.fall(Event{Kind: SelfDead, Member: n.clone(), By: from}, out)
	case n.State == Left || n.Version < self.Version:
	case n.State == Suspect || n.State == Gone || n.Version > self.Version:
		m.renew(max(n.Version, self.Version)+1, out)
	}
}

// renew publishes this node's entry under a new version.
func (m *List) renew(version uint32, out *Out) {
	m.table.toggle(m.table.self)
	m.table.self.m.Version = version
	m.table.toggle(m.table.self)
	m.news.publish(m.table.self, "")
	m.flush(out)
}

// onNotice handles the notice of this node's death. If this node has declared the
// sender dead as well, the network was cut: the smaller side yields.
func (m *List) onNotice(from filch.NodeName, incarnation uint64, g *gossip, out *Out) {
	n := g.members[0]
	if n.Name != m.table.self.m.Name || n.Incarnation < m.table.self.m.Incarnation || !n.State.Over() {
		return
	}
	e := m.table.index[from]
	if e == nil && m.Contacts.disputes(from, incarnation, g, out) {
		return
	}
	if e != nil && e.m.Incarnation > incarnation {
		return // the sender has rejoined since, and no longer holds this opinion
	}
	mutual := e != nil && e.m.State == Dead && e.m.Incarnation >= incarnation
	if mutual {
		size, leader := m.table.side()
		if size > int(g.nonce) || size == int(g.nonce) && string(leader) < g.leader {
			if e.told == 0 || m.clock.now-e.told >= BeatEvery {
				e.told = m.clock.now
				m.notice(e, incarnation, out)
			}
			return
		}
	}
	m.fall(Event{Kind: SelfDead, Member: n, By: from, Mutual: mutual}, out)
}

// fall stops everything until Rejoin.
func (m *List) fall(ev Event, out *Out) {
	m.down = true
	m.join.at = filch.Never
	m.detector.asks = nil
	m.join.contacts(ev.By)
	out.Events = append(out.Events, ev)
}

// Rejoin comes back after SelfDead under a new incarnation, at least the given one.
// All knowledge of the other nodes is void: each is reported dead, and then up as
// the new list says. Deaths declared by this node while cut off are forgotten.
func (m *List) Rejoin(now time.Duration, incarnation uint64, out *Out) {
	m.clock.step(now)
	self := m.table.self.m.clone()
	self.Incarnation = max(self.Incarnation+1, incarnation)
	self.Version = 0
	out.Events = append(out.Events, Event{Kind: SelfBack, Member: self.clone()})
	for _, e := range m.table.all {
		if e != m.table.self && !e.m.State.Over() {
			d := e.m.clone()
			d.State = Dead
			out.Events = append(out.Events, Event{Kind: EventDead, Member: d})
		}
	}
	m.Contacts.reset(out)
	m.down = false
	m.reset(self)
	m.join.restart()
	if len(m.join.via)+len(m.join.late) == 0 {
		m.join.done = true
		return
	}
	m.join.request(out)
}

// Leave sends this node's departure to all neighbors.
func (m *List) Leave(now time.Duration, out *Out) {
	m.clock.step(now)
	if m.down {
		return
	}
	m.refresh(out)
	bye := m.table.self.m
	bye.State = Left
	bye.Version++
	for _, n := range m.Neighbors() {
		out.send(n, &gossip{kind: kindNews, members: []Member{bye}})
	}
	m.down = true
}

// Update changes this node's own entry; nil leaves a field unchanged.
func (m *List) Update(now time.Duration, draining *bool, capacity []byte, addrs []string, out *Out) {
	m.clock.step(now)
	self := &m.table.self.m
	if draining != nil {
		self.Draining = *draining
	}
	if capacity != nil {
		self.Capacity = append([]byte(nil), capacity...)
	}
	if addrs != nil {
		self.Addrs = append([]string(nil), addrs...)
	}
	if !m.down {
		m.renew(self.Version+1, out)
	}
}

// stranger reports whether a message comes from a dead or departed node, or from an
// incarnation already over. The list sends such a node a notice and ignores the
// message: deaths declared by a cut-off node are the node's own mistakes.
func (m *List) stranger(e *entry, incarnation uint64, g *gossip, out *Out) bool {
	if incarnation > e.m.Incarnation || incarnation == e.m.Incarnation && !e.m.State.Over() {
		return false
	}
	if g.kind == kindJoin && g.members[0].Incarnation > e.m.Incarnation {
		return false
	}
	if incarnation == e.m.Incarnation && e.m.State == Left {
		return true
	}
	if e.told == 0 || m.clock.now-e.told >= BeatEvery {
		e.told = m.clock.now
		m.notice(e, incarnation, out)
	}
	return true
}

// notice tells a node of the end of the node's incarnation.
func (m *List) notice(e *entry, incarnation uint64, out *Out) {
	d := e.m
	if !d.State.Over() {
		d.State = Dead // superseded by a later incarnation
	}
	d.Incarnation = max(d.Incarnation, incarnation)
	n, leader := m.table.side()
	out.send(e.m.Name, &gossip{kind: kindNotice, nonce: uint32(n), leader: string(leader), members: []Member{d}})
}
