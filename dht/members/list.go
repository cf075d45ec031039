package members

import (
	"fmt"
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
)

var eventNames = [...]string{"up", "suspect", "gone", "fine", "changed", "dead", "left", "forgotten", "self-joined", "self-back", "self-dead"}

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
}

// List is the member list of one node. The first node of an instance is joined from
// the start; any other node calls Join.
//
// With fewer than three members there is no witness: a failed redial alone decides,
// so the list promises nothing then.
type List struct {
	index map[filch.NodeName]*entry
	all   []*entry // by key and name, this node included
	self  *entry
	rand  uint64
	now   time.Duration
	awake time.Duration // now minus the time in which this node did not run
	sums  [buckets]uint64
	live  int // alive and suspect, this node included
	gone  int

	news   news
	ring   ring
	joins  joining
	beatAt time.Duration
	tick   time.Duration // when silence is looked at next
	syncAt time.Duration // not before
	down   bool          // declared dead, until Rejoin; or left
}

// entry is a member with this node's own knowledge of the member. Times of silence
// are by awake, the others by now.
type entry struct {
	m      Member
	key    uint64
	heard  time.Duration // last sign of life; 0 never
	vouch  time.Duration // when a witness last heard the member
	spared time.Duration // until then refusals do not count
	watch  *suspicion    // nil when not watched
	lease  time.Duration // until then the member gets beats
	differ int           // consecutive beats with a sum unlike ours
	fresh  bool          // among the news
	source filch.NodeName
	gone   time.Duration // when the member died or left
	revive time.Duration // when to probe a dead member again
	pause  time.Duration // between such probes
	told   time.Duration // when a notice of death, or of Gone, was last sent
}

// New returns the list of a node that knows only itself.
func New(cfg Config) *List {
	m := &List{index: map[filch.NodeName]*entry{}, rand: filch.Mix(cfg.Seed ^ cfg.Self.Name.Hash()), beatAt: filch.Never, tick: filch.Never}
	self := cfg.Self.clone()
	self.State, self.Version = Alive, 0
	m.reset(self)
	m.joins = joining{done: true, at: filch.Never}
	return m
}

// reset makes a list with only this node in it.
func (m *List) reset(self Member) {
	clear(m.index)
	m.self = &entry{m: self, key: self.Name.Hash()}
	m.index[self.Name] = m.self
	m.all = append(m.all[:0:0], m.self)
	m.live, m.gone = 1, 0
	m.sums = [buckets]uint64{}
	m.sum(m.self)
	m.news.list = nil
	m.ring.stale = true
	m.ring.watching = nil
	m.beatAt, m.tick = filch.Never, filch.Never
}

// sum adds an entry to the sums or removes the entry.
func (m *List) sum(e *entry) { m.sums[e.key%buckets] ^= e.m.digest(e.key) }

func (m *List) total() uint64 {
	var t uint64
	for _, s := range m.sums {
		t ^= s
	}
	return t
}

func (m *List) random(n int) int {
	m.rand += 0x9e3779b97f4a7c15
	return int(filch.Mix(m.rand) % uint64(n))
}

// step stamps an input. Time in which this node itself did not run is not counted
// as the others' silence.
func (m *List) step(now time.Duration) {
	if now > m.now {
		m.awake += min(now-m.now, maxAwake)
		m.now = now
	}
}

// Self is this node's own entry.
func (m *List) Self() Member { return m.self.m.clone() }

// Card is Self as bytes, for a hello.
func (m *List) Card() []byte { return Append(nil, &m.self.m) }

// All returns all entries by name, including the dead and the departed.
func (m *List) All() []Member {
	out := make([]Member, 0, len(m.all))
	for _, e := range m.all {
		out = append(out, e.m.clone())
	}
	slices.SortFunc(out, func(a, b Member) int { return compareNodes(0, a.Name, 0, b.Name) })
	return out
}

