package dht

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// The times of the list.
const (
	// BeatEvery is how often a node tells those who watch it that it lives:
	// as seldom as a suspicion after two missed beats and an unanswered ping
	// allows, since beats are most of what an idle launcher costs.
	BeatEvery = 750 * time.Millisecond
	// SuspectAfter is the silence after which a node is suspected.
	SuspectAfter = 1750 * time.Millisecond
	// DeadAfter is the silence after which a node is dead, when a redial
	// failed and a witness agrees.
	DeadAfter = 5 * time.Second
	// AloneAfter is DeadAfter for a node that finds no witness: it may be
	// the one that is cut off, and lets the others decide first.
	AloneAfter = 8 * time.Second
	// ForgetAfter is how long those who are gone are remembered, and those
	// who died are tried again.
	ForgetAfter = time.Hour

	pingAfter   = 1200 * time.Millisecond // silence after which a watcher asks
	pingEvery   = 500 * time.Millisecond  // and how often
	checkEvery  = 250 * time.Millisecond  // while somebody is silent
	askAfter    = 2500 * time.Millisecond // silence after which witnesses are asked
	askEvery    = time.Second
	agreeFor    = 3 * time.Second  // a witness's word holds so long
	redialEvery = time.Second      // from one failed redial to the next
	joinEvery   = time.Second      // until the whole list has come
	lateAfter   = 30 * time.Second // without an answer of the other side of a cut
	leaseFor    = 3 * time.Second  // a node that asks is told for so long
	newsGap     = 50 * time.Millisecond
	deathGap    = 10 * time.Millisecond // when there is a death among the news
	syncEvery   = time.Second
	reviveFirst = 2 * time.Second // from a death to the first try, doubling
	reviveLast  = 5 * time.Minute
	maxAwake    = time.Second // from one input to the next; beats are more often
)

// Widths of the list's traffic.
const (
	watched     = 3   // successors that a node watches
	maxWatch    = 64  // with those behind suspects
	maxWitness  = 3   // asked at a time
	maxGone     = 512 // remembered
	maxLeases   = 64
	maxContacts = 16 // remembered for a rejoin
)

// MembersOut is what is to be done, in the order of its fields.
type MembersOut struct {
	Events []MemberEvent
	Probes []MemberProbe
	Sends  []MemberSend
}

// Reset empties o and keeps its memory.
func (o *MembersOut) Reset() {
	o.Events, o.Probes, o.Sends = o.Events[:0], o.Probes[:0], o.Sends[:0]
}

// MemberSend is a message to another node.
type MemberSend struct {
	To      filch.NodeName
	Payload []byte
}

// MemberProbe asks for a fresh connection to a node; the result goes to
// [Members.Probed]. Probes of different nodes run at the same time.
type MemberProbe struct {
	Name        filch.NodeName
	Incarnation uint64
	Addrs       []string
}

// MemberEventKind is a kind of [MemberEvent].
type MemberEventKind uint8

// The kinds of events.
const (
	MemberUp      MemberEventKind = iota // new, or back with another incarnation: Was is the one before, 0 none
	MemberSuspect                        // silent: no new work
	MemberGone                           // see Gone
	MemberFine                           // neither any more
	MemberChanged                        // it drains, or its addresses or capacity changed
	MemberDead
	MemberLeft
	MemberForgotten // of those who are gone
	SelfJoined      // the whole list is here
	SelfBack        // this node has a new incarnation
	SelfDead        // this node was declared dead: reap everything, then Rejoin
)

var memberEventNames = [...]string{"up", "suspect", "gone", "fine", "changed", "dead", "left", "forgotten", "self-joined", "self-back", "self-dead"}

func (k MemberEventKind) String() string { return memberEventNames[k] }

// MemberEvent tells of a change in the list.
type MemberEvent struct {
	Kind   MemberEventKind
	Member Member
	Was    uint64
	By     filch.NodeName // SelfDead: who said so
	// Mutual, with SelfDead: this node had declared the teller dead too, so
	// the network was cut in two; else this node was silent for too long.
	Mutual bool
	// Taken, with SelfDead: another node has this one's name and a higher
	// incarnation; its addresses are in Member.
	Taken bool
}

// MembersConfig of a Members.
type MembersConfig struct {
	Self Member // State and Version are ignored
	Seed uint64 // of the random choices
}

