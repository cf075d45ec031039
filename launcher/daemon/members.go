package daemon

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// Card is what a node tells all others of itself, by gossip.
type Card struct {
	Total  slots.Room
	Unused int32 // its place is kept, for a launcher of an earlier build reads the fields by their order
	PID    int32
	Build  string
	Group  string // the allocation
	Drain  *launcher.Drain
}

// unused is no member's number to a launcher of an earlier build.
const unused = -1

// EncodeCard makes the opaque bytes that the overlay carries.
func EncodeCard(c Card) ([]byte, error) { return wire.Marshal(c) }

// member is a node as this one knows it.
type member struct {
	launcher.Peer
	addrs []string
	card  Card
}

// members is the list of nodes, for queries; the brain has its own.
type members struct {
	d      *Daemon
	signal chan struct{} // news wait

	mu     sync.Mutex // guards what follows
	news   []dht.MemberEvent
	byName map[filch.NodeName]member

	noted  []string      // what remember wrote; of the loop, as what follows
	noteAt time.Duration // when it writes again; Never: when there is news
	past   time.Duration // not before
}

// noteEvery is how often the addresses of others are written at most: in an
// instance that starts there is news all the time.
const noteEvery = time.Second

func newMembers(d *Daemon) *members {
	return &members{d: d, signal: make(chan struct{}, 1), byName: map[filch.NodeName]member{}, noteAt: filch.Never}
}

// MemberEvent takes news from the overlay. It never waits, and may be called
// before Run.
func (d *Daemon) MemberEvent(e dht.MemberEvent) {
	ms := d.members
	ms.mu.Lock()
	ms.news = append(ms.news, e) // one per change of one of at most 10,000 members
	ms.mu.Unlock()
	select {
	case ms.signal <- struct{}{}:
	default:
	}
}

// begin makes the node a member of its own list; on the loop.
func (ms *members) begin() {
	cfg := &ms.d.cfg
	own := member{
		Peer: launcher.Peer{Name: ms.d.self, Incarnation: cfg.Node.Incarnation, Standing: stealer.Up, Total: cfg.Node.Capacity.Total(), Group: cfg.Node.Group},
		card: ms.d.Card(),
	}
	if cfg.Addr != "" {
		own.addrs = []string{cfg.Addr}
	}
	ms.set(own)
}

// hear tells the brain the news; on the loop.
func (ms *members) hear(t *turn) {
	ms.mu.Lock()
	news := ms.news
	ms.news = nil
	ms.mu.Unlock()
	for _, e := range news {
		ms.event(t, e)
	}
	if len(news) > 0 {
		ms.noteAt = min(ms.noteAt, max(t.now, ms.past))
		ms.tick(t.now)
	}
}

// tick remembers what is new if it is time; on the loop.
func (ms *members) tick(now time.Duration) {
	if now >= ms.noteAt {
		ms.noteAt, ms.past = filch.Never, now+noteEvery
		ms.remember()
	}
}

// remember writes down where some of the others listen, for the next launcher
// of this node; on the loop.
func (ms *members) remember() {
	ms.mu.Lock()
	names := make([]filch.NodeName, 0, len(ms.byName))
	for name, m := range ms.byName {
		if m.Standing.Answers() && name != ms.d.self && len(m.addrs) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var addrs []string
	for _, name := range names[:min(len(names), place.MaxPeers)] {
		addrs = append(addrs, ms.byName[name].addrs[0])
	}
	ms.mu.Unlock()
	// With nobody left, those of before are still the best guess.
	if len(addrs) == 0 || slices.Equal(addrs, ms.noted) {
		return
	}
	ms.noted = addrs
	if err := ms.d.cfg.Dir.WritePeers(addrs); err != nil {
		ms.d.fault("cannot remember the addresses of others", err)
	}
}

func (ms *members) event(t *turn, e dht.MemberEvent) {
	d := ms.d
	d.watch.Log().Info("member", "event", e.Kind.String(), "peer", string(e.Member.Name), "incarnation", e.Member.Incarnation)
	switch e.Kind {
	case dht.SelfJoined:
		return
	case dht.SelfDead:
		d.declaredDead(t, e)
		return
	case dht.SelfBack:
		d.back(t, e.Member.Incarnation)
		return
	case dht.MemberForgotten:
		ms.forget(e.Member.Name)
		return
	}
	if e.Member.Name == d.self {
		return
	}
	m := ms.memberOf(e.Member)
	ms.set(m)
	t.node.Peer(t.now, m.Peer, t.out)
	if m.Standing >= stealer.Dead {
		d.routes.lost(m.Name)
	}
}

// memberOf reads an entry of the overlay's list. A card that cannot be read is
// that of a node with nothing to lend.
func (ms *members) memberOf(e dht.Member) member {
	m := member{addrs: e.Addrs}
	if err := wire.Unmarshal(e.Capacity, &m.card); err != nil {
		m.card = Card{}
		ms.d.watch.Log().Warn("cannot read the card of a node", "peer", string(e.Name), "err", err.Error())
	}
	if why := m.card.Drain; why != nil && why.Check() != nil {
		m.card.Drain = nil
	}
	m.Peer = launcher.Peer{Name: e.Name, Incarnation: e.Incarnation, Total: m.card.Total, Group: m.card.Group}
	switch {
	case e.State == dht.Dead:
		m.Standing = stealer.Dead
	case e.State == dht.Left:
		m.Standing = stealer.Left
	case e.State == dht.Suspect:
		m.Standing = stealer.Suspect
	case e.State == dht.Gone:
		m.Standing = stealer.Gone
	case e.Draining:
		m.Standing = stealer.Draining
	}
	if m.card.Drain != nil {
		m.Why = m.card.Drain.Reason
	}
	return m
}

func (ms *members) set(m member) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.byName[m.Name] = m
}

func (ms *members) forget(n filch.NodeName) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m, ok := ms.byName[n]; ok && m.Standing >= stealer.Dead {
		delete(ms.byName, n)
	}
}

func (ms *members) find(n filch.NodeName) (member, bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m, ok := ms.byName[n]
	return m, ok
}

// list is all members that are not forgotten, by name.
func (ms *members) list() []member {
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

// others are the live members but this one.
func (ms *members) others() []member {
	return slices.DeleteFunc(ms.list(), func(m member) bool {
		return m.Name == ms.d.self || m.Standing >= stealer.Dead
	})
}

// net is this node's address for a job over these nodes, without the port. There
// is none for one node, nor where this one listens on the loopback and others do
// not.
func (ms *members) net(nodes []launcher.NodeRanks) string {
	own := ms.host(ms.d.self)
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

// host is the address of a node.
func (ms *members) host(name filch.NodeName) netip.Addr {
	if m, _ := ms.find(name); len(m.addrs) > 0 {
		if a, err := netip.ParseAddrPort(m.addrs[0]); err == nil {
			return a.Addr().Unmap()
		}
	}
	return netip.Addr{}
}
