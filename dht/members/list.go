package members

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// The times of the list.
const (
	// BeatEvery is how often a node sends a beat to each watcher: as seldom as a
	// suspicion after two missed beats and an unanswered ping allows, since beats
	// are most of the cost of an idle launcher.
	BeatEvery = 750 * time.Millisecond
	// SuspectAfter is the silence after which a node is suspected.
	SuspectAfter = 1750 * time.Millisecond
	// DeadAfter is the silence after which a node is declared dead, if a redial
	// failed and a witness agrees.
	DeadAfter = 5 * time.Second
	// AloneAfter is DeadAfter for a node without a witness: the node itself may be
	// cut off, and lets the others decide first.
	AloneAfter = 8 * time.Second
	// ForgetAfter is how long dead and departed nodes are remembered, and dead
	// nodes are probed again.
	ForgetAfter = time.Hour

	pingAfter   = 1200 * time.Millisecond // silence after which a watcher asks
	pingEvery   = 500 * time.Millisecond  // and how often the watcher repeats the ping
	checkEvery  = 250 * time.Millisecond  // while a watched member is silent
	askAfter    = 2500 * time.Millisecond // silence after which witnesses are asked
	askEvery    = time.Second
	agreeFor    = 3 * time.Second  // how long a witness's finding is valid
	redialEvery = time.Second      // from one failed redial to the next
	joinEvery   = time.Second      // until the whole list has come
	lateAfter   = 30 * time.Second // without an answer of the other side of a cut
	leaseFor    = 3 * time.Second  // how long a watcher gets beats after a ping
	newsGap     = 50 * time.Millisecond
	deathGap    = 10 * time.Millisecond // when the news include a death
	syncEvery   = time.Second
	reviveFirst = 2 * time.Second // from a death to the first try, doubling
	reviveLast  = 5 * time.Minute
	maxAwake    = time.Second // from one input to the next; beats are more often
)

// Widths of the list's traffic.
const (
	watched     = 3   // successors that a node watches
	maxWatch    = 64  // including the nodes behind suspects
	maxWitness  = 3   // asked at a time
	maxGone     = 512 // remembered
	maxLeases   = 64
	maxContacts = 16 // remembered for a rejoin
)

// Out lists the actions for the caller, in the order of the fields.
type Out struct {
	Events []Event
	Probes []Probe
	Sends  []Send
}

// Reset empties o and keeps the allocated memory.
func (o *Out) Reset() {
	o.Events, o.Probes, o.Sends = o.Events[:0], o.Probes[:0], o.Sends[:0]
}

func (o *Out) send(to filch.NodeName, g *gossip) {
	o.Sends = append(o.Sends, Send{to, g.encode()})
}

// sendNews sends entries in messages within the limit.
func (o *Out) sendNews(to filch.NodeName, ms []Member) {
	for _, p := range pages(ms) {
		o.send(to, &gossip{kind: kindNews, members: p})
	}
}

func (o *Out) probe(m *Member) {
	o.Probes = append(o.Probes, Probe{m.Name, m.Incarnation, slices.Clone(m.Addrs)})
}

// Send is a message to another node.
type Send struct {
	To      filch.NodeName
	Payload []byte
}

// Probe asks for a fresh connection to a node; the result goes to
// [List.Probed]. Probes of different nodes run at the same time.
type Probe struct {
	Name        filch.NodeName
	Incarnation uint64
	Addrs       []string
}

// EventKind is a kind of [Event].
type EventKind uint8

// The kinds of events.
const (
	EventUp      EventKind = iota // new, or back with another incarnation: Was is the one before, 0 none
	EventSuspect                  // silent: no new work
	EventGone                     // see Gone
	EventFine                     // no longer suspect or gone
	EventChanged                  // the node drains, or the addresses or capacity changed
	EventDead
	EventLeft
	EventForgotten // of a dead or departed node
	SelfJoined     // the whole list is here
	SelfBack       // this node has a new incarnation
	SelfDead       // this node was declared dead: reap everything, then Rejoin
	ListPartial    // a node was turned away: the list is not whole
	ListWhole      // the list is whole again
)

