package members

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// joining is the state of a node asking for the list, and of the witness questions
// pending until a probe ends.
type joining struct {
	done   bool
	at     time.Duration // when to ask (again)
	via    []filch.NodeName
	next   int
	late   []filch.NodeName // appended to via at lateAt
	lateAt time.Duration
	nonce  uint32
	got    []bool // pages of the list
	left   int
	asks   []ask
	again  comeback
}

// comeback is what a former member knows of other nodes asking for the list. All
// members may have ended at once: then no node has the list.
type comeback struct {
	on     bool
	began  time.Duration
	others []waiter
}

// waiter is another node asking for the list.
type waiter struct {
	name  filch.NodeName
	heard time.Duration // when the node last asked
	told  time.Duration // when this node's own request was last sent to the node
}

// A node begins the list if all nodes in reach want the list too and have said so
// within waitsFor, and none has a lesser name. The node waits for beginAfter before
// the decision, and asks the others every againEvery. The node's keepers wait
// meanwhile, for at most 6.5 s.
const (
	beginAfter = 1500 * time.Millisecond
	waitsFor   = 3 * time.Second
	againEvery = 250 * time.Millisecond
	maxWaiters = 64
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
	if h.Name == m.self.m.Name {
		return Verdict{Addrs: m.self.m.Addrs}
	}
	e := m.index[h.Name]
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
	m.step(now)
	if m.down || h.State.Over() || h.Name == m.self.m.Name {
		return
	}
	if !m.joins.done {
		return
	}
	m.merge(h.Name, &h, out)
	if e := m.index[h.Name]; e != nil && e.m.Incarnation == h.Incarnation {
		e.heard = m.awake
	}
	m.refresh(out)
	m.flush(out)
}

// Apart makes a joining node ignore gossip until the list has arrived.
func (m *List) Apart() { m.joins.done, m.joins.at = false, filch.Never }

// ApartAgain is Apart for a former member. If such nodes reach one another and no
// node with the list, one of the nodes begins the list.
func (m *List) ApartAgain(now time.Duration) {
	m.step(now)
	m.Apart()
	m.joins.again = comeback{on: true, began: m.now}
}

// Meet merges this node's list with another node's, if they differ. The caller can
// reach the other node.
func (m *List) Meet(now time.Duration, name filch.NodeName, out *Out) {
	m.step(now)
	if e := m.index[name]; !m.down && m.joins.done && (e == nil || e.m.State.Over()) {
		m.send(name, &gossip{kind: kindSync, sums: m.sums}, out)
	}
}

// Raise gives a node a higher incarnation before joining.
func (m *List) Raise(incarnation uint64) {
	m.sum(m.self)
	m.self.m.Incarnation = max(m.self.m.Incarnation, incarnation)
	m.sum(m.self)
}

// Superseded reports a refusal: a peer knows this node's name with a higher
// incarnation.
func (m *List) Superseded(now time.Duration, by filch.NodeName, incarnation uint64, out *Out) {
	m.step(now)
	if !m.down && m.joins.done && incarnation > m.self.m.Incarnation {
		n := m.self.m.clone()
		n.Incarnation = incarnation
		m.fall(Event{Kind: SelfDead, Member: n, By: by, Taken: true}, out)
	}
}

// Join asks the named nodes for the list, one after the other. The caller can reach
// the named nodes.
func (m *List) Join(now time.Duration, via []filch.NodeName, out *Out) {
	m.step(now)
	if m.joins.again.on { // ask the least name first: the least name may begin the list
		for _, w := range m.joins.again.others {
			if m.waits(w.name) {
				via = append(via, w.name)
			}
		}
		slices.Sort(via)
		via = slices.Compact(via)
	}
	m.joins.done, m.joins.via, m.joins.next = false, via, 0
	m.askToJoin(out)
}

func (m *List) askToJoin(out *Out) {
	j := &m.joins
	j.at = m.now + joinEvery
	if j.again.on {
		j.at = m.now + againEvery
	}
	if len(j.late) > 0 && j.lateAt <= m.now {
		j.via, j.late = append(j.via, j.late...), nil
	}
	if len(j.via) == 0 {
		return
	}
	m.rand = filch.Mix(m.rand + 1)
	j.nonce, j.got = uint32(m.rand), nil
	to := j.via[j.next%len(j.via)]
	if m.waits(to) && m.waits(j.via[0]) {
		to = j.via[0]
	}
	j.next++
	m.send(to, &gossip{kind: kindJoin, nonce: j.nonce, members: []Member{m.self.m}}, out)
}

