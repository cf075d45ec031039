package daemon

import (
	"slices"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/wire"
)

// memberNews holds the news of the overlay about other nodes until the loop takes them.
type memberNews struct {
	d      *Daemon
	signal chan struct{} // news are waiting

	mu   sync.Mutex // guards news
	news []members.Event

	noted  []string      // addresses last written; the loop's, as noteAt and past
	noteAt time.Duration // time of the next write; Never: no news
	past   time.Duration // earliest time of the next write
}

// noteEvery limits how often the addresses of other nodes are written: a starting
// instance has news all the time.
const noteEvery = time.Second

func newMembers(d *Daemon) *memberNews {
	return &memberNews{d: d, signal: make(chan struct{}, 1), noteAt: filch.Never}
}

// MemberEvent queues news from the overlay. MemberEvent never waits, and may be called
// before Run.
func (d *Daemon) MemberEvent(e members.Event) {
	ms := d.members
	ms.mu.Lock()
	ms.news = append(ms.news, e) // one per change, of at most 10,000 members
	ms.mu.Unlock()
	select {
	case ms.signal <- struct{}{}:
	default:
	}
}

// begin adds this node to the list of members; on the loop.
func (ms *memberNews) begin() {
	cfg := &ms.d.cfg
	own := peers.Member{
		Peer: node.Peer{Name: ms.d.in.Self, Incarnation: cfg.Node.Incarnation, Standing: filch.Up, Total: cfg.Node.Capacity.Total(), Group: cfg.Node.Group, Labels: cfg.Node.Labels, Role: cfg.Node.Role},
		Card: ms.d.Card(),
	}
	if cfg.Addr != "" {
		own.Addrs = []string{cfg.Addr}
	}
	ms.d.nodes.Set(own)
}

// deliver passes the news to the Node; on the loop.
func (ms *memberNews) deliver(t *inputs.Turn) {
	ms.mu.Lock()
	news := ms.news
	ms.news = nil
	ms.mu.Unlock()
	for _, e := range news {
		ms.onEvent(t, e)
	}
	if len(news) > 0 {
		ms.noteAt = min(ms.noteAt, max(t.Now, ms.past))
		ms.tick(t.Now)
	}
}

// tick saves new addresses when the write is due; on the loop.
func (ms *memberNews) tick(now time.Duration) {
	if now >= ms.noteAt {
		ms.noteAt, ms.past = filch.Never, now+noteEvery
		ms.saveAddresses()
	}
}

// saveAddresses saves the addresses of some other nodes, for the next launcher of this node;
// on the loop.
func (ms *memberNews) saveAddresses() {
	addrs := ms.d.nodes.Reachable()
	// Without other nodes the earlier addresses are still the best guess.
	if len(addrs) == 0 || slices.Equal(addrs, ms.noted) {
		return
	}
	ms.noted = addrs
	if err := ms.d.cfg.Dir.WritePeers(addrs); err != nil {
		ms.d.in.Fault("cannot remember the addresses of others", err)
	}
}

func (ms *memberNews) onEvent(t *inputs.Turn, e members.Event) {
	d := ms.d
	d.in.Watch.Log().Info("member", "event", e.Kind.String(), "peer", string(e.Member.Name), "incarnation", e.Member.Incarnation)
	switch e.Kind {
	case members.SelfJoined:
		return
	case members.SelfDead:
		d.onDeclaredDead(t, e)
		return
	case members.SelfBack:
		d.onRejoined(t, e.Member.Incarnation)
		return
	case members.EventForgotten:
		ms.d.nodes.Forget(e.Member.Name)
		return
	case members.ListPartial, members.ListWhole:
		t.Node.ListPartial(t.Now, e.Kind == members.ListPartial, t.Out)
		return
	}
	if e.Member.Name == d.in.Self {
		return
	}
	if kind := memberKinds[e.Kind]; kind != events.None {
		d.in.Watch.Event(events.Event{Kind: kind, Peer: e.Member.Name})
	}
	m := ms.memberOf(e.Member)
	ms.d.nodes.Set(m)
	t.Node.Peer(t.Now, m.Peer, t.Out)
	if m.Standing >= filch.Dead {
		d.routes.OnLost(m.Name)
	}
}

// memberKinds are the events of the news about other nodes.
var memberKinds = map[members.EventKind]events.Kind{
	members.EventUp: events.NodeUp, members.EventFine: events.NodeUp, members.EventSuspect: events.NodeSuspect, members.EventGone: events.NodeGone,
	members.EventDead: events.NodeLost, members.EventLeft: events.NodeLeft,
}

// memberOf converts an entry of the overlay's list. A node with an unreadable card has
// nothing to lend.
func (ms *memberNews) memberOf(e members.Member) peers.Member {
	m := peers.Member{Addrs: e.Addrs}
	if err := wire.Unmarshal(e.Capacity, &m.Card); err != nil {
		m.Card = peers.Card{}
		ms.d.in.Watch.Log().Warn("cannot read the card of a node", "peer", string(e.Name), "err", err.Error())
	}
	if why := m.Card.Drain; why != nil && why.Check() != nil {
		m.Card.Drain = nil
	}
	m.Peer = node.Peer{Name: e.Name, Incarnation: e.Incarnation, Total: m.Card.Total, Group: m.Card.Group, Labels: m.Card.Labels, Role: m.Card.Role}
	switch {
	case e.State == members.Dead:
		m.Standing = filch.Dead
	case e.State == members.Left:
		m.Standing = filch.Left
	case e.State == members.Suspect:
		m.Standing = filch.Suspect
	case e.State == members.Gone:
		m.Standing = filch.Gone
	case e.Draining:
		m.Standing = filch.Draining
	}
	if m.Card.Drain != nil {
		m.Why = m.Card.Drain.Reason
	}
	return m
}
