package members

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Contacts are the nodes that a full list had to turn away, as far as this node has
// met them on a connection. The launcher works with a contact as with a member: the
// list emits the same events. A contact is no part of the gossip or of the ring. This
// node watches its contacts by itself: a contact that is silent and refuses redials is
// dead. When the list has space again, the contacts enter the list.
//
// An instance within the limit of the list has no contacts.
type Contacts struct {
	clock  *clock
	table  *table
	news   *news
	dice   *filch.Rand
	merge  func(from filch.NodeName, n *Member, out *Out) bool
	notice func(e *entry, incarnation uint64, out *Out)

	limit  int        // entries of the list, this node included
	all    []*contact // by name
	away   bool       // a node was turned away: the list is not whole
	told   bool       // the last event said that the list is not whole
	ended  []Member   // deaths of unlisted nodes already passed on, newest last
	early  []Member   // met before the list came
	lookAt time.Duration
}

// contact is one of the Contacts. Times are by awake; 0 is never.
type contact struct {
	m       Member
	heard   time.Duration
	probed  time.Duration // when the last probe ended
	probing bool
	failing time.Duration // since then every probe failed
	told    time.Duration // when a notice of death was last sent
	lease   time.Duration // until then the contact, which watches this node, gets beats
}

// The times and numbers of contacts.
const (
	contactEvery  = 500 * time.Millisecond // from one look at the contacts to the next
	contactSilent = 30 * time.Second       // silence after which a contact is probed
	contactAgain  = 2 * time.Second        // from one failed probe to the next
	contactDead   = 2 * AloneAfter         // of failed probes, without a witness
	contactLease  = 30 * time.Second       // of beats, after a ping
	contactAsks   = 3                      // witnesses asked about a failing contact
	contactProbes = 2                      // begun in one look: many at once would all be late
	maxEnded      = 256
	maxEarly      = 64
)

// Limit is the number of entries that the list may have.
func (cs *Contacts) Limit() int { return cs.limit }

// SetLimit changes the limit. The next Tick, which is due at once, takes contacts into
// the list.
func (cs *Contacts) SetLimit(n int) {
	cs.limit, cs.lookAt = n, 0
}

// Whole reports whether no node was turned away.
func (cs *Contacts) Whole() bool { return !cs.away }

// full reports whether the list takes no entry more.
func (cs *Contacts) full() bool { return len(cs.table.all) >= cs.limit }

// check panics if a contact is in the list, too.
func (cs *Contacts) check() {
	for _, c := range cs.all {
		if cs.table.index[c.m.Name] != nil {
			panic(fmt.Sprintf("%s is in the list of %s and a contact", c.m.Name, cs.table.self.m.Name))
		}
	}
}

// Names are the names of the live contacts.
func (cs *Contacts) Names() []filch.NodeName {
	var out []filch.NodeName
	for _, c := range cs.all {
		if !c.m.State.Over() {
			out = append(out, c.m.Name)
		}
	}
	return out
}

func (cs *Contacts) place(name filch.NodeName) (int, bool) {
	return slices.BinarySearchFunc(cs.all, name, func(c *contact, n filch.NodeName) int { return cmp.Compare(c.m.Name, n) })
}

func (cs *Contacts) find(name filch.NodeName) *contact {
	if i, ok := cs.place(name); ok {
		return cs.all[i]
	}
	return nil
}

// before notes a node met before the list came.
func (cs *Contacts) before(n *Member) {
	if len(cs.early) < maxEarly {
		cs.early = append(cs.early, n.clone())
	}
}

// joined makes contacts of the nodes met before the list came, if the list has no
// space for them.
func (cs *Contacts) joined(out *Out) {
	for i := range cs.early {
		if n := &cs.early[i]; cs.table.index[n.Name] == nil && cs.full() {
			cs.away = true
			cs.meet(n, out)
		}
	}
	cs.early = nil
	cs.say(out)
}

// agreed notes that a neighbor has the same list. A list with space left is whole
// then.
func (cs *Contacts) agreed(out *Out) {
	if cs.away && !cs.full() {
		cs.away = false
		cs.say(out)
	}
}

// hear notes a sign of life.
func (cs *Contacts) hear(name filch.NodeName, at time.Duration) {
	if c := cs.find(name); c != nil {
		c.heard = max(c.heard, at)
	}
}

// meet takes in a node that this node has met on a connection.
func (cs *Contacts) meet(n *Member, out *Out) {
	c := cs.find(n.Name)
	switch {
	case c == nil && len(cs.all) >= filch.MaxNodes:
		return
	case c == nil:
		i, _ := cs.place(n.Name)
		c = &contact{m: n.clone()}
		cs.all = slices.Insert(cs.all, i, c)
		out.Events = append(out.Events, Event{Kind: EventUp, Member: n.clone()})
	case n.supersedes(&c.m):
		cs.update(c, n, out)
	case c.m.State.Over():
		return
	}
	cs.revive(c, cs.clock.awake, out)
	cs.lookAt = min(cs.lookAt, cs.clock.now+contactEvery)
}

