package daemon

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/stealer"
)

// Card is a node's description of itself for all other nodes, sent by gossip.
type Card struct {
	Total  filch.Room
	Unused int32 // keeps the field's place: a launcher of an earlier build reads fields by order
	PID    int32
	Build  string
	Group  string // the allocation
	Drain  *launcher.Drain
}

// unused is an invalid member number for a launcher of an earlier build.
const unused = -1

// EncodeCard makes the opaque bytes that the overlay carries.
func EncodeCard(c Card) ([]byte, error) { return wire.Marshal(c) }

// member is a node as this node knows it.
type member struct {
	node.Peer
	addrs []string
	card  Card
}

// memberNews holds the list of nodes for queries; the brain has a list of its own.
type memberNews struct {
	d      *Daemon
	signal chan struct{} // news are waiting

	mu     sync.Mutex // guards news and byName
	news   []members.Event
	byName map[filch.NodeName]member

	noted  []string      // addresses last written; the loop's, as noteAt and past
	noteAt time.Duration // time of the next write; Never: no news
	past   time.Duration // earliest time of the next write
}

// noteEvery limits how often the addresses of other nodes are written: a starting
// instance has news all the time.
const noteEvery = time.Second

func newMembers(d *Daemon) *memberNews {
	return &memberNews{d: d, signal: make(chan struct{}, 1), byName: map[filch.NodeName]member{}, noteAt: filch.Never}
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
	own := member{
		Peer: node.Peer{Name: ms.d.in.Self, Incarnation: cfg.Node.Incarnation, Standing: stealer.Up, Total: cfg.Node.Capacity.Total(), Group: cfg.Node.Group},
		card: ms.d.Card(),
	}
	if cfg.Addr != "" {
		own.addrs = []string{cfg.Addr}
	}
	ms.set(own)
}

// hear passes the news to the brain; on the loop.
func (ms *memberNews) hear(t *inputs.Turn) {
	ms.mu.Lock()
	news := ms.news
	ms.news = nil
	ms.mu.Unlock()
	for _, e := range news {
		ms.event(t, e)
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
		ms.remember()
	}
}

// remember saves the addresses of some other nodes, for the next launcher of this node;
// on the loop.
func (ms *memberNews) remember() {
	ms.mu.Lock()
	names := make([]filch.NodeName, 0, len(ms.byName))
	for name, m := range ms.byName {
		if m.Standing.Answers() && name != ms.d.in.Self && len(m.addrs) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var addrs []string
	for _, name := range names[:min(len(names), place.MaxPeers)] {
		addrs = append(addrs, ms.byName[name].addrs[0])
	}
	ms.mu.Unlock()
	// Without other nodes the earlier addresses are still the best guess.
	if len(addrs) == 0 || slices.Equal(addrs, ms.noted) {
		return
	}
	ms.noted = addrs
	if err := ms.d.cfg.Dir.WritePeers(addrs); err != nil {
		ms.d.in.Fault("cannot remember the addresses of others", err)
	}
}

func (ms *memberNews) event(t *inputs.Turn, e members.Event) {
	d := ms.d
	d.in.Watch.Log().Info("member", "event", e.Kind.String(), "peer", string(e.Member.Name), "incarnation", e.Member.Incarnation)
	switch e.Kind {
	case members.SelfJoined:
		return
	case members.SelfDead:
		d.declaredDead(t, e)
		return
	case members.SelfBack:
		d.back(t, e.Member.Incarnation)
		return
	case members.EventForgotten:
		ms.forget(e.Member.Name)
		return
	}
	if e.Member.Name == d.in.Self {
		return
	}
	m := ms.memberOf(e.Member)
	ms.set(m)
	t.Node.Peer(t.Now, m.Peer, t.Out)
	if m.Standing >= stealer.Dead {
		d.routes.OnLost(m.Name)
	}
}

// memberOf converts an entry of the overlay's list. A node with an unreadable card has
// nothing to lend.
func (ms *memberNews) memberOf(e members.Member) member {
	m := member{addrs: e.Addrs}
	if err := wire.Unmarshal(e.Capacity, &m.card); err != nil {
		m.card = Card{}
		ms.d.in.Watch.Log().Warn("cannot read the card of a node", "peer", string(e.Name), "err", err.Error())
	}
	if why := m.card.Drain; why != nil && why.Check() != nil {
		m.card.Drain = nil
	}
	m.Peer = node.Peer{Name: e.Name, Incarnation: e.Incarnation, Total: m.card.Total, Group: m.card.Group}
	switch {
	case e.State == members.Dead:
		m.Standing = stealer.Dead
	case e.State == members.Left:
		m.Standing = stealer.Left
	case e.State == members.Suspect:
		m.Standing = stealer.Suspect
	case e.State == members.Gone:
		m.Standing = stealer.Gone
	case e.Draining:
		m.Standing = stealer.Draining
	}
	if m.card.Drain != nil {
		m.Why = m.card.Drain.Reason
	}
	return m
}

func (ms *memberNews) set(m member) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.byName[m.Name] = m
}

func (ms *memberNews) forget(n filch.NodeName) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m, ok := ms.byName[n]; ok && m.Standing >= stealer.Dead {
		delete(ms.byName, n)
	}
}

func (ms *memberNews) find(n filch.NodeName) (member, bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m, ok := ms.byName[n]
	return m, ok
}

// Live reports whether n is another node and may answer.
func (ms *memberNews) Live(n filch.NodeName) bool {
	m, known := ms.find(n)
	return known && n != ms.d.in.Self && m.Standing < stealer.Dead
}

// Incarnation returns the incarnation of a node, 0 if the node is not known.
func (ms *memberNews) Incarnation(n filch.NodeName) uint64 {
	m, _ := ms.find(n)
	return m.Incarnation
}

// list returns all members that are not forgotten, by name.
func (ms *memberNews) list() []member {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	all := make([]member, 0, len(ms.byName))
	for _, m := range ms.byName {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b member) int {
		if c := place.NaturalOrder(string(a.Name), string(b.Name)); c != 0 {
			return c
		}
		return strings.Compare(string(a.Name), string(b.Name))
	})
	return all
}

// others returns the live members except this node.
func (ms *memberNews) others() []member {
	return slices.DeleteFunc(ms.list(), func(m member) bool {
		return m.Name == ms.d.in.Self || m.Standing >= stealer.Dead
	})
}

// net returns this node's address for a job over these nodes, without the port. The
// address is empty for a single node, and where this node listens on the loopback and
// other nodes do not.
func (ms *memberNews) net(nodes []launcher.NodeRanks) string {
	own := ms.host(ms.d.in.Self)
	if len(nodes) < 2 || !own.IsValid() {
		return ""
	}
	for _, n := range nodes {
		if own.IsLoopback() && !ms.host(n.Node).IsLoopback() {
			return ""
		}
	}
	return own.String()
}

// host returns the address of a node.
func (ms *memberNews) host(name filch.NodeName) netip.Addr {
	if m, _ := ms.find(name); len(m.addrs) > 0 {
		if a, err := netip.ParseAddrPort(m.addrs[0]); err == nil {
			return a.Addr().Unmap()
		}
	}
	return netip.Addr{}
}