// Members is the member list of one node. A node that is first of its instance
// is joined from the start; another calls Join.
//
// With fewer than three members there is no witness: a failed redial alone
// decides, so nothing is promised then.
type Members struct {
	index map[filch.NodeName]*entry
	all   []*entry // by key and name, this node included
	self  *entry
	rand  uint64
	now   time.Duration
	awake time.Duration // now without the time in which this node did not run
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

// entry is a member with what this node knows of it by itself. Times of
// silence are by awake, the others by now.
type entry struct {
	m      Member
	key    uint64
	heard  time.Duration // last sign of life; 0 never
	vouch  time.Duration // a witness has heard it
	spared time.Duration // refusals do not count until then
	watch  *watch        // nil when not watched
	lease  time.Duration // it wants beats until then
	differ int           // beats in a row whose sum was not ours
	fresh  bool          // among the news
	source filch.NodeName
	gone   time.Duration // when it died or left
	revive time.Duration // when to try a dead one again
	pause  time.Duration // between such tries
	told   time.Duration // when it was last told of its death
}

// NewMembers returns the list of a node that knows only itself.
func NewMembers(cfg MembersConfig) *Members {
	m := &Members{index: map[filch.NodeName]*entry{}, rand: mix(cfg.Seed ^ key(cfg.Self.Name)), beatAt: filch.Never, tick: filch.Never}
	self := cfg.Self.clone()
	self.State, self.Version = Alive, 0
	m.reset(self)
	m.joins = joining{done: true, at: filch.Never}
	return m
}

// reset makes a list with only this node in it.
func (m *Members) reset(self Member) {
	clear(m.index)
	m.self = &entry{m: self, key: key(self.Name)}
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

// sum adds an entry to the sums or takes it out.
func (m *Members) sum(e *entry) { m.sums[e.key%buckets] ^= e.m.digest(e.key) }

func (m *Members) total() uint64 {
	var t uint64
	for _, s := range m.sums {
		t ^= s
	}
	return t
}

func (m *Members) random(n int) int {
	m.rand += 0x9e3779b97f4a7c15
	return int(mix(m.rand) % uint64(n))
}

// step stamps an input. Time in which this node itself did not run is not held
// against the others.
func (m *Members) step(now time.Duration) {
	if now > m.now {
		m.awake += min(now-m.now, maxAwake)
		m.now = now
	}
}

// Self is this node's own entry.
func (m *Members) Self() Member { return m.self.m.clone() }

// Card is Self as bytes, for a hello.
func (m *Members) Card() []byte { return AppendMember(nil, &m.self.m) }

// List returns all entries by name, also of those who are gone.
func (m *Members) List() []Member {
	out := make([]Member, 0, len(m.all))
	for _, e := range m.all {
		out = append(out, e.m.clone())
	}
	slices.SortFunc(out, func(a, b Member) int { return compareNodes(0, a.Name, 0, b.Name) })
	return out
}

// Deadline is when Tick is to be called.
func (m *Members) Deadline() time.Duration {
	if m.down {
		return filch.Never
	}
	if !m.joins.done {
		return min(m.beatAt, m.tick, m.joins.at)
	}
	return min(m.beatAt, m.tick, m.news.at())
}

// Tick does what is due.
func (m *Members) Tick(now time.Duration, out *MembersOut) {
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
func (m *Members) Heard(now time.Duration, name filch.NodeName, at time.Duration) {
	m.step(now)
	if e := m.index[name]; e != nil && e != m.self {
		e.heard = max(e.heard, m.awake-(m.now-min(at, m.now)))
	}
}

// merge takes what another node says about a member and reports whether it was
// news. from is told nothing of it.
func (m *Members) merge(from filch.NodeName, n *Member, out *MembersOut) bool {
	e := m.index[n.Name]
	if e == m.self {
		m.aboutSelf(from, n, out)
		return false
	}
	if e == nil {
		if n.State.Over() && m.joins.done || len(m.all) >= MaxMembers {
			return false
		}
		e = &entry{m: n.clone(), key: key(n.Name)}
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
var doubts = map[MemberState]MemberEventKind{Suspect: MemberSuspect, Gone: MemberGone}

// changed follows an entry that was taken in or replaced.
func (m *Members) changed(e *entry, old Member, from filch.NodeName, out *MembersOut) {
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
	ev := MemberEvent{Member: n.clone()}
	switch {
	case n.State == Dead:
		ev.Kind = MemberDead
	case n.State == Left:
		ev.Kind = MemberLeft
	case old.Incarnation != n.Incarnation || old.State.Over():
		ev.Kind, ev.Was = MemberUp, old.Incarnation
		e.heard, e.vouch, e.differ, e.watch = 0, 0, 0, nil
		m.ring.stale = true
	case n.State == Suspect:
		ev.Kind = MemberSuspect
	case n.State == Gone:
		ev.Kind = MemberGone
	case old.State != Alive:
		ev.Kind = MemberFine
	default:
		ev.Kind = MemberChanged
	}
	if !n.State.Over() || old.Name != "" && !old.State.Over() {
		out.Events = append(out.Events, ev)
	}
	// One that comes back with a suspicion is both.
	if kind, ok := doubts[n.State]; ok && ev.Kind == MemberUp {
		out.Events = append(out.Events, MemberEvent{Kind: kind, Member: n.clone()})
	}
	if was := old.State == Gone && old.Incarnation == n.Incarnation; was != (n.State == Gone) {
		m.ring.stale = true // no news go to it
		if was && !n.State.Over() {
			e.spared = m.awake + spareFor
		}
	}
	m.publish(e, from)
}

// insert adds an entry to the list.
func (m *Members) insert(e *entry) {
	m.all = slices.Insert(m.all, m.place(e), e)
	m.index[e.m.Name] = e
	m.sum(e)
	if e.m.State.Over() {
		m.gone++
		e.gone, e.pause, e.revive = m.now, reviveFirst, m.now+reviveFirst
	}
	m.ring.stale = true
}

func (m *Members) remove(e *entry) {
	i := m.place(e)
	m.all = slices.Delete(m.all, i, i+1)
	delete(m.index, e.m.Name)
	m.gone--
}

// Check panics when the list contradicts itself; tests call it after every
// input.
func (m *Members) Check() {
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