// revive notes that a contact lives.
func (cs *Contacts) revive(c *contact, at time.Duration, out *Out) {
	c.heard, c.failing = max(c.heard, at), 0
	if c.m.State == Suspect || c.m.State == Gone {
		n := c.m.clone()
		n.State = Alive
		cs.update(c, &n, out)
	}
}

// update replaces the entry of a contact.
func (cs *Contacts) update(c *contact, n *Member, out *Out) {
	old := c.m
	c.m = n.clone()
	if n.Addrs == nil && n.Incarnation == old.Incarnation {
		c.m.Addrs, c.m.Capacity, c.m.Draining = old.Addrs, old.Capacity, old.Draining
	}
	switch {
	case n.State.Over() && c.failing == 0:
		c.failing = max(cs.clock.awake, 1) // the time of its end
	case old.Incarnation != n.Incarnation:
		c.failing = 0
	}
	e := Event{Member: c.m.clone()}
	switch {
	case n.State == Dead:
		e.Kind = EventDead
	case n.State == Left:
		e.Kind = EventLeft
	case old.Incarnation != n.Incarnation:
		e.Kind, e.Was = EventUp, old.Incarnation
	case n.State == Suspect:
		e.Kind = EventSuspect
	case n.State == Gone:
		e.Kind = EventGone
	case old.State != Alive:
		e.Kind = EventFine
	default:
		e.Kind = EventChanged
	}
	out.Events = append(out.Events, e)
}

// turnAway handles another node's entry of a node for which the list has no space.
// Nodes further on may list the node, so the death of the node is passed on once.
func (cs *Contacts) turnAway(from filch.NodeName, n *Member, out *Out) {
	if !n.State.Over() {
		cs.away = true
		cs.say(out)
	}
	c := cs.find(n.Name)
	if c != nil {
		if !n.supersedes(&c.m) {
			return
		}
		cs.update(c, n, out)
	}
	if !n.State.Over() || !cs.away || cs.passed(n) {
		return
	}
	if c == nil {
		e := Event{Kind: EventDead, Member: n.clone()}
		if n.State == Left {
			e.Kind = EventLeft
		}
		out.Events = append(out.Events, e) // the store may use a node that is no contact
	}
	cs.news.publish(&entry{m: n.clone(), key: n.Name.Hash()}, from)
}

// passed reports whether a death was passed on before, and notes the death.
func (cs *Contacts) passed(n *Member) bool {
	for i := range cs.ended {
		if e := &cs.ended[i]; e.Name == n.Name && e.Incarnation >= n.Incarnation {
			return true
		}
	}
	if len(cs.ended) == maxEnded {
		cs.ended = slices.Delete(cs.ended, 0, 1)
	}
	cs.ended = append(cs.ended, Member{Name: n.Name, Incarnation: n.Incarnation})
	return false
}

// say emits the change when the list has become whole or is not whole any more.
func (cs *Contacts) say(out *Out) {
	if cs.told == cs.away {
		return
	}
	cs.told = cs.away
	e := Event{Kind: ListWhole, Member: cs.table.self.m.clone()}
	if cs.away {
		e.Kind = ListPartial
	}
	out.Events = append(out.Events, e)
}

// look takes contacts into the list while there is space, and probes silent contacts.
func (cs *Contacts) look(out *Out) {
	if cs.lookAt > cs.clock.now {
		return
	}
	cs.lookAt = filch.Never
	for len(cs.all) > 0 && !cs.full() {
		c := cs.all[0]
		cs.all = slices.Delete(cs.all, 0, 1)
		cs.merge("", &c.m, out)
		if e := cs.table.index[c.m.Name]; e != nil {
			e.heard = c.heard
		}
	}
	cs.say(out)
	begun := 0
	for _, c := range slices.Clone(cs.all) {
		if c.m.State.Over() {
			switch {
			case cs.clock.awake-c.failing >= ForgetAfter:
				cs.drop(c, out)
			case c.m.State == Dead && !c.probing && cs.clock.awake-c.probed >= contactSilent && begun < contactProbes:
				begun++ // the contact may have been cut off
				c.probing = true
				out.probe(&c.m)
			}
			continue
		}
		if c.failing > 0 && c.heard > c.failing {
			cs.revive(c, c.heard, out)
		}
		silent := cs.clock.awake - max(c.heard, c.probed)
		if c.failing > 0 && cs.clock.awake-c.failing >= contactDead {
			d := c.m.clone()
			d.State = Dead
			cs.update(c, &d, out)
			cs.passed(&d)
			cs.news.publish(&entry{m: d, key: d.Name.Hash()}, "")
			continue
		}
		due := silent >= contactSilent || c.failing > 0 && cs.clock.awake-c.probed >= contactAgain
		if due && !c.probing && begun < contactProbes {
			begun++
			c.probing = true
			out.probe(&c.m)
		}
	}
	if len(cs.all) > 0 {
		cs.lookAt = cs.clock.now + contactEvery
	}
}

func (cs *Contacts) drop(c *contact, out *Out) {
	if i, ok := cs.place(c.m.Name); ok {
		cs.all = slices.Delete(cs.all, i, i+1)
		out.Events = append(out.Events, Event{Kind: EventForgotten, Member: c.m.clone()})
	}
}

