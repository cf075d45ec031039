package dht

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// joining is the state of a node that wants the list, and of the questions
// that wait for a probe.
type joining struct {
	done   bool
	at     time.Duration // when to ask (again)
	via    []filch.NodeName
	next   int
	late   []filch.NodeName // joined to via at lateAt
	lateAt time.Duration
	nonce  uint32
	got    []bool // pages of the list
	left   int
	asks   []ask
	again  comeback
}

// comeback is what a node that was a member before knows of others that want the
// list as well. All members may have ended at once: then nobody has it.
type comeback struct {
	on     bool
	began  time.Duration
	others []waiter
}

// waiter is another node that wants the list.
type waiter struct {
	name  filch.NodeName
	heard time.Duration // when it asked last
	told  time.Duration // when it was told that this node wants the list too
}

// A node begins the list if all that it reaches want it too and have said so within
// waitsFor, and none of them has a lesser name. It takes beginAfter to find out, and
// asks every againEvery: its keepers wait for it meanwhile, which they do for 6.5 s.
const (
	beginAfter = 1500 * time.Millisecond
	waitsFor   = 3 * time.Second
	againEvery = 250 * time.Millisecond
	maxWaiters = 64
)

// Verdict on a node that says hello.
type Verdict struct {
	// OK: take it in. Probe: whether the addresses in Addrs still answer
	// decides; then call Admit again.
	OK, Probe bool
	// Stale: the name is known with this higher incarnation; the node may
	// come back with one higher still.
	Stale uint64
	Addrs []string // of the node that has the name
}

