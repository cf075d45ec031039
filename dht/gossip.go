package dht

import (
	"time"

	"github.com/filch-hpc/filch"
)

// news are the entries that are to be told on.
type news struct {
	list []*entry
	last time.Duration // when the last were sent
	dead bool          // there is a death among them, or that of a process
	any  bool          // last means something
}

func (n *news) at() time.Duration {
	if len(n.list) == 0 {
		return filch.Never
	}
	if !n.any {
		return 0
	}
	if n.dead {
		return n.last + deathGap
	}
	return n.last + newsGap
}

// publish puts an entry among the news.
func (m *Members) publish(e *entry, from filch.NodeName) {
	if e.m.State == Dead || e.m.State == Gone {
		m.news.dead = true
	}
	e.source = from
	if !e.fresh {
		e.fresh = true
		m.news.list = append(m.news.list, e)
	}
}

// flush sends the news along the links when it is time.
func (m *Members) flush(out *MembersOut) {
	if m.news.at() > m.now || !m.joins.done || m.down {
		return
	}
	m.refresh(out)
	for _, l := range m.ring.links {
		var ms []Member
		for _, e := range m.news.list {
			if e.source != l.m.Name && e != l {
				ms = append(ms, e.m)
			}
		}
		for _, p := range pages(ms) {
			m.send(l.m.Name, &gossip{kind: kindNews, members: p}, out)
		}
	}
	for _, e := range m.news.list {
		e.fresh = false
	}
	m.news.list = m.news.list[:0]
	m.news.last, m.news.dead, m.news.any = m.now, false, true
}

func (m *Members) send(to filch.NodeName, g *gossip, out *MembersOut) {
	out.Sends = append(out.Sends, MemberSend{to, g.encode()})
}

// Message takes a gossip message from another node; incarnation is the
// sender's, as the connection proved it. An error is a message that breaks the
// protocol.
func (m *Members) Message(now time.Duration, from filch.NodeName, incarnation uint64, payload []byte, out *MembersOut) error {
	g, err := decodeGossip(payload)
	if err != nil {
		return err
	}
	m.step(now)
	if m.down {
		return nil
	}
	e := m.index[from]
	if g.kind == kindNotice {
		m.onNotice(from, incarnation, g, out)
		return nil
	}
	if e != nil && e != m.self && m.stranger(e, incarnation, g, out) {
		m.flush(out)
		return nil
	}
	if e != nil && e.m.Incarnation == incarnation {
		e.heard = m.awake
		m.wronged(e, out)
	}
	if !m.joins.done && g.kind != kindList && g.kind != kindPing && g.kind != kindJoin {
		if g.kind == kindSync {
			m.invited(from, out)
			m.flush(out)
		}
		return nil
	}
	m.dispatch(from, e, g, out)
	m.refresh(out)
	m.flush(out)
	return nil
}

// stranger reports whether a message comes from a node that is gone, or from
// an incarnation that is over. Such a one is told, and nothing it says counts:
// the deaths that it declared while it was cut off are its own mistakes.
func (m *Members) stranger(e *entry, incarnation uint64, g *gossip, out *MembersOut) bool {
	if incarnation > e.m.Incarnation || incarnation == e.m.Incarnation && !e.m.State.Over() {
		return false
	}
	if g.kind == kindJoin && g.members[0].Incarnation > e.m.Incarnation {
		return false
	}
	if incarnation == e.m.Incarnation && e.m.State == Left {
		return true
	}
	if e.told == 0 || m.now-e.told >= BeatEvery {
		e.told = m.now
		m.notice(e, incarnation, out)
	}
	return true
}

// notice tells a node that its incarnation is over.
func (m *Members) notice(e *entry, incarnation uint64, out *MembersOut) {
	d := e.m
	if !d.State.Over() {
		d.State = Dead // superseded by a later incarnation
	}
	d.Incarnation = max(d.Incarnation, incarnation)
	n, leader := m.side()
	m.send(e.m.Name, &gossip{kind: kindNotice, nonce: uint32(n), leader: string(leader), members: []Member{d}}, out)
}

// side describes the part of the instance that this node can see: how many
// live, and the least of their names.
func (m *Members) side() (n int, leader filch.NodeName) {
	leader = m.self.m.Name
	for _, e := range m.all {
		if !e.m.State.Over() && e.m.Name < leader {
			leader = e.m.Name
		}
	}
	return m.live, leader
}

func (m *Members) dispatch(from filch.NodeName, e *entry, g *gossip, out *MembersOut) {
	switch g.kind {
	case kindBeat:
		m.compare(e, g.sum, out)
	case kindPing:
		m.onPing(from, e, g, out)
	case kindAck:
		m.merge(from, &g.members[0], out)
		m.compare(e, g.sum, out)
	case kindNews:
		for i := range g.members {
			m.merge(from, &g.members[i], out)
		}
	case kindJoin:
		m.onJoin(from, g, out)
	case kindList:
		m.onList(from, g, out)
	case kindSync:
		m.onSync(from, g, out)
	case kindSyncBack:
		m.sendBuckets(from, g.sum, out)
	case kindAsk:
		m.onAsk(from, g.members[0], out)
	case kindSay:
		m.onSay(g, out)
	}
}

// onPing answers a watcher, who may know this node as a suspect, and goes on
// to tell it for a while.
func (m *Members) onPing(from filch.NodeName, e *entry, g *gossip, out *MembersOut) {
	if g.members[0].Name != m.self.m.Name {
		return
	}
	m.aboutSelf(from, &g.members[0], out)
	if m.down {
		return
	}
	if e != nil {
		e.lease = m.now + leaseFor
	}
	m.send(from, &gossip{kind: kindAck, sum: m.total(), members: []Member{m.self.m}}, out)
}

// compare looks whether two lists differ for longer than news are under way,
// and then finds out where.
func (m *Members) compare(e *entry, sum uint64, out *MembersOut) {
	if e == nil {
		return
	}
	if sum == m.total() {
		e.differ = 0
		return
	}
	e.differ++
	if e.differ >= 2 && m.now >= m.syncAt {
		e.differ = 0
		m.syncAt = m.now + syncEvery
		m.send(e.m.Name, &gossip{kind: kindSync, sums: m.sums}, out)
	}
}

// onSync sends the buckets that differ and asks for the other side's.
func (m *Members) onSync(from filch.NodeName, g *gossip, out *MembersOut) {
	var mask uint64
	for i, s := range g.sums {
		if s != m.sums[i] {
			mask |= 1 << i
		}
	}
	if mask != 0 {
		m.sendBuckets(from, mask, out)
		m.send(from, &gossip{kind: kindSyncBack, sum: mask}, out)
	}
}

// sendBuckets sends all entries of some buckets, those who are gone included:
// the other side may not know of the end.
func (m *Members) sendBuckets(to filch.NodeName, mask uint64, out *MembersOut) {
	var ms []Member
	for _, e := range m.all {
		if mask&(1<<(e.key%buckets)) != 0 {
			ms = append(ms, e.m)
		}
	}
	for _, p := range pages(ms) {
		m.send(to, &gossip{kind: kindNews, members: p}, out)
	}
}
