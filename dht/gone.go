package dht

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// This file finds out at once that a node's process has ended while its host
// answers: the kernel there closes its connections and refuses new ones. A
// firewall can do the same to a node that lives. So two nodes must find it, what
// follows can be undone, and the node refutes it as soon as anybody hears it.

// spareFor is how long a node that was called gone and refuted it is not called
// so again: something between it and the others refuses connections, and shards
// are not to move back and forth.
const spareFor = 30 * time.Second

// seekEvery is how often witnesses of a refusal are asked.
const seekEvery = 200 * time.Millisecond

// ProbeResult is what came of a [MemberProbe].
type ProbeResult uint8

// The results of a probe.
const (
	ProbeFailed ProbeResult = iota
	// ProbeRefused: the hosts of all addresses answered that nobody listens, and
	// no connection to the node is open here.
	ProbeRefused
	ProbeOK
)

// finding is what a witness says of a node; it crosses the wire: append only.
type finding uint8

const (
	foundSilent finding = iota
	foundAlive
	foundRefused
)

// finding judges a probe for another watcher that asked at some time.
func (m *Members) finding(e *entry, res ProbeResult, asked time.Duration) finding {
	switch {
	case res == ProbeOK:
		return foundAlive
	case res == ProbeRefused && e != nil && e.heard <= asked && e.spared <= m.awake:
		return foundRefused
	}
	return foundSilent
}

// Closed tells that the last connection to a node has gone: it is asked at once,
// so that a node which only lost a connection is not suspected, and dialed, so
// that one whose process ended is found out.
func (m *Members) Closed(now time.Duration, name filch.NodeName, out *MembersOut) {
	m.step(now)
	e := m.index[name]
	if e == nil || e.watch == nil || m.down {
		return
	}
	w := e.watch
	w.closed = m.awake
	if m.awake-w.pinged >= checkEvery {
		m.ping(e, out)
	}
	if !w.probing && (w.probed == 0 || m.awake-w.probed >= checkEvery) {
		m.redial(e, out)
	}
}

// redial asks for a fresh connection to a node that is watched.
func (m *Members) redial(e *entry, out *MembersOut) {
	e.watch.probing, e.watch.began = true, m.awake
	out.Probes = append(out.Probes, MemberProbe{e.m.Name, e.m.Incarnation, slices.Clone(e.m.Addrs)})
}

// doubt goes on after a redial.
func (m *Members) doubt(e *entry, out *MembersOut) {
	w := e.watch
	w.sought = 0
	if w.failed && !w.refused && w.closed > w.began {
		m.redial(e, out) // it began before the connections went
	}
	m.seek(e, out)
}

// seek puts the refusal of a redial to witnesses, again and again: their own
// connections may go a moment later.
func (m *Members) seek(e *entry, out *MembersOut) {
	w := e.watch
	switch {
	case !m.refused(e):
		return
	case mutantGoneAlone:
		m.declareGone(e, out)
		return
	case w.sought == 0 || m.awake-w.sought >= seekEvery:
		w.sought = m.awake
		q := e.m
		q.State = Gone
		m.askWitnesses(e, q, out)
	}
	m.tick = min(m.tick, m.now+seekEvery)
}

// refused reports whether a node that is not known to be gone refused the last
// redial, lately, and was not heard since that began. Of two nodes none can be
// the witness.
func (m *Members) refused(e *entry) bool {
	w := e.watch
	return e.m.State < Gone && m.live > 2 && w.refused && m.awake-w.probed <= agreeFor && e.heard <= w.began && e.spared <= m.awake
}

func (m *Members) declareGone(e *entry, out *MembersOut) {
	g := e.m.clone()
	g.State = Gone
	m.merge("", &g, out)
}

// wronged tells a node that is called gone so when it is heard: it refutes that.
func (m *Members) wronged(e *entry, out *MembersOut) {
	if e.m.State == Gone && !mutantGoneForGood && (e.told == 0 || m.now-e.told >= checkEvery) {
		e.told = m.now
		m.send(e.m.Name, &gossip{kind: kindPing, members: []Member{e.m}}, out)
	}
}
