package pool

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Manager is the part of one node in one pool.
type Manager struct {
	self     filch.NodeName
	instance string

	beat   int64               // of the record when it last changed
	moved  time.Time           // when the record was seen to change
	wrote  time.Time           // the last change by this node
	asked  time.Time           // the last question to the batch system
	lived  time.Time           // when the pool had allocations last
	soon   bool                // batch jobs end now: the next look asks again
	ready  int64               // in the look before
	looked time.Time           // the look before; zero: none as the holder
	idle   map[int64]time.Time // since when an allocation has no work
	spare  time.Time           // since when queued allocations are not needed
	told   []Told
	orders []Order // of the last look
	// Since when this node knows an allocation, since when in its state, and since when the
	// batch system does not know its job. All are by this node's clock: the clock of the holder
	// that wrote the record may be another.
	first   map[int64]time.Time
	since   map[int64]stateSince
	missing map[int64]time.Time
}

type stateSince struct {
	state State
	at    time.Time
}

// NewManager makes the part of a node in a pool.
func NewManager(self filch.NodeName, instance string) *Manager {
	return &Manager{
		self: self, instance: instance, idle: map[int64]time.Time{},
		first: map[int64]time.Time{}, since: map[int64]stateSince{}, missing: map[int64]time.Time{},
	}
}

// Holds tells whether this node is the holder, or takes the pool over because the record
// has not changed for [HolderLost]. The clocks of two nodes are never compared.
func (m *Manager) Holds(now time.Time, p *Pool) bool {
	if m.moved.IsZero() || p.Beat != m.beat {
		m.beat, m.moved = p.Beat, now
	}
	m.follow(now, p)
	if p.Holder == m.self {
		return true
	}
	m.looked, m.told, m.orders = time.Time{}, nil, nil
	clear(m.idle)
	clear(m.missing)
	return p.Holder == "" || now.Sub(m.moved) >= HolderLost
}

// follow notes since when this node knows the allocations in their states.
func (m *Manager) follow(now time.Time, p *Pool) {
	for i := range p.Allocs {
		a := &p.Allocs[i]
		if _, known := m.first[a.N]; !known {
			m.first[a.N] = now
		}
		if m.since[a.N].state != a.State {
			m.since[a.N] = stateSince{a.State, now}
		}
	}
	gone := func(n int64) bool { return p.Alloc(n) == nil }
	maps.DeleteFunc(m.first, func(n int64, _ time.Time) bool { return gone(n) })
	maps.DeleteFunc(m.missing, func(n int64, _ time.Time) bool { return gone(n) })
	maps.DeleteFunc(m.since, func(n int64, _ stateSince) bool { return gone(n) })
}

// in returns how long this node has known an allocation in its state.
func (t *turn) in(a *Alloc) time.Duration {
	if s := t.m.since[a.N]; s.state == a.State {
		return t.now.Sub(s.at)
	}
	return 0
}

// AsksBatch tells whether the next look includes the batch system.
func (m *Manager) AsksBatch(now time.Time, p *Pool) bool {
	if m.lived.IsZero() || len(p.Allocs) > 0 {
		m.lived = now
	}
	// Submissions that were given up may come late, after the last allocation.
	return now.Sub(m.lived) < straysFor && (m.soon || now.Sub(m.asked) >= BatchEvery)
}

// Told takes the answer to a submission. The next look that is stored writes the answer into
// the record. A submission of which nobody knows whether the batch system took it has no
// answer: the next looks find the batch job by its name, or give the submission up.
func (m *Manager) Told(t Told) { m.told = append(m.told, t) }

// Stored tells whether the record of the last look is stored, and returns the orders, which
// the caller carries out now. A record that is not stored has no orders: another node or a
// user has changed the record, or nobody knows.
func (m *Manager) Stored(ok bool) []Order {
	orders := m.orders
	m.orders = nil
	if !ok && !mutantUnstored {
		return nil
	}
	if ok {
		m.told = nil
	}
	return orders
}

