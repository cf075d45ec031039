package members

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

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
func (m *List) silence(e *entry) time.Duration {
	return m.awake - max(e.heard, e.vouch, e.watch.since)
}

// beat sends a beat to the watchers of this node.
func (m *List) beat(out *Out) {
	m.beatAt = m.now + BeatEvery
	if m.live == 1 && m.gone == 0 {
		m.beatAt = filch.Never
	}
	b := (&gossip{kind: kindBeat, sum: m.total()}).encode()
	for _, e := range m.ring.tellers {
		out.Sends = append(out.Sends, Send{e.m.Name, b})
	}
	leases := 0
	for _, e := range m.all {
		if e.lease > m.now && leases < maxLeases && !e.m.State.Over() && !slices.Contains(m.ring.tellers, e) {
			leases++
			out.Sends = append(out.Sends, Send{e.m.Name, b})
		}
	}
	m.tick = min(m.tick, m.now)
}

// look checks the silence of the watched members.
func (m *List) look(out *Out) {
	m.tick = filch.Never
	// A suspicion or a death changes the set of watched members.
	for _, e := range slices.Clone(m.ring.watching) {
		if e.watch == nil {
			continue
		}
		m.seek(e, out)
		if quiet := m.awake - max(e.heard, e.watch.since); quiet >= pingAfter {
			m.tick = min(m.tick, m.now+checkEvery)
			m.pursue(e, quiet, out)
		}
	}
	m.revive(out)
	m.refresh(out)
}

// pursue takes the steps due after a member's silence.
func (m *List) pursue(e *entry, quiet time.Duration, out *Out) {
	w := e.watch
	if m.awake-w.pinged >= pingEvery {
		m.ping(e, out)
	}
	silent := m.silence(e)
	if silent >= SuspectAfter && e.m.State == Alive {
		s := e.m.clone()
		s.State = Suspect
		m.merge("", &s, out)
		m.ring.stale = true
		if e.watch == nil {
			return
		}
	}
	if quiet >= SuspectAfter && !w.probing && (w.probed == 0 || m.awake-w.probed >= redialEvery) {
		m.redial(e, out)
	}
	// A member heard by a witness: ask witnesses again before suspecting the member
	// again.
	after := askAfter
	if e.vouch > e.heard {
		after = pingAfter
	}
	if silent >= after && m.awake-w.askedAt >= askEvery {
		w.askedAt = m.awake
		m.askWitnesses(e, e.m, out)
	}
	if m.proven(e, silent) {
		d := e.m.clone()
		d.State = Dead
		m.merge("", &d, out)
	}
}

// proven reports whether a silent member is dead.
func (m *List) proven(e *entry, silent time.Duration) bool {
	w := e.watch
	if silent < DeadAfter || !w.failed || w.probed < max(e.heard, e.vouch) {
		return false
	}
	if w.agreed > 0 && m.awake-w.agreed <= agreeFor {
		return true
	}
	return m.live == 2 || silent >= AloneAfter
}

func (m *List) ping(e *entry, out *Out) {
	e.watch.pinged = m.awake
	m.send(e.m.Name, &gossip{kind: kindPing, members: []Member{e.m}}, out)
}

// askWitnesses sends q, about e, to some members in state Alive. The choice
// rotates, so in the end all such members were asked.
func (m *List) askWitnesses(e *entry, q Member, out *Out) {
	w := e.watch
	can := m.witnesses(e)
	if len(can) == 0 {
		w.asked = nil
		can = m.witnesses(e)
	}
	for range min(maxWitness, len(can)) {
		i := m.random(len(can))
		o := can[i]
		can = slices.Delete(can, i, i+1)
		w.asked = append(w.asked, o.m.Name)
		m.send(o.m.Name, &gossip{kind: kindAsk, members: []Member{q}}, out)
	}
}

