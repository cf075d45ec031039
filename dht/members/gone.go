package members

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// This file detects at once the end of a node's process while the node's host
// answers: the kernel there closes the connections and refuses new ones. A firewall
// can do the same to a live node. So two nodes must find the refusal, the
// consequences can be undone, and the node refutes the claim as soon as any member
// receives from the node.

// spareFor is how long a node is not called gone again after refuting a claim.
// Something between the node and the others refuses connections, and shards must
// not move back and forth.
const spareFor = 30 * time.Second

// seekEvery is how often witnesses are asked about a refusal.
const seekEvery = 200 * time.Millisecond

// ProbeResult is the result of a [Probe].
type ProbeResult uint8

// The results of a probe.
const (
	ProbeFailed ProbeResult = iota
	// ProbeRefused: the hosts of all addresses answered: no process listens. No
	// connection to the node is open here.
	ProbeRefused
	ProbeOK
)

// finding is a witness's judgment of a node; the values cross the wire: append
// only.
type finding uint8

const (
	foundSilent finding = iota
	foundAlive
	foundRefused
)

// finding judges a probe for another watcher's question received at the time asked.
func (m *List) finding(e *entry, res ProbeResult, asked time.Duration) finding {
	switch {
	case res == ProbeOK:
		return foundAlive
	case res == ProbeRefused && e != nil && e.heard <= asked && e.spared <= m.awake:
		return foundRefused
	}
	return foundSilent
}

// Closed reports the close of the last connection to a node. The list pings the
// node at once, so a node with just a lost connection is not suspected. The list
// also redials, so an ended process is found.
func (m *List) Closed(now time.Duration, name filch.NodeName, out *Out) {
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

// redial asks for a fresh connection to a watched node.
func (m *List) redial(e *entry, out *Out) {
	e.watch.probing, e.watch.began = true, m.awake
	out.Probes = append(out.Probes, Probe{e.m.Name, e.m.Incarnation, slices.Clone(e.m.Addrs)})
}

// doubt handles the result of a redial.
func (m *List) doubt(e *entry, out *Out) {
	w := e.watch
	w.sought = 0
	if w.failed && !w.refused && w.closed > w.began {
		m.redial(e, out) // the redial began before the connections closed
	}
	m.seek(e, out)
}

// seek asks witnesses about the refusal of a redial, repeatedly: the witnesses' own
// connections may close a moment later.
func (m *List) seek(e *entry, out *Out) {
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

// refused reports whether the last redial to a node not yet known to be gone was
// refused, lately, and nothing was received from the node since the redial began.
// With two live nodes there is no witness, so the result is false.
func (m *List) refused(e *entry) bool {
	w := e.watch
	return e.m.State < Gone && m.live > 2 && w.refused && m.awake-w.probed <= agreeFor && e.heard <= w.began && e.spared <= m.awake
}

func (m *List) declareGone(e *entry, out *Out) {
	g := e.m.clone()
	g.State = Gone
	m.merge("", &g, out)
}

// wronged pings a node in state Gone after receiving from the node, so the node
// refutes the claim.
func (m *List) wronged(e *entry, out *Out) {
	if e.m.State == Gone && !mutantGoneForGood && (e.told == 0 || m.now-e.told >= checkEvery) {
		e.told = m.now
		m.send(e.m.Name, &gossip{kind: kindPing, members: []Member{e.m}}, out)
	}
}