// Look decides, and changes p; save tells whether p must be stored. [Manager.Stored] has the
// orders.
func (m *Manager) Look(now time.Time, p *Pool, v *View) (save bool) {
	before := string(p.Encode())
	t := turn{m: m, p: p, v: v, now: now}
	if p.Holder != m.self {
		p.Holder = m.self
		t.fresh = true
	}
	t.answers()
	t.count()
	if v.Batch != nil {
		m.asked = now
		t.batch()
	}
	t.nodes()
	t.shrink()
	t.grow()
	m.ready, m.looked, m.soon = v.Ready, now, t.ending()
	p.Allocs = slices.DeleteFunc(p.Allocs, func(a Alloc) bool { return a.State == Ended })
	save = string(p.Encode()) != before || now.Sub(m.wrote) >= beatEvery
	if save {
		p.Beat++
		m.wrote, m.beat, m.moved = now, p.Beat, now
	}
	m.orders = t.orders
	return save
}

// turn is one look.
type turn struct {
	m      *Manager
	p      *Pool
	v      *View
	now    time.Time
	fresh  bool // this node has just taken the pool over
	blamed bool // a failure has been counted
	orders []Order
}

func (t *turn) order(k OrderKind, a *Alloc) {
	o := Order{Kind: k, N: a.N, Job: a.Job, By: t.now.Add(SubmitWait)}
	for i := range t.v.Nodes {
		if n := &t.v.Nodes[i]; k == Drain && t.p.has(a, n) {
			o.Nodes = append(o.Nodes, n.Name)
		}
	}
	t.orders = append(t.orders, o)
}

// answers writes the answers to submissions.
func (t *turn) answers() {
	for _, a := range t.m.told {
		al := t.p.Alloc(a.N)
		switch {
		case al == nil || al.State != Planned:
		case a.Err != "":
			t.failed(al, "was refused: "+clip(a.Err))
		default:
			al.State, al.Job = Queued, a.Job
		}
	}
}

// failed ends an allocation that came to nothing.
func (t *turn) failed(a *Alloc, why string) {
	t.blame(a, why)
	t.end(a, why)
}

// blame counts a failure. Several failures that one look shows count once: they have one
// cause.
func (t *turn) blame(a *Alloc, why string) {
	p := t.p
	p.Totals.Failed++
	p.Trouble = fmt.Sprintf("allocation %d%s %s", a.N, jobText(a), why)
	if t.blamed {
		return
	}
	t.blamed = true
	p.Bad++
	p.After = t.now.Add(backOff[min(p.Bad, len(backOff)-1)]).UnixNano()
	if p.Bad >= badMost && p.Paused == "" && !mutantEndless {
		p.Paused = fmt.Sprintf("%d failures in a row; the last: %s", p.Bad, p.Trouble)
	}
}

func (t *turn) end(a *Alloc, how string) {
	a.State, a.Said, a.Over = Ended, how, t.now.UnixNano()
	t.p.Totals.add(a)
	t.p.Ends = append(t.p.Ends, *a)
	t.p.Ends = t.p.Ends[max(len(t.p.Ends)-keptEnds, 0):]
	delete(t.m.idle, a.N)
}

// jobText names the batch job of an allocation, which has the output of the batch script.
func jobText(a *Alloc) string {
	if a.Job == "" {
		return ""
	}
	return ", job " + a.Job + ","
}

// count adds the time since the look before to the seconds of nodes.
func (t *turn) count() {
	if t.m.looked.IsZero() {
		return
	}
	secs := t.now.Sub(t.m.looked).Seconds()
	for i := range t.p.Allocs {
		if a := &t.p.Allocs[i]; a.Began != 0 {
			here, busy := t.here(a)
			if here == 0 && a.State == Ending && a.Joined != 0 {
				continue // its launchers have ended, and with them the batch job
			}
			a.Granted += secs * float64(max(here, a.Nodes, 1))
			a.Worked += secs * float64(busy)
		}
	}
}

// ending tells whether the nodes of an allocation have left that was given back a moment ago:
// the batch job ends within a second, as a rule, and costs no more from then on.
func (t *turn) ending() bool {
	return slices.ContainsFunc(t.p.Allocs, func(a Alloc) bool {
		here, _ := t.here(&a)
		return a.State == Ending && a.Joined != 0 && here == 0 && t.in(&a) < soonWithin
	})
}

// here counts the nodes of an allocation, and the nodes of these that have work.
func (t *turn) here(a *Alloc) (here, busy int) {
	for i := range t.v.Nodes {
		if n := &t.v.Nodes[i]; t.p.has(a, n) {
			here++
			if n.Busy > 0 {
				busy++
			}
		}
	}
	return here, busy
}
