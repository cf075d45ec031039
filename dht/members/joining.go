package members

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// A node begins the list if all nodes in reach want the list too and have said so
// within waitsFor, and none has a lesser name. The node waits for beginAfter before
// the decision, and asks the others every againEvery. The node's keepers wait
// meanwhile, for at most 6.5 s.
const (
	beginAfter = 1500 * time.Millisecond
	waitsFor   = 3 * time.Second
	againEvery = 250 * time.Millisecond
	maxWaiters = 64
)

// joining is the state of a node asking for the list: the nodes to ask, and the pages
// received.
type joining struct {
	clock  *clock
	table  *table
	dice   *filch.Rand
	done   bool
	at     time.Duration // when to ask (again)
	via    []filch.NodeName
	next   int
	late   []filch.NodeName // appended to via at lateAt
	lateAt time.Duration
	nonce  uint32
	got    []bool // pages of the list
	left   int
	again  comeback
}

// comeback is what a former member knows of other nodes asking for the list. All
// members may have ended at once: then no node has the list.
type comeback struct {
	on     bool
	began  time.Duration
	others []waiter
}

// waiter is another node asking for the list.
type waiter struct {
	name  filch.NodeName
	heard time.Duration // when the node last asked
	told  time.Duration // when this node's own request was last sent to the node
}

// request asks the next node for the list.
func (j *joining) request(out *Out) {
	j.at = j.clock.now + joinEvery
	if j.again.on {
		j.at = j.clock.now + againEvery
	}
	if len(j.late) > 0 && j.lateAt <= j.clock.now {
		j.via, j.late = append(j.via, j.late...), nil
	}
	if len(j.via) == 0 {
		return
	}
	*j.dice = filch.Rand(filch.Mix(uint64(*j.dice) + 1)) // a new seed serves as the nonce
	j.nonce, j.got = uint32(*j.dice), nil
	to := j.via[j.next%len(j.via)]
	if j.waits(to) && j.waits(j.via[0]) {
		to = j.via[0]
	}
	j.next++
	out.send(to, &gossip{kind: kindJoin, nonce: j.nonce, members: []Member{j.table.self.m}})
}

// waitsToo records another node's request for the list, and sends this node's own
// request back.
func (j *joining) waitsToo(from filch.NodeName, out *Out) {
	c := &j.again
	i := slices.IndexFunc(c.others, func(w waiter) bool { return w.name == from })
	if !c.on || i < 0 && len(c.others) == maxWaiters {
		return
	}
	known := j.waits(from)
	if !slices.Contains(j.via, from) { // this node may reach no member at the known addresses
		j.via = append(j.via, from)
		slices.Sort(j.via)
		j.at = min(j.at, j.clock.now+againEvery)
	}
	if i < 0 {
		i = len(c.others)
		c.others = append(c.others, waiter{name: from, told: -againEvery})
	}
	w := &c.others[i]
	w.heard = j.clock.now
	if j.clock.now-w.told >= againEvery {
		w.told = j.clock.now
		out.send(from, &gossip{kind: kindJoin, nonce: j.nonce, members: []Member{j.table.self.m}})
	}
	if !known && j.next > 0 && j.next < len(j.via) && j.via[j.next-1] == from {
		j.request(out) // ask the next node: from has no list
	}
}

// invited handles a kindSync from a node with the list. A former member may reach
// no node at the known addresses, so the former member asks the sender for the
// list.
func (j *joining) invited(from filch.NodeName, out *Out) {
	if !j.again.on {
		return
	}
	j.again.others = slices.DeleteFunc(j.again.others, func(w waiter) bool { return w.name == from })
	if !slices.Contains(j.via, from) {
		j.via = append(j.via, from)
		slices.Sort(j.via)
	}
	j.next = slices.Index(j.via, from)
	j.request(out)
}

// waits reports whether a node lately asked for the list.
func (j *joining) waits(name filch.NodeName) bool {
	return slices.ContainsFunc(j.again.others, func(w waiter) bool { return w.name == name && j.clock.now-w.heard < waitsFor })
}

// mayBegin reports whether this node must begin the list.
func (j *joining) mayBegin() bool {
	if c := &j.again; !c.on || j.clock.now < c.began+beginAfter || len(j.via) == 0 {
		return false
	}
	for _, name := range j.via {
		if !j.waits(name) {
			return false // the node called name may have the list
		}
	}
	return !slices.ContainsFunc(j.again.others, func(w waiter) bool { return w.name < j.table.self.m.Name && j.waits(w.name) })
}

// contacts chooses the nodes to ask for the list after a death: the sender of the
// notice, and the other side of the cut, being the nodes declared dead by this
// node. This node's own side is asked only after a long time without an answer: the
// list of this side holds the deaths declared while cut off.
func (j *joining) contacts(teller filch.NodeName) {
	var dead, live []filch.NodeName
	for _, e := range j.table.all {
		switch {
		case e == j.table.self || e.m.Name == teller:
		case e.m.State == Dead:
			dead = append(dead, e.m.Name)
		case !e.m.State.Over():
			live = append(live, e.m.Name)
		}
	}
	j.via, j.late = nil, nil
	if teller != "" && teller != j.table.self.m.Name {
		j.via = append(j.via, teller)
	}
	j.via = append(j.via, j.some(dead)...)
	if j.late = j.some(live); len(dead) == 0 {
		j.via, j.late = append(j.via, j.late...), nil
	}
}

// some picks up to maxContacts names by chance.
func (j *joining) some(names []filch.NodeName) []filch.NodeName {
	for i := range names {
		k := i + j.dice.IntN(len(names)-i)
		names[i], names[k] = names[k], names[i]
	}
	return names[:min(len(names), maxContacts)]
}

// start begins to ask the named nodes.
func (j *joining) start(via []filch.NodeName, out *Out) {
	if j.again.on { // ask the least name first: the least name may begin the list
		for _, w := range j.again.others {
			if j.waits(w.name) {
				via = append(via, w.name)
			}
		}
		slices.Sort(via)
		via = slices.Compact(via)
	}
	j.done, j.via, j.next = false, via, 0
	j.request(out)
}

// restart forgets all but the contacts.
func (j *joining) restart() {
	*j = joining{clock: j.clock, table: j.table, dice: j.dice, via: j.via, late: j.late, lateAt: j.clock.now + lateAfter, at: filch.Never}
}

// finish ends the asking.
func (j *joining) finish() { j.done, j.at, j.again = true, filch.Never, comeback{} }

// takes reports whether a page of the list answers the last request and is new.
func (j *joining) takes(g *gossip) bool {
	if j.done || g.nonce != j.nonce || g.pages == 0 || g.page >= g.pages {
		return false
	}
	if j.got == nil {
		j.got, j.left = make([]bool, g.pages), int(g.pages)
	}
	if len(j.got) != int(g.pages) || j.got[g.page] {
		return false
	}
	j.got[g.page] = true
	j.left--
	return true
}
