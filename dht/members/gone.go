package members

import (
	"time"
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
func (d *detector) finding(e *entry, res ProbeResult, asked time.Duration) finding {
	switch {
	case res == ProbeOK:
		return foundAlive
	case res == ProbeRefused && e != nil && e.heard <= asked && e.spared <= d.clock.awake:
		return foundRefused
	}
	return foundSilent
}

// redial asks for a fresh connection to a watched node.
func (d *detector) redial(e *entry, out *Out) {
	e.watch.probing, e.watch.began = true, d.clock.awake
	out.probe(&e.m)
}

// doubt handles the result of a redial.
func (d *detector) doubt(e *entry, out *Out) {
	w := e.watch
	w.sought = 0
	if w.failed && !w.refused && w.closed > w.began {
		d.redial(e, out) // the redial began before the connections closed
	}
	d.seek(e, out)
}

// seek asks witnesses about the refusal of a redial, repeatedly: the witnesses' own
// connections may close a moment later.
func (d *detector) seek(e *entry, out *Out) {
	w := e.watch
	switch {
	case !d.refused(e):
		return
	case mutantGoneAlone:
		d.claim(e, Gone, out)
		return
	case w.sought == 0 || d.clock.awake-w.sought >= seekEvery:
		w.sought = d.clock.awake
		q := e.m
		q.State = Gone
		d.askWitnesses(e, q, out)
	}
	d.tick = min(d.tick, d.clock.now+seekEvery)
}

// refused reports whether the last redial to a node not yet known to be gone was
// refused, lately, and nothing was received from the node since the redial began.
// With two live nodes there is no witness, so the result is false.
func (d *detector) refused(e *entry) bool {
	w := e.watch
	return e.m.State < Gone && d.table.live > 2 && w.refused && d.clock.awake-w.probed <= agreeFor && e.heard <= w.began && e.spared <= d.clock.awake
}

// closed handles the close of the last connection to a watched node.
func (d *detector) closed(e *entry, out *Out) {
	w := e.watch
	w.closed = d.clock.awake
	if d.clock.awake-w.pinged >= checkEvery {
		d.ping(e, out)
	}
	if !w.probing && (w.probed == 0 || d.clock.awake-w.probed >= checkEvery) {
		d.redial(e, out)
	}
}

// wronged pings a node in state Gone after receiving from the node, so the node
// refutes the claim.
func (d *detector) wronged(e *entry, out *Out) {
	if e.m.State == Gone && !mutantGoneForGood && (e.told == 0 || d.clock.now-e.told >= checkEvery) {
		e.told = d.clock.now
		out.send(e.m.Name, &gossip{kind: kindPing, members: []Member{e.m}})
	}
}