// witnesses are the members available to judge e and not yet asked in this
// rotation.
func (m *List) witnesses(e *entry) (can []*entry) {
	for _, o := range m.all {
		if o != e && o != m.self && o.m.State == Alive && !slices.Contains(e.watch.asked, o.m.Name) {
			can = append(can, o)
		}
	}
	return can
}

// onAsk answers another watcher: from a recent sign of life, or after a redial.
func (m *List) onAsk(from filch.NodeName, q Member, out *Out) {
	e := m.index[q.Name]
	switch {
	case e == nil || e.m.Incarnation > q.Incarnation:
		return
	case e == m.self, q.State != Gone && !e.m.State.Over() && e.heard > 0 && m.awake-e.heard < pingAfter:
		m.send(from, &gossip{kind: kindSay, found: foundAlive, members: []Member{q}}, out)
	case e.m.State.Over():
		m.send(from, &gossip{kind: kindNews, members: []Member{e.m}}, out)
	case len(m.joins.asks) < maxLeases:
		m.joins.asks = append(m.joins.asks, ask{from, q, m.awake})
		out.Probes = append(out.Probes, Probe{e.m.Name, e.m.Incarnation, slices.Clone(e.m.Addrs)})
	}
}

func (m *List) onSay(g *gossip, out *Out) {
	q := g.members[0]
	e := m.index[q.Name]
	if e == nil || e.watch == nil || e.m.Incarnation != q.Incarnation {
		return
	}
	if g.found == foundAlive {
		e.vouch, e.watch.agreed, e.watch.refused = m.awake, 0, false
		return
	}
	e.watch.agreed = m.awake
	if g.found == foundRefused && m.refused(e) {
		m.declareGone(e, out)
	}
}

// Probed receives the result of a probe.
func (m *List) Probed(now time.Duration, name filch.NodeName, incarnation uint64, res ProbeResult, out *Out) {
	m.step(now)
	if m.down {
		return
	}
	e := m.index[name]
	kept := m.joins.asks[:0]
	for _, a := range m.joins.asks {
		if a.m.Name != name {
			kept = append(kept, a)
			continue
		}
		m.send(a.from, &gossip{kind: kindSay, found: m.finding(e, res, a.at), members: []Member{a.m}}, out)
	}
	m.joins.asks = kept
	if e == nil || e.m.Incarnation != incarnation {
		return
	}
	if e.m.State == Dead {
		if res == ProbeOK {
			m.send(name, &gossip{kind: kindPing, members: []Member{e.m}}, out)
		}
		return
	}
	if w := e.watch; w != nil {
		w.probing, w.probed, w.failed, w.refused = false, m.awake, res != ProbeOK, res == ProbeRefused
		m.tick = min(m.tick, m.now)
		m.doubt(e, out)
	}
	m.Tick(now, out)
}

// revive probes dead members again, since a cut network may be whole again, and
// forgets members dead or departed for longer than ForgetAfter.
func (m *List) revive(out *Out) {
	if m.gone == 0 {
		return
	}
	m.tick = min(m.tick, m.now+reviveFirst)
	var oldest *entry
	for _, e := range slices.Clone(m.all) {
		if !e.m.State.Over() {
			continue
		}
		if m.now-e.gone >= ForgetAfter {
			m.forget(e, out)
			continue
		}
		if oldest == nil || e.gone < oldest.gone {
			oldest = e
		}
		if e.m.State == Dead && e.revive <= m.now {
			if m.responsible(e) {
				out.Probes = append(out.Probes, Probe{e.m.Name, e.m.Incarnation, slices.Clone(e.m.Addrs)})
			}
			e.pause = min(2*e.pause, reviveLast)
			e.revive = m.now + e.pause
		}
	}
	if m.gone > maxGone && oldest != nil {
		m.forget(oldest, out)
	}
}

func (m *List) forget(e *entry, out *Out) {
	m.remove(e)
	out.Events = append(out.Events, Event{Kind: EventForgotten, Member: e.m.clone()})
}
