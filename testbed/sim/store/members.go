package store

import (
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
)

// standing is what one node holds of another.
type standing uint8

const (
	unheard standing = iota
	upright
	suspected
	missing // its process has ended, as it seems, and its host answers
	buried
	departed
)

// members stands in for members.List: it sees the truth about nodes and links
// and tells stores about each other, with delays, and now and then wrongly.
type members struct {
	w      *World
	n      int
	views  []view          // by observer*n+subject
	looked []time.Duration // by observer: its own last look
	doomed []uint64        // by node: the incarnation that is about to learn that it was declared dead
	hosts  hosts
}

type view struct {
	standing    standing
	incarnation uint64
	heard       time.Duration
	rejected    time.Duration // missing until then, whatever is heard
}

// lookEvery is the pace of the list; news of a death spread within gossipMax.
const (
	lookEvery = 40 * time.Millisecond
	gossipMax = 60 * time.Millisecond
	learnMax  = 100 * time.Millisecond
)

func newMembers(w *World, n int) *members {
	return &members{w: w, n: n, views: make([]view, n*n), looked: make([]time.Duration, n), doomed: make([]uint64, n), hosts: hosts{answering(w.plan.seed)}}
}

func (m *members) view(o, s *node) *view { return &m.views[int(o.Index)*m.n+int(s.Index)] }

// hears reports whether signs of life of s reach o now.
func (m *members) hears(o, s *node) bool {
	return s.Speaks() && o.Speaks() && !m.w.Net.IsCut(s.Index, o.Index)
}

// start lets every node look around for ever.
func (m *members) start() {
	for _, o := range m.w.nodes {
		m.again(o)
	}
}

func (m *members) again(o *node) {
	m.w.After(m.w.rng.member.Between(lookEvery/2, lookEvery), func() {
		if o.Speaks() {
			m.look(o)
		}
		m.again(o)
	})
}

// look updates what o holds of everybody. Time in which o itself did not run is
// not held against the others.
func (m *members) look(o *node) {
	w := m.w
	away := max(0, w.Now()-m.looked[o.Index]-2*lookEvery)
	m.looked[o.Index] = w.Now()
	for _, s := range w.nodes {
		if s == o || o.store == nil {
			continue
		}
		v := m.view(o, s)
		if m.hears(o, s) {
			m.heard(o, s, v)
			continue
		}
		v.heard += away
		silent := w.Now() - v.heard
		switch {
		case v.standing == upright && silent > w.plan.suspect:
			m.tell(o, s, v, suspected)
		case (v.standing == suspected || v.standing == missing) && silent > w.plan.dead && m.witness(o, s):
			m.declare(o, s, v.incarnation)
		}
	}
}

func (m *members) heard(o, s *node, v *view) {
	v.heard = m.w.Now()
	switch {
	case s.incarnation > v.incarnation:
		v.incarnation = s.incarnation
		m.tell(o, s, v, upright)
	case (v.standing == suspected || v.standing == missing && m.w.Now() >= v.rejected) && s.incarnation == v.incarnation:
		m.tell(o, s, v, upright)
	case v.standing == buried && s.incarnation == v.incarnation && m.hears(s, o):
		m.meet(o, s)
	}
}

func (m *members) witness(o, s *node) bool {
	others := 0
	for _, x := range m.w.nodes {
		if x == o || x == s || m.view(o, x).standing != upright || !m.hears(o, x) {
			continue
		}
		others++
		if !m.hears(x, s) {
			return true
		}
	}
	return others == 0 && m.w.rng.member.N(8) == 0 // alone: much later
}

// declare makes o hold the incarnation dead, and soon whoever o reaches.
func (m *members) declare(o, s *node, incarnation uint64) {
	v := m.view(o, s)
	if o == s || o.store == nil || v.incarnation > incarnation || v.standing >= buried {
		return
	}
	v.incarnation = incarnation
	m.tell(o, s, v, buried)
	for _, x := range m.w.nodes {
		if x != o && x != s && m.hears(x, o) {
			m.w.After(m.w.rng.member.Between(time.Millisecond, gossipMax), func() {
				if m.hears(x, o) {
					m.declare(x, s, incarnation)
				}
			})
		}
	}
}

// meet is when o and s hear each other again, and o holds s dead: one of them
// comes back with a new incarnation. If each buried the other, it is the one
// that holds fewer nodes upright.
func (m *members) meet(o, s *node) {
	who := s
	if v := m.view(s, o); v.standing == buried && v.incarnation == o.incarnation {
		a, b := m.company(o), m.company(s)
		if a < b || a == b && o.Index > s.Index {
			who = o
		}
	}
	doomed := who.incarnation
	if m.doomed[who.Index] == doomed {
		return
	}
	m.doomed[who.Index] = doomed
	m.w.After(m.w.rng.member.Between(time.Millisecond, learnMax), func() { m.reborn(who, doomed) })
}

func (m *members) reborn(n *node, doomed uint64) {
	switch {
	case n.incarnation != doomed || n.store == nil || n.left:
	case n.Paused():
		m.w.At(n.PausedUntil(), func() { m.reborn(n, doomed) })
	default:
		n.rejoin()
	}
}

// company is how many nodes n holds upright.
func (m *members) company(n *node) (count int) {
	for _, x := range m.w.nodes {
		if x != n && m.view(n, x).standing == upright {
			count++
		}
	}
	return count
}

func (m *members) tell(o, s *node, v *view, to standing) {
	v.standing = to
	state := [...]dht.PeerState{upright: dht.PeerUp, suspected: dht.PeerSuspect, missing: dht.PeerGone, buried: dht.PeerDead, departed: dht.PeerLeft}[to]
	p := dht.Peer{Name: s.Name, Incarnation: v.incarnation, State: state}
	m.w.Trace(o.Name, "hears", "%s.%d is %v", p.Name, p.Incarnation, p.State)
	o.input(func() {
		o.call(func(now time.Duration, out *store.Out) { o.store.Member(now, p, out) })
	})
}

// introduce makes a process that has just begun know whom it hears; the others
// hear of it at their next look.
func (m *members) introduce(o *node) {
	m.looked[o.Index] = m.w.Now()
	for _, s := range m.w.nodes {
		v := m.view(o, s)
		*v = view{heard: m.w.Now()}
		if s != o && m.hears(o, s) && !s.left {
			m.heard(o, s, v)
		}
	}
}

// leave tells everybody who hears n that it went on its own.
func (m *members) leave(n *node, incarnation uint64) {
	for _, o := range m.w.nodes {
		if o == n || o.store == nil {
			continue
		}
		m.w.After(m.w.rng.member.Between(time.Millisecond, gossipMax), func() {
			if v := m.view(o, n); o.store != nil && v.incarnation == incarnation && v.standing != departed {
				m.tell(o, n, v, departed)
			}
		})
	}
}

// mistrust makes o wrong about s for a while, or for good.
func (m *members) mistrust(o, s *node, bury bool) {
	v := m.view(o, s)
	if o.store == nil || v.standing != upright {
		return
	}
	m.tell(o, s, v, suspected)
	if bury {
		m.w.After(m.w.rng.member.Between(time.Millisecond, gossipMax), func() { m.declare(o, s, v.incarnation) })
	}
}