var eventNames = [...]string{"up", "suspect", "gone", "fine", "changed", "dead", "left", "forgotten", "self-joined", "self-back", "self-dead", "list-partial", "list-whole"}

func (k EventKind) String() string { return eventNames[k] }

// Event tells of a change in the list.
type Event struct {
	Kind   EventKind
	Member Member
	Was    uint64
	By     filch.NodeName // SelfDead: the sender of the claim
	// Mutual, with SelfDead: this node had declared the sender dead too, so the
	// network was cut in two; else this node was silent for too long.
	Mutual bool
	// Taken, with SelfDead: another node has this node's name and a higher
	// incarnation; the other node's addresses are in Member.
	Taken bool
}

// Config configures a List.
type Config struct {
	Self Member // State and Version are ignored
	Seed uint64 // of the random choices
	// Limit is the number of entries that the list may have; 0: filch.MaxNodes.
	Limit int
}

// List is the member list of one node. The first node of an instance is joined from
// the start; any other node calls Join.
//
// With fewer than three members there is no witness: a failed redial alone decides,
// so the list promises nothing then.
type List struct {
	clock    clock
	dice     filch.Rand
	table    table
	ring     ring
	news     news
	detector detector
	sync     antiEntropy
	join     joining
	Contacts Contacts      // the nodes that the list had to turn away
	beatAt   time.Duration // when the next beat is due
	down     bool          // declared dead, until Rejoin; or left
}

// clock is the time of the last input.
type clock struct {
	now   time.Duration
	awake time.Duration // now minus the time in which this node did not run
}

// step stamps an input. Time in which this node itself did not run is not counted
// as the others' silence.
func (c *clock) step(now time.Duration) {
	if now > c.now {
		c.awake += min(now-c.now, maxAwake)
		c.now = now
	}
}

// New returns the list of a node that knows only itself.
func New(cfg Config) *List {
	m := &List{dice: filch.Rand(filch.Mix(cfg.Seed ^ cfg.Self.Name.Hash()))}
	m.ring.table = &m.table
	m.detector = detector{clock: &m.clock, table: &m.table, ring: &m.ring, dice: &m.dice, claim: m.claim}
	m.sync = antiEntropy{clock: &m.clock, table: &m.table}
	m.join = joining{clock: &m.clock, table: &m.table, dice: &m.dice, done: true, at: filch.Never}
	m.Contacts = Contacts{
		clock: &m.clock, table: &m.table, news: &m.news, dice: &m.dice, merge: m.merge, notice: m.notice,
		limit: cfg.Limit, lookAt: filch.Never,
	}
	if cfg.Limit == 0 {
		m.Contacts.limit = filch.MaxNodes
	}
	m.sync.full, m.sync.agreed = m.Contacts.full, m.Contacts.agreed
	m.detector.contacts = &m.Contacts
	self := cfg.Self.clone()
	self.State, self.Version = Alive, 0
	m.reset(self)
	return m
}

// reset makes a list with only this node in it.
func (m *List) reset(self Member) {
	m.table.reset(self)
	m.news.list = nil
	m.ring.stale = true
	m.ring.watching = nil
	m.beatAt, m.detector.tick = filch.Never, filch.Never
}

// Self is this node's own entry.
func (m *List) Self() Member { return m.table.self.m.clone() }

// Card is Self as bytes, for a hello.
func (m *List) Card() []byte { return appendMember(nil, &m.table.self.m) }

// All returns all entries by name, including the dead and the departed.
func (m *List) All() []Member {
	out := make([]Member, 0, len(m.table.all))
	for _, e := range m.table.all {
		out = append(out, e.m.clone())
	}
	slices.SortFunc(out, func(a, b Member) int { return compareNodes(0, a.Name, 0, b.Name) })
	return out
}

