package members

import (
	"time"

	"github.com/filch-hpc/filch"
)

// news are the entries not yet sent on.
type news struct {
	list []*entry
	last time.Duration // when news were last sent
	dead bool          // the news include a death or a gone process
	any  bool          // last has been set
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

// publish adds an entry to the news.
func (m *List) publish(e *entry, from filch.NodeName) {
	if e.m.State == Dead || e.m.State == Gone {
		m.news.dead = true
	}
	e.source = from
	if !e.fresh {
		e.fresh = true
		m.news.list = append(m.news.list, e)
	}
}

// flush sends the news along the links when due.
func (m *List) flush(out *Out) {
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

func (m *List) send(to filch.NodeName, g *gossip, out *Out) {
	out.Sends = append(out.Sends, Send{to, g.encode()})
}

// Message receives a gossip message from another node; incarnation is the sender's,
// as proven by the connection. An error means the message breaks the protocol.
func (m *List) Message(now time.Duration, from filch.NodeName, incarnation uint64, payload []byte, out *Out) error {
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
	if e.told == 0 || m.now-e.told >= BeatEvery {
		e.told = m.now
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
	n, leader := m.side()
	m.send(e.m.Name, &gossip{kind: kindNotice, nonce: uint32(n), leader: string(leader), members: []Member{d}}, out)
}

// side describes the part of the instance visible to this node: the number of live
// members, and the least of their names.
func (m *List) side() (n int, leader filch.NodeName) {
	leader = m.self.m.Name
	for _, e := range m.all {
		if !e.m.State.Over() && e.m.Name < leader {
			leader = e.m.Name
		}
	}
	return m.live, leader
}

func (m *List) dispatch(from filch.NodeName, e *entry, g *gossip, out *Out) {
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

// onPing answers a watcher, which may have this node as a suspect, and keeps
// sending beats to the watcher for leaseFor.
func (m *List) onPing(from filch.NodeName, e *entry, g *gossip, out *Out) {
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

// compare checks whether two lists differ for longer than news travel, and then
// starts the search for the differences.
func (m *List) compare(e *entry, sum uint64, out *Out) {
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

// onSync sends the differing buckets and asks for the other side's.
func (m *List) onSync(from filch.NodeName, g *gossip, out *Out) {
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

// sendBuckets sends all entries of some buckets, including the dead and the
// departed: the other side may not know of the end.
func (m *List) sendBuckets(to filch.NodeName, mask uint64, out *Out) {
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