// Admit judges a node that says hello: one name has one holder.
func (m *Members) Admit(h Member) Verdict {
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

// Met takes in the entry of a node that was admitted.
func (m *Members) Met(now time.Duration, h Member, out *MembersOut) {
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

// Apart makes a node that is to join deaf to gossip until it has the list.
func (m *Members) Apart() { m.joins.done, m.joins.at = false, filch.Never }

// ApartAgain is Apart for a node that was a member before. Of such nodes that reach
// one another, and nobody who has the list, one begins it.
func (m *Members) ApartAgain(now time.Duration) {
	m.step(now)
	m.Apart()
	m.joins.again = comeback{on: true, began: m.now}
}

// Meet makes one list of this node's and of another's, if they differ. The caller
// can reach it.
func (m *Members) Meet(now time.Duration, name filch.NodeName, out *MembersOut) {
	m.step(now)
	if e := m.index[name]; !m.down && m.joins.done && (e == nil || e.m.State.Over()) {
		m.send(name, &gossip{kind: kindSync, sums: m.sums}, out)
	}
}

// Raise gives a node that has not joined a higher incarnation.
func (m *Members) Raise(incarnation uint64) {
	m.sum(m.self)
	m.self.m.Incarnation = max(m.self.m.Incarnation, incarnation)
	m.sum(m.self)
}

// Superseded tells that a peer refused this node because it knows the name
// with a higher incarnation.
func (m *Members) Superseded(now time.Duration, by filch.NodeName, incarnation uint64, out *MembersOut) {
	m.step(now)
	if !m.down && m.joins.done && incarnation > m.self.m.Incarnation {
		n := m.self.m.clone()
		n.Incarnation = incarnation
		m.fall(MemberEvent{Kind: SelfDead, Member: n, By: by, Taken: true}, out)
	}
}

// Join asks the named nodes, one after the other, to be taken in. The caller
// can reach them.
func (m *Members) Join(now time.Duration, via []filch.NodeName, out *MembersOut) {
	m.step(now)
	if m.joins.again.on { // the least name is asked first, as it may begin the list
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

func (m *Members) askToJoin(out *MembersOut) {
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
	m.rand = mix(m.rand + 1)
	j.nonce, j.got = uint32(m.rand), nil
	to := j.via[j.next%len(j.via)]
	if m.waits(to) && m.waits(j.via[0]) {
		to = j.via[0]
	}
	j.next++
	m.send(to, &gossip{kind: kindJoin, nonce: j.nonce, members: []Member{m.self.m}}, out)
}

// onJoin takes a node in and sends it the list.
func (m *Members) onJoin(from filch.NodeName, g *gossip, out *MembersOut) {
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

// waitsToo takes in that another node wants the list as well, and tells it that
// this one does.
func (m *Members) waitsToo(from filch.NodeName, out *MembersOut) {
	j := &m.joins
	c := &j.again
	i := slices.IndexFunc(c.others, func(w waiter) bool { return w.name == from })
	if !c.on || i < 0 && len(c.others) == maxWaiters {
		return
	}
	known := m.waits(from)
	if !slices.Contains(j.via, from) { // this node may reach nobody at the addresses that it knows
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
		m.askToJoin(out) // the next one: this one has no list
	}
}

// invited has a node that was a member before, and may reach nobody at the addresses
// that it knows, ask the one that looks for it, and has the list.
func (m *Members) invited(from filch.NodeName, out *MembersOut) {
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

// waits reports whether a node said of late that it wants the list.
func (m *Members) waits(name filch.NodeName) bool {
	return slices.ContainsFunc(m.joins.again.others, func(w waiter) bool { return w.name == name && m.now-w.heard < waitsFor })
}

// mayBegin reports whether it is for this node to begin the list.
func (m *Members) mayBegin() bool {
	j := &m.joins
	if c := &j.again; !c.on || m.now < c.began+beginAfter || len(j.via) == 0 {
		return false
	}
	for _, name := range j.via {
		if !m.waits(name) {
			return false // it may have the list
		}
	}
	return !slices.ContainsFunc(j.again.others, func(w waiter) bool { return w.name < m.self.m.Name && m.waits(w.name) })
}

// begin makes this node's list the one that the others join.
func (m *Members) begin(out *MembersOut) {
	m.joins.done, m.joins.at, m.joins.again = true, filch.Never, comeback{}
	m.ring.stale = true
	out.Events = append(out.Events, MemberEvent{Kind: SelfJoined, Member: m.self.m.clone()})
	m.beatAt = m.now
}

// onList takes a page of the list. Those who are gone are taken in as well: a
// node that comes back from the other side of a cut must know whose word does
// not count.
func (m *Members) onList(from filch.NodeName, g *gossip, out *MembersOut) {
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
	// All of it is known where it came from.
	for _, e := range m.news.list {
		e.fresh = false
	}
	m.news.list = m.news.list[:0]
	out.Events = append(out.Events, MemberEvent{Kind: SelfJoined, Member: m.self.m.clone()})
	m.beatAt = m.now
}

// aboutSelf hears what others say of this node: a suspicion, or that it is
// gone, is refuted with a new version, a death is final.
func (m *Members) aboutSelf(from filch.NodeName, n *Member, out *MembersOut) {
	self := &m.self.m
	switch {
	case n.Incarnation < self.Incarnation:
	case n.Incarnation > self.Incarnation:
		m.fall(MemberEvent{Kind: SelfDead, Member: n.clone(), By: from, Taken: !n.State.Over()}, out)
	case n.State == Dead:
		m.fall(MemberEvent{Kind: SelfDead, Member: n.clone(), By: from}, out)
	case n.State == Left || n.Version < self.Version:
	case n.State == Suspect || n.State == Gone || n.Version > self.Version:
		m.renew(max(n.Version, self.Version)+1, out)
	}
}

// renew publishes this node's entry under a new version.
func (m *Members) renew(version uint32, out *MembersOut) {
	m.sum(m.self)
	m.self.m.Version = version
	m.sum(m.self)
	m.publish(m.self, "")
	m.flush(out)
}

// onNotice hears that this node was declared dead. When it has declared the
// other one dead as well, the network was cut: the smaller side yields.
func (m *Members) onNotice(from filch.NodeName, incarnation uint64, g *gossip, out *MembersOut) {
	n := g.members[0]
	if n.Name != m.self.m.Name || n.Incarnation < m.self.m.Incarnation || !n.State.Over() {
		return
	}
	e := m.index[from]
	if e != nil && e.m.Incarnation > incarnation {
		return // whoever said so has started anew since, and thinks otherwise
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
	m.fall(MemberEvent{Kind: SelfDead, Member: n, By: from, Mutual: mutual}, out)
}

// fall stops everything until Rejoin.
func (m *Members) fall(ev MemberEvent, out *MembersOut) {
	m.down = true
	m.joins.at = filch.Never
	m.joins.asks = nil
	m.contacts(ev.By)
	out.Events = append(out.Events, ev)
}

// contacts chooses whom to ask for the list after a death: whoever told of it,
// and the other side of the cut, which are those whom this node declared dead.
// Its own side is asked only when nobody else has answered for long, for its
// list holds the deaths that it declared while it was cut off.
func (m *Members) contacts(teller filch.NodeName) {
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
func (m *Members) some(names []filch.NodeName) []filch.NodeName {
	for i := range names {
		j := i + m.random(len(names)-i)
		names[i], names[j] = names[j], names[i]
	}
	return names[:min(len(names), maxContacts)]
}

// Rejoin comes back after SelfDead under a new incarnation, at least the given one.
// All that was known of the others is void: each is reported dead, and then up
// as the list says. What this node declared while it was cut off is forgotten.
func (m *Members) Rejoin(now time.Duration, incarnation uint64, out *MembersOut) {
	m.step(now)
	self := m.self.m.clone()
	self.Incarnation = max(self.Incarnation+1, incarnation)
	self.Version = 0
	out.Events = append(out.Events, MemberEvent{Kind: SelfBack, Member: self.clone()})
	for _, e := range m.all {
		if e != m.self && !e.m.State.Over() {
			d := e.m.clone()
			d.State = Dead
			out.Events = append(out.Events, MemberEvent{Kind: MemberDead, Member: d})
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

// Leave tells everybody that this node goes.
func (m *Members) Leave(now time.Duration, out *MembersOut) {
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

// Update changes what this node says about itself; nil leaves a field as it is.
func (m *Members) Update(now time.Duration, draining *bool, capacity []byte, addrs []string, out *MembersOut) {
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