// onJoin takes a node in and sends the list to the node.
func (m *List) onJoin(from filch.NodeName, g *gossip, out *Out) {
	if g.members[0].Name != from {
		return
	}
	if !m.joins.done {
		m.waitsToo(from, out)
		return
	}
	n := g.members[0]
	if e := m.index[from]; n.State.Over() || e != nil && e.m.State.Over() && e.m.Incarnation >= n.Incarnation {
		return
	}
	m.merge(from, &n, out)
	ms := make([]Member, 0, len(m.all))
	for _, e := range m.all {
		ms = append(ms, e.m)
	}
	all := pages(ms)
	for i, p := range all {
		m.send(from, &gossip{kind: kindList, nonce: g.nonce, page: uint16(i), pages: uint16(len(all)), members: p}, out)
	}
}

// waitsToo records another node's request for the list, and sends this node's own
// request back.
func (m *List) waitsToo(from filch.NodeName, out *Out) {
	j := &m.joins
	c := &j.again
	i := slices.IndexFunc(c.others, func(w waiter) bool { return w.name == from })
	if !c.on || i < 0 && len(c.others) == maxWaiters {
		return
	}
	known := m.waits(from)
	if !slices.Contains(j.via, from) { // this node may reach no member at the known addresses
		j.via = append(j.via, from)
		slices.Sort(j.via)
		j.at = min(j.at, m.now+againEvery)
	}
	if i < 0 {
		i = len(c.others)
		c.others = append(c.others, waiter{name: from, told: -againEvery})
	}
	w := &c.others[i]
	w.heard = m.now
	if m.now-w.told >= againEvery {
		w.told = m.now
		m.send(from, &gossip{kind: kindJoin, nonce: j.nonce, members: []Member{m.self.m}}, out)
	}
	if !known && j.next > 0 && j.next < len(j.via) && j.via[j.next-1] == from {
		m.askToJoin(out) // ask the next node: from has no list
	}
}

// invited handles a kindSync from a node with the list. A former member may reach
// no node at the known addresses, so the former member asks the sender for the
// list.
func (m *List) invited(from filch.NodeName, out *Out) {
	j := &m.joins
	if !j.again.on {
		return
	}
	j.again.others = slices.DeleteFunc(j.again.others, func(w waiter) bool { return w.name == from })
	if !slices.Contains(j.via, from) {
		j.via = append(j.via, from)
		slices.Sort(j.via)
	}
	j.next = slices.Index(j.via, from)
	m.askToJoin(out)
}

// waits reports whether a node lately asked for the list.
func (m *List) waits(name filch.NodeName) bool {
	return slices.ContainsFunc(m.joins.again.others, func(w waiter) bool { return w.name == name && m.now-w.heard < waitsFor })
}

// mayBegin reports whether this node must begin the list.
func (m *List) mayBegin() bool {
	j := &m.joins
	if c := &j.again; !c.on || m.now < c.began+beginAfter || len(j.via) == 0 {
		return false
	}
	for _, name := range j.via {
		if !m.waits(name) {
			return false // the node called name may have the list
		}
	}
	return !slices.ContainsFunc(j.again.others, func(w waiter) bool { return w.name < m.self.m.Name && m.waits(w.name) })
}

// begin makes this node's list the list for the others to join.
func (m *List) begin(out *Out) {
	m.joins.done, m.joins.at, m.joins.again = true, filch.Never, comeback{}
	m.ring.stale = true
	out.Events = append(out.Events, Event{Kind: SelfJoined, Member: m.self.m.clone()})
	m.beatAt = m.now
}

// onList receives a page of the list. Dead and departed members are taken in as
// well: a node returning from the other side of a cut must know which senders to
// ignore.
func (m *List) onList(from filch.NodeName, g *gossip, out *Out) {
	j := &m.joins
	if j.done || g.nonce != j.nonce || g.pages == 0 || g.page >= g.pages {
		return
	}
	if j.got == nil {
		j.got, j.left = make([]bool, g.pages), int(g.pages)
	}
	if len(j.got) != int(g.pages) || j.got[g.page] {
		return
	}
	j.got[g.page] = true
	j.left--
	for i := range g.members {
		m.merge(from, &g.members[i], out)
		if m.down {
			return
		}
	}
	if j.left > 0 {
		return
	}
	j.done, j.at, j.again = true, filch.Never, comeback{}
	m.ring.stale = true
	// The sender already knows the whole list.
	for _, e := range m.news.list {
		e.fresh = false
	}
	m.news.list = m.news.list[:0]
	out.Events = append(out.Events, Event{Kind: SelfJoined, Member: m.self.m.clone()})
	m.beatAt = m.now
}