// Find returns the state of a member or of a contact; false: the node is neither.
func (m *List) Find(name filch.NodeName) (State, bool) {
	if e := m.table.index[name]; e != nil {
		return e.m.State, true
	}
	if c := m.Contacts.find(name); c != nil {
		return c.m.State, true
	}
	return Left, false
}

// Deadline is when Tick is to be called.
func (m *List) Deadline() time.Duration {
	if m.down {
		return filch.Never
	}
	if !m.join.done {
		return min(m.beatAt, m.detector.tick, m.join.at)
	}
	return min(m.beatAt, m.detector.tick, m.news.at(), m.Contacts.lookAt)
}

// Tick does what is due.
func (m *List) Tick(now time.Duration, out *Out) {
	m.clock.step(now)
	if m.down {
		return
	}
	m.refresh(out)
	if m.join.at <= m.clock.now {
		if m.join.mayBegin() {
			m.begin(out)
		} else {
			m.join.request(out)
		}
	}
	if m.beatAt <= m.clock.now {
		m.beat(out)
	}
	if m.detector.tick <= m.clock.now {
		m.detector.look(out)
		m.refresh(out)
	}
	m.Contacts.look(out)
	m.flush(out)
}

// Heard notes a sign of life: any frame from the node, at a time not after the
// last input.
func (m *List) Heard(now time.Duration, name filch.NodeName, at time.Duration) {
	m.clock.step(now)
	since := m.clock.awake - (m.clock.now - min(at, m.clock.now))
	if e := m.table.index[name]; e != nil && e != m.table.self {
		e.heard = max(e.heard, since)
	}
	m.Contacts.hear(name, since)
}

// merge takes in another node's entry of a member and reports whether the entry was
// news. The news are not sent back to from.
func (m *List) merge(from filch.NodeName, n *Member, out *Out) bool {
	e := m.table.index[n.Name]
	if e == m.table.self {
		m.aboutSelf(from, n, out)
		return false
	}
	if e == nil {
		if m.Contacts.full() {
			m.Contacts.turnAway(from, n, out)
			return false
		}
		if n.State.Over() && m.join.done {
			return false
		}
		e = &entry{m: n.clone(), key: n.Name.Hash()}
		m.table.insert(e, m.clock.now)
		m.ring.stale = true
		m.changed(e, Member{State: Left}, from, out)
		return true
	}
	if !n.supersedes(&e.m) {
		return false
	}
	old := e.m
	m.table.toggle(e)
	e.m = n.clone()
	if n.Addrs == nil && n.Incarnation == old.Incarnation {
		e.m.Addrs, e.m.Capacity, e.m.Draining = old.Addrs, old.Capacity, old.Draining
	}
	m.table.toggle(e)
	m.changed(e, old, from, out)
	return true
}

// doubts are the events of the states between life and death.
var doubts = map[State]EventKind{Suspect: EventSuspect, Gone: EventGone}

// changed handles an entry added or replaced.
func (m *List) changed(e *entry, old Member, from filch.NodeName, out *Out) {
	n := &e.m
	if n.State.Over() != old.State.Over() {
		m.ring.stale = true
		if n.State.Over() {
			m.table.live, m.table.gone = m.table.live-1, m.table.gone+1
			e.gone, e.pause, e.watch = m.clock.now, reviveFirst, nil
			e.revive = m.clock.now + reviveFirst
		} else {
			m.table.live++
			if old.Name != "" {
				m.table.gone--
			}
		}
	}
	ev := Event{Member: n.clone()}
	switch {
	case n.State == Dead:
		ev.Kind = EventDead
	case n.State == Left:
		ev.Kind = EventLeft
	case old.Incarnation != n.Incarnation || old.State.Over():
		ev.Kind, ev.Was = EventUp, old.Incarnation
		e.heard, e.vouch, e.differ, e.watch = 0, 0, 0, nil
		m.ring.stale = true
	case n.State == Suspect:
		ev.Kind = EventSuspect
	case n.State == Gone:
		ev.Kind = EventGone
	case old.State != Alive:
		ev.Kind = EventFine
	default:
		ev.Kind = EventChanged
	}
	if !n.State.Over() || old.Name != "" && !old.State.Over() {
		out.Events = append(out.Events, ev)
	}
	// A member coming back with a suspicion gets both events.
	if kind, ok := doubts[n.State]; ok && ev.Kind == EventUp {
		out.Events = append(out.Events, Event{Kind: kind, Member: n.clone()})
	}
	if was := old.State == Gone && old.Incarnation == n.Incarnation; was != (n.State == Gone) {
		m.ring.stale = true // no news are sent to a gone member
		if was && !n.State.Over() {
			e.spared = m.clock.awake + spareFor
		}
	}
	m.news.publish(e, from)
}

