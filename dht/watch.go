package dht

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// watch is what a watcher keeps about a silent member. Times are by awake; 0
// is never.
type watch struct {
	since   time.Duration // when watching began: silence before does not count
	pinged  time.Duration
	closed  time.Duration // its last connection here went
	probing bool
	began   time.Duration // the last redial
	probed  time.Duration // when it ended
	failed  bool          // and it failed
	refused bool          // nobody listened, and no connection was left
	sought  time.Duration // when witnesses of that were asked
	asked   []filch.NodeName
	askedAt time.Duration
	agreed  time.Duration // a witness found it silent as well
}

// ask is a question of another watcher that waits for a redial.
type ask struct {
	from filch.NodeName
	m    Member
	at   time.Duration // by awake
}

// silence is how long nothing was heard of a watched member, by this node or a
// witness.
func (m *Members) silence(e *entry) time.Duration {
	return m.awake - max(e.heard, e.vouch, e.watch.since)
}

// beat tells the watchers that this node lives.
func (m *Members) beat(out *MembersOut) {
	m.beatAt = m.now + BeatEvery
	if m.live == 1 && m.gone == 0 {
		m.beatAt = filch.Never
	}
	b := (&gossip{kind: kindBeat, sum: m.total()}).encode()
	for _, e := range m.ring.tellers {
		out.Sends = append(out.Sends, MemberSend{e.m.Name, b})
	}
	leases := 0
	for _, e := range m.all {
		if e.lease > m.now && leases < maxLeases && !e.m.State.Over() && !slices.Contains(m.ring.tellers, e) {
			leases++
			out.Sends = append(out.Sends, MemberSend{e.m.Name, b})
		}
	}
	m.tick = min(m.tick, m.now)
}

// look follows the silence of those who are watched.
func (m *Members) look(out *MembersOut) {
	m.tick = filch.Never
	// A suspicion or a death changes who is watched.
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

// pursue takes the steps that a silence calls for.
func (m *Members) pursue(e *entry, quiet time.Duration, out *MembersOut) {
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
	// One that a witness has heard is asked about before it is suspected again.
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
func (m *Members) proven(e *entry, silent time.Duration) bool {
	w := e.watch
	if silent < DeadAfter || !w.failed || w.probed < max(e.heard, e.vouch) {
		return false
	}
	if w.agreed > 0 && m.awake-w.agreed <= agreeFor {
		return true
	}
	return m.live == 2 || silent >= AloneAfter
}

func (m *Members) ping(e *entry, out *MembersOut) {
	e.watch.pinged = m.awake
	m.send(e.m.Name, &gossip{kind: kindPing, members: []Member{e.m}}, out)
}

// askWitnesses asks some members that are not suspects what they find of e, as it
// is put to them; in turn, so that in the end all were asked.
func (m *Members) askWitnesses(e *entry, q Member, out *MembersOut) {
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

// witnesses are those that can be asked about e and were not in this turn.
func (m *Members) witnesses(e *entry) (can []*entry) {
	for _, o := range m.all {
		if o != e && o != m.self && o.m.State == Alive && !slices.Contains(e.watch.asked, o.m.Name) {
			can = append(can, o)
		}
	}
	return can
}

// onAsk answers another watcher: from what was heard just now, or after a
// redial.
func (m *Members) onAsk(from filch.NodeName, q Member, out *MembersOut) {
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
		out.Probes = append(out.Probes, MemberProbe{e.m.Name, e.m.Incarnation, slices.Clone(e.m.Addrs)})
	}
}

func (m *Members) onSay(g *gossip, out *MembersOut) {
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

// Probed tells the end of a probe.
func (m *Members) Probed(now time.Duration, name filch.NodeName, incarnation uint64, res ProbeResult, out *MembersOut) {
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

// revive tries the dead again, for the network may have been cut and be whole
// again, and forgets those who are gone for long.
func (m *Members) revive(out *MembersOut) {
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
				out.Probes = append(out.Probes, MemberProbe{e.m.Name, e.m.Incarnation, slices.Clone(e.m.Addrs)})
			}
			e.pause = min(2*e.pause, reviveLast)
			e.revive = m.now + e.pause
		}
	}
	if m.gone > maxGone && oldest != nil {
		m.forget(oldest, out)
	}
}

func (m *Members) forget(e *entry, out *MembersOut) {
	m.remove(e)
	out.Events = append(out.Events, MemberEvent{Kind: MemberForgotten, Member: e.m.clone()})
}
