package members

import (
	"time"

	"github.com/filch-hpc/filch"
)

// Message receives a gossip message from another node; incarnation is the sender's,
// as proven by the connection. An error means the message breaks the protocol.
func (m *List) Message(now time.Duration, from filch.NodeName, incarnation uint64, payload []byte, out *Out) error {
	g, err := decodeGossip(payload)
	if err != nil {
		return err
	}
	m.clock.step(now)
	if m.down {
		return nil
	}
	e := m.table.index[from]
	if g.kind == kindNotice {
		m.onNotice(from, incarnation, g, out)
		return nil
	}
	if e != nil && e != m.table.self && m.stranger(e, incarnation, g, out) {
		m.flush(out)
		return nil
	}
	if e == nil && m.Contacts.incoming(from, incarnation, out) {
		return nil
	}
	if e != nil && e.m.Incarnation == incarnation {
		e.heard = m.clock.awake
		m.detector.wronged(e, out)
	}
	if !m.join.done && g.kind != kindList && g.kind != kindPing && g.kind != kindJoin {
		if g.kind == kindSync {
			m.join.invited(from, out)
			m.flush(out)
		}
		return nil
	}
	m.dispatch(from, e, g, out)
	m.refresh(out)
	m.flush(out)
	return nil
}

func (m *List) dispatch(from filch.NodeName, e *entry, g *gossip, out *Out) {
	switch g.kind {
	case kindBeat:
		m.sync.compare(e, g.sum, out)
	case kindPing:
		m.onPing(from, e, g, out)
	case kindAck:
		m.merge(from, &g.members[0], out)
		m.sync.compare(e, g.sum, out)
	case kindNews:
		for i := range g.members {
			m.merge(from, &g.members[i], out)
		}
	case kindJoin:
		m.onJoin(from, g, out)
	case kindList:
		m.onList(from, g, out)
	case kindSync:
		m.sync.onSync(from, g, out)
	case kindSyncBack:
		m.sync.send(from, g.sum, out)
	case kindAsk:
		m.detector.onAsk(from, g.members[0], out)
	case kindSay:
		m.detector.onSay(g, out)
	}
}

// onPing answers a watcher, which may have this node as a suspect, and keeps
// sending beats to the watcher for leaseFor.
func (m *List) onPing(from filch.NodeName, e *entry, g *gossip, out *Out) {
	if g.members[0].Name != m.table.self.m.Name {
		return
	}
	m.aboutSelf(from, &g.members[0], out)
	if m.down {
		return
	}
	if e != nil {
		e.lease = m.clock.now + leaseFor
	} else {
		m.Contacts.watched(from)
	}
	out.send(from, &gossip{kind: kindAck, sum: m.table.total(), members: []Member{m.table.self.m}})
}