// refresh recomputes the ring after a change in the list.
func (m *List) refresh(out *Out) {
	if !m.ring.stale {
		return
	}
	m.ring.stale = false
	m.ring.version++
	if !m.join.done || m.down {
		return
	}
	for _, e := range m.ring.update(m.clock.awake) {
		m.detector.ping(e, out)
	}
	if m.table.live > 1 {
		if m.beatAt == filch.Never {
			m.beatAt = m.clock.now
		}
		m.detector.tick = min(m.detector.tick, m.clock.now+checkEvery)
	}
}

// RingVersion grows whenever Neighbors may have changed.
func (m *List) RingVersion() uint64 { return m.ring.version }

// beat sends a beat to the watchers of this node.
func (m *List) beat(out *Out) {
	m.beatAt = m.clock.now + BeatEvery
	if m.table.live == 1 && m.table.gone == 0 {
		m.beatAt = filch.Never
	}
	b := (&gossip{kind: kindBeat, sum: m.table.total()}).encode()
	for _, e := range m.ring.tellers {
		out.Sends = append(out.Sends, Send{e.m.Name, b})
	}
	leases := 0
	for _, e := range m.table.all {
		if e.lease > m.clock.now && leases < maxLeases && !e.m.State.Over() && !slices.Contains(m.ring.tellers, e) {
			leases++
			out.Sends = append(out.Sends, Send{e.m.Name, b})
		}
	}
	m.Contacts.beat(b, out)
	m.detector.tick = min(m.detector.tick, m.clock.now)
}

// Probed receives the result of a probe.
func (m *List) Probed(now time.Duration, name filch.NodeName, incarnation uint64, res ProbeResult, out *Out) {
	m.clock.step(now)
	if !m.down && m.detector.probed(name, incarnation, res, out) {
		m.Tick(now, out)
	}
}

// Closed reports the close of the last connection to a node. The list pings the
// node at once, so a node with just a lost connection is not suspected. The list
// also redials, so an ended process is found.
func (m *List) Closed(now time.Duration, name filch.NodeName, out *Out) {
	m.clock.step(now)
	e := m.table.index[name]
	switch {
	case e == nil:
		m.Contacts.closed(name)
	case e.watch != nil && !m.down:
		m.detector.closed(e, out)
	}
}

// Neighbors are the members in constant contact with this node: their connections
// should stay open.
func (m *List) Neighbors() []filch.NodeName { return m.ring.neighbors() }

// claim merges a judgment of the failure detector.
func (m *List) claim(e *entry, s State, out *Out) {
	n := e.m.clone()
	n.State = s
	m.merge("", &n, out)
	m.ring.stale = true
}

// Check panics when the list contradicts itself; tests call it after every
// input.
func (m *List) Check() {
	m.table.check()
	m.Contacts.check()
}

// flush sends the news along the links when due.
func (m *List) flush(out *Out) {
	if m.news.at() > m.clock.now || !m.join.done || m.down {
		return
	}
	m.refresh(out)
	m.news.send(m.clock.now, m.ring.links, out)
}