// Deadline is when Tick is to be called.
func (m *List) Deadline() time.Duration {
	if m.down {
		return filch.Never
	}
	if !m.joins.done {
		return min(m.beatAt, m.tick, m.joins.at)
	}
	return min(m.beatAt, m.tick, m.news.at())
}

// Tick does what is due.
func (m *List) Tick(now time.Duration, out *Out) {
	m.step(now)
	if m.down {
		return
	}
	m.refresh(out)
	if m.joins.at <= m.now {
		if m.mayBegin() {
			m.begin(out)
		} else {
			m.askToJoin(out)
		}
	}
	if m.beatAt <= m.now {
		m.beat(out)
	}
	if m.tick <= m.now {
		m.look(out)
	}
	m.flush(out)
}

// Heard notes a sign of life: any frame from the node, at a time not after the
// last input.
func (m *List) Heard(now time.Duration, name filch.NodeName, at time.Duration) {
	m.step(now)
	if e := m.index[name]; e != nil && e != m.self {
		e.heard = max(e.heard, m.awake-(m.now-min(at, m.now)))
	}
}

// merge takes in another node's entry of a member and reports whether the entry was
// news. The news are not sent back to from.
func (m *List) merge(from filch.NodeName, n *Member, out *Out) bool {
	e := m.index[n.Name]
	if e == m.self {
		m.aboutSelf(from, n, out)
		return false
	}
	if e == nil {
		if n.State.Over() && m.joins.done || len(m.all) >= filch.MaxNodes {
			return false
		}
		e = &entry{m: n.clone(), key: n.Name.Hash()}
		m.insert(e)
		m.changed(e, Member{State: Left}, from, out)
		return true
	}
	if !n.supersedes(&e.m) {
		return false
	}
	old := e.m
	m.sum(e)
	e.m = n.clone()
	if n.Addrs == nil && n.Incarnation == old.Incarnation {
		e.m.Addrs, e.m.Capacity, e.m.Draining = old.Addrs, old.Capacity, old.Draining
	}
	m.sum(e)
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
			m.live, m.gone = m.live-1, m.gone+1
			e.gone, e.pause, e.watch = m.now, reviveFirst, nil
			e.revive = m.now + reviveFirst
		} else {
			m.live++
			if old.Name != "" {
				m.gone--
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
			e.spared = m.awake + spareFor
		}
	}
	m.publish(e, from)
}

// insert adds an entry to the list.
func (m *List) insert(e *entry) {
	m.all = slices.Insert(m.all, m.place(e), e)
	m.index[e.m.Name] = e
	m.sum(e)
	if e.m.State.Over() {
		m.gone++
		e.gone, e.pause, e.revive = m.now, reviveFirst, m.now+reviveFirst
	}
	m.ring.stale = true
}

func (m *List) remove(e *entry) {
	i := m.place(e)
	m.all = slices.Delete(m.all, i, i+1)
	delete(m.index, e.m.Name)
	m.gone--
}

// Check panics when the list contradicts itself; tests call it after every
// input.
func (m *List) Check() {
	live, gone := 0, 0
	var sums [buckets]uint64
	for i, e := range m.all {
		if i > 0 && compareNodes(m.all[i-1].key, m.all[i-1].m.Name, e.key, e.m.Name) >= 0 {
			panic(fmt.Sprintf("the list of %s is out of order at %d of %d", m.self.m.Name, i, len(m.all)))
		}
		if m.index[e.m.Name] != e {
			panic(fmt.Sprintf("the index of %s does not know %s", m.self.m.Name, e.m.Name))
		}
		if e.m.State.Over() {
			gone++
		} else {
			live++
		}
		sums[e.key%buckets] ^= e.m.digest(e.key)
	}
	if live != m.live || gone != m.gone || len(m.index) != len(m.all) {
		panic(fmt.Sprintf("%s counts %d live and %d gone of %d, has %d and %d of %d", m.self.m.Name, m.live, m.gone, len(m.index), live, gone, len(m.all)))
	}
	if sums != m.sums {
		panic(fmt.Sprintf("the sums of %s are not those of its list", m.self.m.Name))
	}
}