// closed handles the close of the last connection to a contact: the contact's process
// may have ended.
func (cs *Contacts) closed(name filch.NodeName) {
	if c := cs.find(name); c != nil && !c.m.State.Over() {
		c.probed, c.heard = max(cs.clock.awake-contactSilent, 0), min(c.heard, max(cs.clock.awake-contactSilent, 0))
		cs.lookAt = cs.clock.now
	}
}

// result handles the result of a probe.
func (cs *Contacts) result(name filch.NodeName, incarnation uint64, ok bool, out *Out) {
	c := cs.find(name)
	if c == nil || c.m.Incarnation != incarnation {
		return
	}
	c.probing, c.probed = false, cs.clock.awake
	if c.m.State.Over() {
		if ok && c.m.State == Dead {
			out.send(name, &gossip{kind: kindPing, members: []Member{c.m}}) // the contact learns of its death
		}
		return
	}
	cs.lookAt = min(cs.lookAt, cs.clock.now+contactEvery)
	if ok {
		cs.revive(c, cs.clock.awake, out)
		return
	}
	if c.failing == 0 {
		c.failing = max(cs.clock.awake, 1)
		n := c.m.clone()
		n.State = Suspect
		cs.update(c, &n, out)
	}
	cs.askWitnesses(c, out)
}

// askWitnesses asks some members whether a failing contact answers them.
func (cs *Contacts) askWitnesses(c *contact, out *Out) {
	for range contactAsks {
		if o := cs.table.all[cs.dice.IntN(len(cs.table.all))]; o != cs.table.self && o.m.State == Alive {
			out.send(o.m.Name, &gossip{kind: kindAsk, members: []Member{c.m}})
		}
	}
}

// vouches answers a question of another node about a contact.
func (cs *Contacts) vouches(from filch.NodeName, q Member, out *Out) {
	if c := cs.find(q.Name); c != nil && c.m.Incarnation == q.Incarnation && c.failing == 0 && !c.m.State.Over() {
		out.send(from, &gossip{kind: kindSay, found: foundAlive, members: []Member{q}})
	}
}

// vouched handles the answer of a witness.
func (cs *Contacts) vouched(q *Member, found finding) {
	if c := cs.find(q.Name); c != nil && c.m.Incarnation == q.Incarnation && found == foundAlive && c.failing > 0 {
		c.failing = max(cs.clock.awake, 1)
	}
}

// incoming handles a message of a contact, and reports whether the message is to be
// ignored. A contact that is dead must learn this.
func (cs *Contacts) incoming(from filch.NodeName, incarnation uint64, out *Out) bool {
	c := cs.find(from)
	if c == nil || incarnation > c.m.Incarnation {
		return false
	}
	if incarnation == c.m.Incarnation && !c.m.State.Over() {
		c.heard = cs.clock.awake
		return false
	}
	if c.m.State == Dead && (c.told == 0 || cs.clock.now-c.told >= BeatEvery) {
		c.told = cs.clock.now
		cs.notice(&entry{m: c.m}, incarnation, out)
	}
	return true
}

// watched notes a ping of a contact: the contact lists this node, and watches it.
func (cs *Contacts) watched(name filch.NodeName) {
	if c := cs.find(name); c != nil {
		c.lease = cs.clock.now + contactLease
	}
}

// beat sends a beat to the contacts that watch this node.
func (cs *Contacts) beat(b []byte, out *Out) {
	leases := 0
	for _, c := range cs.all {
		if c.lease > cs.clock.now && leases < maxLeases && !c.m.State.Over() {
			leases++
			out.Sends = append(out.Sends, Send{c.m.Name, b})
		}
	}
}

// disputes handles a notice of this node's death, and reports whether this node ignores
// the notice: a contact that did not answer this node was cut off itself, and the smaller
// side yields.
func (cs *Contacts) disputes(from filch.NodeName, incarnation uint64, g *gossip, out *Out) bool {
	c := cs.find(from)
	switch {
	case c == nil:
		return false
	case c.m.Incarnation > incarnation:
		return true // the sender has rejoined since, and no longer holds this opinion
	case c.m.State != Dead && c.failing == 0:
		return false
	}
	size, leader := cs.table.side()
	if size < int(g.nonce) || size == int(g.nonce) && string(leader) >= g.leader {
		return false
	}
	if c.told == 0 || cs.clock.now-c.told >= BeatEvery {
		c.told = cs.clock.now
		cs.notice(&entry{m: c.m}, incarnation, out)
	}
	return true
}

// reset forgets all contacts: this node begins a new life.
func (cs *Contacts) reset(out *Out) {
	for _, c := range cs.all {
		if !c.m.State.Over() {
			d := c.m.clone()
			d.State = Dead
			out.Events = append(out.Events, Event{Kind: EventDead, Member: d})
		}
	}
	cs.all, cs.early, cs.ended, cs.away, cs.told, cs.lookAt = nil, nil, nil, false, false, filch.Never
}
