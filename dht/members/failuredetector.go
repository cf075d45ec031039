package members

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// detector judges the watched members. Its judgments are claims; [List] merges a claim
// as it merges the news of other nodes.
type detector struct {
	clock *clock
	table *table
	ring  *ring
	dice  *filch.Rand
	claim func(e *entry, s State, out *Out)
	// Contacts answer and hear the questions about nodes that the list lacks.
	contacts *Contacts
	tick     time.Duration // when silence is looked at next
	asks     []ask         // of other watchers
}

// suspicion is a watcher's state for a silent member. Times are by awake; 0 is
// never.
type suspicion struct {
	since   time.Duration // when watching began: silence before does not count
	pinged  time.Duration
	closed  time.Duration // when the last connection to the member closed
	probing bool
	began   time.Duration // when the last redial began
	probed  time.Duration // when the last redial ended
	failed  bool          // the last redial failed
	refused bool          // no process listened, and no connection was left
	sought  time.Duration // when witnesses were asked about the refusal
	asked   []filch.NodeName
	askedAt time.Duration
	agreed  time.Duration // when a witness last found the member silent as well
}

// ask is a question of another watcher, pending until a redial ends.
type ask struct {
	from filch.NodeName
	m    Member
	at   time.Duration // by awake
}

// silence is the time since this node or a witness last received anything from a
// watched member.
func (d *detector) silence(e *entry) time.Duration {
	return d.clock.awake - max(e.heard, e.vouch, e.watch.since)
}

// look checks the silence of the watched members.
func (d *detector) look(out *Out) {
	d.tick = filch.Never
	// A suspicion or a death changes the set of watched members.
	for _, e := range slices.Clone(d.ring.watching) {
		if e.watch == nil {
			continue
		}
		d.seek(e, out)
		if quiet := d.clock.awake - max(e.heard, e.watch.since); quiet >= pingAfter {
			d.tick = min(d.tick, d.clock.now+checkEvery)
			d.pursue(e, quiet, out)
		}
	}
	d.revive(out)
}

// pursue takes the steps due after a member's silence.
func (d *detector) pursue(e *entry, quiet time.Duration, out *Out) {
	w := e.watch
	if d.clock.awake-w.pinged >= pingEvery {
		d.ping(e, out)
	}
	silent := d.silence(e)
	if silent >= SuspectAfter && e.m.State == Alive {
		d.claim(e, Suspect, out)
		if e.watch == nil {
			return
		}
	}
	if quiet >= SuspectAfter && !w.probing && (w.probed == 0 || d.clock.awake-w.probed >= redialEvery) {
		d.redial(e, out)
	}
	// A member heard by a witness: ask witnesses again before suspecting the member
	// again.
	after := askAfter
	if e.vouch > e.heard {
		after = pingAfter
	}
	if silent >= after && d.clock.awake-w.askedAt >= askEvery {
		w.askedAt = d.clock.awake
		d.askWitnesses(e, e.m, out)
	}
	if d.proven(e, silent) {
		d.claim(e, Dead, out)
	}
}

// proven reports whether a silent member is dead.
func (d *detector) proven(e *entry, silent time.Duration) bool {
	w := e.watch
	if silent < DeadAfter || !w.failed || w.probed < max(e.heard, e.vouch) {
		return false
	}
	if w.agreed > 0 && d.clock.awake-w.agreed <= agreeFor {
		return true
	}
	return d.table.live == 2 || silent >= AloneAfter
}

func (d *detector) ping(e *entry, out *Out) {
	e.watch.pinged = d.clock.awake
	out.send(e.m.Name, &gossip{kind: kindPing, members: []Member{e.m}})
}

// askWitnesses sends q, about e, to some members in state Alive. The choice
// rotates, so in the end all such members were asked.
func (d *detector) askWitnesses(e *entry, q Member, out *Out) {
	w := e.watch
	can := d.witnesses(e)
	if len(can) == 0 {
		w.asked = nil
		can = d.witnesses(e)
	}
	for range min(maxWitness, len(can)) {
		i := d.dice.IntN(len(can))
		o := can[i]
		can = slices.Delete(can, i, i+1)
		w.asked = append(w.asked, o.m.Name)
		out.send(o.m.Name, &gossip{kind: kindAsk, members: []Member{q}})
	}
}