// aboutSelf handles another node's entry of this node: a suspicion or a claim of
// Gone is refuted with a new version, a death is final.
func (m *List) aboutSelf(from filch.NodeName, n *Member, out *Out) {
	self := &m.self.m
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
	m.sum(m.self)
	m.self.m.Version = version
	m.sum(m.self)
	m.publish(m.self, "")
	m.flush(out)
}

// onNotice handles the notice of this node's death. If this node has declared the
// sender dead as well, the network was cut: the smaller side yields.
func (m *List) onNotice(from filch.NodeName, incarnation uint64, g *gossip, out *Out) {
	n := g.members[0]
	if n.Name != m.self.m.Name || n.Incarnation < m.self.m.Incarnation || !n.State.Over() {
		return
	}
	e := m.index[from]
	if e != nil && e.m.Incarnation > incarnation {
		return // the sender has rejoined since, and no longer holds this opinion
	}
	mutual := e != nil && e.m.State == Dead && e.m.Incarnation >= incarnation
	if mutual {
		size, leader := m.side()
		if size > int(g.nonce) || size == int(g.nonce) && string(leader) < g.leader {
			if e.told == 0 || m.now-e.told >= BeatEvery {
				e.told = m.now
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
	m.joins.at = filch.Never
	m.joins.asks = nil
	m.contacts(ev.By)
	out.Events = append(out.Events, ev)
}

// contacts chooses the nodes to ask for the list after a death: the sender of the
// notice, and the other side of the cut, being the nodes declared dead by this
// node. This node's own side is asked only after a long time without an answer: the
// list of this side holds the deaths declared while cut off.
func (m *List) contacts(teller filch.NodeName) {
	var dead, live []filch.NodeName
	for _, e := range m.all {
		switch {
		case e == m.self || e.m.Name == teller:
		case e.m.State == Dead:
			dead = append(dead, e.m.Name)
		case !e.m.State.Over():
			live = append(live, e.m.Name)
		}
	}
	m.joins.via, m.joins.late = nil, nil
	if teller != "" && teller != m.self.m.Name {
		m.joins.via = append(m.joins.via, teller)
	}
	m.joins.via = append(m.joins.via, m.some(dead)...)
	if m.joins.late = m.some(live); len(dead) == 0 {
		m.joins.via, m.joins.late = append(m.joins.via, m.joins.late...), nil
	}
}

// some picks up to maxContacts names by chance.
func (m *List) some(names []filch.NodeName) []filch.NodeName {
	for i := range names {
		j := i + m.random(len(names)-i)
		names[i], names[j] = names[j], names[i]
	}
	return names[:min(len(names), maxContacts)]
}

// Rejoin comes back after SelfDead under a new incarnation, at least the given one.
// All knowledge of the other nodes is void: each is reported dead, and then up as
// the new list says. Deaths declared by this node while cut off are forgotten.
func (m *List) Rejoin(now time.Duration, incarnation uint64, out *Out) {
	m.step(now)
	self := m.self.m.clone()
	self.Incarnation = max(self.Incarnation+1, incarnation)
	self.Version = 0
	out.Events = append(out.Events, Event{Kind: SelfBack, Member: self.clone()})
	for _, e := range m.all {
		if e != m.self && !e.m.State.Over() {
			d := e.m.clone()
			d.State = Dead
			out.Events = append(out.Events, Event{Kind: EventDead, Member: d})
		}
	}
	m.down = false
	m.reset(self)
	m.joins = joining{via: m.joins.via, late: m.joins.late, lateAt: m.now + lateAfter, at: filch.Never}
	if len(m.joins.via)+len(m.joins.late) == 0 {
		m.joins.done = true
		return
	}
	m.askToJoin(out)
}

// Leave sends this node's departure to all neighbors.
func (m *List) Leave(now time.Duration, out *Out) {
	m.step(now)
	if m.down {
		return
	}
	m.refresh(out)
	bye := m.self.m
	bye.State = Left
	bye.Version++
	for _, n := range m.Neighbors() {
		m.send(n, &gossip{kind: kindNews, members: []Member{bye}}, out)
	}
	m.down = true
}

// Update changes this node's own entry; nil leaves a field unchanged.
func (m *List) Update(now time.Duration, draining *bool, capacity []byte, addrs []string, out *Out) {
	m.step(now)
	self := &m.self.m
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