// witnesses are the members available to judge e and not yet asked in this
// rotation.
func (d *detector) witnesses(e *entry) (can []*entry) {
	for _, o := range d.table.all {
		if o != e && o != d.table.self && o.m.State == Alive && !slices.Contains(e.watch.asked, o.m.Name) {
			can = append(can, o)
		}
	}
	return can
}

// onAsk answers another watcher: from a recent sign of life, or after a redial.
func (d *detector) onAsk(from filch.NodeName, q Member, out *Out) {
	e := d.table.index[q.Name]
	switch {
	case e == nil:
		d.contacts.vouches(from, q, out)
	case e.m.Incarnation > q.Incarnation:
		return
	case e == d.table.self, q.State != Gone && !e.m.State.Over() && e.heard > 0 && d.clock.awake-e.heard < pingAfter:
		out.send(from, &gossip{kind: kindSay, found: foundAlive, members: []Member{q}})
	case e.m.State.Over():
		out.send(from, &gossip{kind: kindNews, members: []Member{e.m}})
	case len(d.asks) < maxLeases:
		d.asks = append(d.asks, ask{from, q, d.clock.awake})
		out.probe(&e.m)
	}
}

func (d *detector) onSay(g *gossip, out *Out) {
	q := g.members[0]
	e := d.table.index[q.Name]
	if e == nil {
		d.contacts.vouched(&q, g.found)
	}
	if e == nil || e.watch == nil || e.m.Incarnation != q.Incarnation {
		return
	}
	if g.found == foundAlive {
		e.vouch, e.watch.agreed, e.watch.refused = d.clock.awake, 0, false
		return
	}
	e.watch.agreed = d.clock.awake
	if g.found == foundRefused && d.refused(e) {
		d.claim(e, Gone, out)
	}
}

// revive probes dead members again, since a cut network may be whole again, and
// forgets members dead or departed for longer than ForgetAfter.
func (d *detector) revive(out *Out) {
	if d.table.gone == 0 {
		return
	}
	d.tick = min(d.tick, d.clock.now+reviveFirst)
	var oldest *entry
	for _, e := range slices.Clone(d.table.all) {
		if !e.m.State.Over() {
			continue
		}
		if d.clock.now-e.gone >= ForgetAfter {
			d.forget(e, out)
			continue
		}
		if oldest == nil || e.gone < oldest.gone {
			oldest = e
		}
		if e.m.State == Dead && e.revive <= d.clock.now {
			if d.table.responsible(e) {
				out.probe(&e.m)
			}
			e.pause = min(2*e.pause, reviveLast)
			e.revive = d.clock.now + e.pause
		}
	}
	if d.table.gone > maxGone && oldest != nil {
		d.forget(oldest, out)
	}
}

func (d *detector) forget(e *entry, out *Out) {
	d.table.remove(e)
	out.Events = append(out.Events, Event{Kind: EventForgotten, Member: e.m.clone()})
}

// probed handles the result of a probe, and reports whether the probe was the redial of
// a watched member.
func (d *detector) probed(name filch.NodeName, incarnation uint64, res ProbeResult, out *Out) bool {
	e := d.table.index[name]
	kept := d.asks[:0]
	for _, a := range d.asks {
		if a.m.Name != name {
			kept = append(kept, a)
			continue
		}
		out.send(a.from, &gossip{kind: kindSay, found: d.finding(e, res, a.at), members: []Member{a.m}})
	}
	d.asks = kept
	if e == nil {
		d.contacts.result(name, incarnation, res == ProbeOK, out)
	}
	if e == nil || e.m.Incarnation != incarnation {
		return false
	}
	if e.m.State == Dead {
		if res == ProbeOK {
			out.send(name, &gossip{kind: kindPing, members: []Member{e.m}})
		}
		return false
	}
	if w := e.watch; w != nil {
		w.probing, w.probed, w.failed, w.refused = false, d.clock.awake, res != ProbeOK, res == ProbeRefused
		d.tick = min(d.tick, d.clock.now)
		d.doubt(e, out)
	}
	return true
}
