package instance

import (
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/launcher"
)

// membership is the member list of a host's launcher, with what its mesh knows
// beside it.
type membership struct {
	list     *members.List // nil in a calm world
	out      members.Out
	met      map[filch.NodeName]uint64 // incarnations whose hello was taken
	known    map[filch.NodeName]uint64 // incarnations whose messages are handed on
	contacts []filch.NodeName          // that answered, for the next launcher
	invited  filch.NodeName            // whom it joined through at first, if that was not the first host
	sought   []filch.NodeName          // that this launcher looks for, once it has the list
	joined   bool                      // it has the list, or began one
	drains   bool                      // it takes no new work
	dead     bool                      // declared so: it rejoins once nothing is left of this life
}

// Times of the mesh that carries a list: a dial that is not answered, how long a
// node waits for the list before it asks somebody else, and how often one that
// was declared dead looks whether all of it has ended.
const (
	dialWait    = 1500 * time.Millisecond
	joinAgain   = 4 * time.Second
	dialAgain   = 500 * time.Millisecond
	seekFirst   = time.Second
	seekLast    = time.Minute
	joinWait    = 20 * time.Second
	startAgain  = 2 * time.Second
	rejoinPause = 20 * time.Millisecond
	contactsMax = 32
)

// beginList makes the list of a launcher that has just started, and joins through
// some of the others; without any it is the first. As cmd/filchd does: the first
// node of the instance begins alone where nobody listens; one that was a member
// before begins alone when it has waited in vain, and looks for the others; one that
// was not gives up, and is started again.
func (h *host) beginList(via []filch.NodeName, again bool) {
	known := via
	if h.founder() && !slices.ContainsFunc(via, h.listens) {
		via = nil
	}
	h.newList()
	if h.sought = nil; again {
		h.sought = known
	}
	if len(via) == 0 {
		h.joined = true
		h.seek(known, seekFirst)
		return
	}
	h.listen(func(now time.Duration, out *members.Out) {
		if again {
			h.list.ApartAgain(now)
		} else {
			h.list.Apart()
		}
	})
	h.join(via, h.w.Now()+joinWait)
	h.Input(h.w.Now()+joinWait, func() {
		switch {
		case h.joined:
		case again || h.founder():
			h.newList()
			h.joined = true
			h.seek(known, seekFirst)
			h.setAlarm()
		default:
			h.w.killLauncher(h)
			h.w.At(h.w.Now()+startAgain, func() { h.w.restart(h) })
		}
	})
}

// founder reports whether a host was given nobody to join through.
func (h *host) founder() bool { return h.Index == 0 && h.invited == "" }

// listens reports whether the kernel of another host takes a connection.
func (h *host) listens(name filch.NodeName) bool {
	o := h.w.byName[name]
	return o.Up() && !h.w.Net.IsCut(h.Index, o.Index) && !h.w.Net.IsCut(o.Index, h.Index)
}

// answers reports whether the launcher of another host answers a dial.
func (h *host) answers(name filch.NodeName) bool {
	o := h.w.byName[name]
	return h.listens(name) && o.list != nil && o.PausedUntil() < h.w.Now()+dialWait
}

// newList makes the list of a node that knows only itself.
func (h *host) newList() {
	m := &h.membership
	m.met, m.known, m.dead, m.joined = make(map[filch.NodeName]uint64), make(map[filch.NodeName]uint64), false, false
	m.list = members.New(members.Config{
		Seed: h.w.opt.Seed*7919 + uint64(h.Index)*31 + h.incarnation,
		Self: members.Member{Name: h.Name, Incarnation: h.incarnation, Addrs: []string{string(h.Name)}},
	})
}

// join asks those who answer to be taken in, and again when that takes long.
func (h *host) join(known []filch.NodeName, until time.Duration) {
	if h.joined || h.w.Now() >= until {
		return
	}
	again := dialAgain
	via := slices.DeleteFunc(slices.Clone(known), func(name filch.NodeName) bool { return !h.answers(name) })
	if len(via) > 0 {
		again = joinAgain
		h.listen(func(now time.Duration, out *members.Out) { h.list.Join(now, via, out) })
	}
	h.Input(h.w.Now()+again, func() { h.join(known, until) })
}

// seek looks for nodes that may have a list without this one.
func (h *host) seek(known []filch.NodeName, pause time.Duration) {
	if len(known) == 0 {
		return
	}
	h.Input(h.w.Now()+pause, func() {
		left := slices.DeleteFunc(slices.Clone(known), func(name filch.NodeName) bool {
			if h.known[name] != 0 {
				return true
			}
			if !h.answers(name) {
				return false
			}
			h.listen(func(now time.Duration, out *members.Out) { h.list.Meet(now, name, out) })
			return false // until it is in the list
		})
		h.seek(left, min(2*pause, seekLast))
	})
}

// listen lets the list handle one input and does what it says.
func (h *host) listen(f func(now time.Duration, out *members.Out)) {
	out := &h.membership.out
	out.Reset()
	f(h.Local(), out)
	if h.w.opt.Looks.Any() {
		h.list.Check()
	}
	events, probes, sends := slices.Clone(out.Events), slices.Clone(out.Probes), slices.Clone(out.Sends)
	for i := range events {
		if h.followList(&events[i]); h.node == nil {
			return // it crashed over the event
		}
	}
	for _, p := range probes {
		h.probe(p)
	}
	for _, s := range sends {
		h.gossip(s)
	}
	h.setAlarm()
}

// setAlarm rings when the list or the Node has something due.
func (h *host) setAlarm() {
	d := h.node.Deadline()
	if h.list != nil {
		d = min(d, h.list.Deadline())
	}
	h.Wake(d)
}

// followList tells the Node what changed in the list.
func (h *host) followList(e *members.Event) {
	w := h.w
	if w.Tracing() {
		w.Trace(h.Name, "member", "%s %s.%d", e.Kind, e.Member.Name, e.Member.Incarnation)
	}
	n := &e.Member
	switch e.Kind {
	case members.EventUp:
		if n.Name != h.Name {
			h.known[n.Name] = n.Incarnation
		}
		h.remember(n.Name)
	case members.EventDead, members.EventLeft:
		delete(h.known, n.Name)
		delete(h.met, n.Name)
		h.remember(n.Name)
	case members.SelfJoined:
		h.joined = true
		h.seek(h.sought, seekFirst)
		return
	case members.EventForgotten:
		return
	case members.SelfDead:
		h.declaredDead()
		return
	case members.SelfBack:
		h.back(n.Incarnation)
		return
	}
	if n.Name == h.Name || h.node == nil {
		return
	}
	p := w.byName[n.Name].member(n.Incarnation, standingOf(n))
	h.take(&input{what: "<- peer", from: w.byName[n.Name], body: p, do: func(now time.Duration, out *launcher.Outbox) { h.node.Peer(now, p, out) }})
}

func standingOf(m *members.Member) filch.Standing {
	switch {
	case m.State == members.Dead:
		return filch.Dead
	case m.State == members.Left:
		return filch.Left
	case m.State == members.Suspect:
		return filch.Suspect
	case m.State == members.Gone:
		return filch.Gone
	case m.Draining:
		return filch.Draining
	}
	return filch.Up
}

// remember notes who may take the next launcher of this host in: some of those that
// live, or with nobody left, those of before. A name behind these changes nothing: to sort
// all names at each word of the list takes minutes with a thousand hosts.
func (h *host) remember(name filch.NodeName) {
	unknown := func(n filch.NodeName) bool { return h.known[n] == 0 }
	if n := len(h.contacts); n == contactsMax && name > h.contacts[n-1] && !slices.ContainsFunc(h.contacts, unknown) {
		return
	}
	if len(h.known) > 0 {
		names := slices.Sorted(maps.Keys(h.known))
		h.contacts = names[:min(len(names), contactsMax)]
	}
}

// probe dials a member once more.
func (h *host) probe(p members.Probe) {
	w, to := h.w, h.w.byName[p.Name]
	end := func(takes time.Duration, res members.ProbeResult) {
		h.Input(w.Now()+takes, func() {
			h.listen(func(now time.Duration, out *members.Out) { h.list.Probed(now, p.Name, p.Incarnation, res, out) })
		})
	}
	soon := 2 * w.Net.Links.LatencyMax
	cut := w.Net.IsCut(h.Index, to.Index) || w.Net.IsCut(to.Index, h.Index)
	switch {
	case to.dark || cut || to.PausedUntil() > w.Now()+dialWait:
		end(dialWait, members.ProbeFailed)
	case !to.Up():
		end(soon, members.ProbeRefused)
	default:
		end(max(to.PausedUntil()-w.Now(), 0)+soon, members.ProbeOK)
	}
}

// gossip carries a message of the list, behind the hello of a connection.
func (h *host) gossip(s members.Send) {
	w, to := h.w, h.w.byName[s.To]
	if to == nil || to == h {
		w.Fail("unknown-node", "the list of %s speaks to %q", h.Name, s.To)
		return
	}
	w.stats.Gossip++
	card, incarnation := h.list.Self(), h.incarnation
	h.Send(&to.Host, func() {
		if to.list == nil || !to.admits(h, card, incarnation) {
			return
		}
		to.listen(func(now time.Duration, out *members.Out) {
			if err := to.list.Message(now, h.Name, incarnation, s.Payload, out); err != nil {
				w.Fail("codec", "%s cannot read the gossip of %s: %v", to.Name, h.Name, err)
			}
		})
	})
}

// admits judges the hello of a connection from another host, once for each of its
// incarnations.
func (h *host) admits(from *host, card members.Member, incarnation uint64) bool {
	if h.met[from.Name] == incarnation {
		return true
	}
	if !from.Up() || from.incarnation != incarnation {
		return false // a connection is of two processes: one that has ended says no hello
	}
	v := h.list.Admit(card)
	if !v.OK && !v.Probe {
		if v.Stale != 0 && from.Up() {
			from.Input(h.w.Now()+h.w.Net.Links.LatencyMax, func() {
				if from.incarnation == incarnation {
					from.listen(func(now time.Duration, out *members.Out) { from.list.Superseded(now, h.Name, v.Stale, out) })
				}
			})
		}
		return false
	}
	h.listen(func(now time.Duration, out *members.Out) { h.list.Met(now, card, out) })
	h.met[from.Name] = incarnation
	return h.node != nil
}

// hears reports whether a message that another host sent as this incarnation is
// handed to the launcher; it is a sign of life either way.
func (h *host) hears(from *host, incarnation uint64) bool {
	if h.list == nil {
		return true
	}
	if h.known[from.Name] != incarnation {
		return false
	}
	h.list.Heard(h.Local(), from.Name, h.Local())
	return true
}

// hangUp has the others find their connections to a host closed, as its kernel
// does for a process that ended.
func (w *World) hangUp(h *host) {
	for _, o := range w.hosts {
		if o == h || o.list == nil || !o.Up() || w.Net.IsCut(h.Index, o.Index) {
			continue
		}
		o.Input(w.Now()+w.Net.Links.LatencyMax, func() {
			o.listen(func(now time.Duration, out *members.Out) { o.list.Closed(now, h.Name, out) })
		})
	}
}

// declaredDead is what a launcher does that learns that the others go on without
// it: it ends all that runs here, and comes back with a new incarnation.
func (h *host) declaredDead() {
	w := h.w
	w.trace(h.Name, "rejoins", "it was declared dead")
	h.disturb(w.Now() + reapBound)
	for _, j := range w.jobs {
		if j.host == h.Index && j.submittedAt >= 0 && !j.over() {
			j.restarted = true
		}
	}
	w.loseGangs(h)
	h.dead = true
	self := h.member(h.incarnation, filch.Dead)
	h.take(&input{what: "<- peer", from: h, body: self, do: func(now time.Duration, out *launcher.Outbox) { h.node.Peer(now, self, out) }})
	h.Input(w.Now()+rejoinPause, h.rejoinWhenEmpty)
	h.mustEndTasks()
}

// tasksBound is how long the tasks of a node may go on that was declared dead and
// knows it.
const tasksBound = 100 * time.Millisecond

// mustEndTasks lets a checker look whether the tasks that run here now are gone soon.
func (h *host) mustEndTasks() {
	life, serials := h.Life(), slices.Sorted(maps.Keys(h.tasks))
	h.w.At(h.w.Now()+tasksBound, func() {
		for _, s := range serials {
			if p := h.tasks[s]; p != nil && h.Life() == life && !h.Paused() {
				h.w.Fail("task-left", "%s: task %d.%d runs %v after its node learned that it was declared dead", h.Name, p.launch.Start.Job, p.launch.Start.Index, tasksBound)
				return
			}
		}
	})
}

// rejoinWhenEmpty comes back once no keeper and no task of the old life is left.
func (h *host) rejoinWhenEmpty() {
	busy := slices.ContainsFunc(h.keepers, func(k *keeper) bool { return k.phase != done })
	if busy || len(h.tasks) > 0 {
		h.Input(h.w.Now()+rejoinPause, h.rejoinWhenEmpty)
		return
	}
	h.dead = false
	h.listen(func(now time.Duration, out *members.Out) { h.list.Rejoin(now, 0, out) })
}

// back gives the Node its new incarnation.
func (h *host) back(incarnation uint64) {
	if incarnation <= h.incarnation || h.node == nil {
		return
	}
	h.incarnation = incarnation
	clear(h.met)
	h.call(func(now time.Duration, out *launcher.Outbox) {
		clear(h.promises)
		h.node.Reborn(now, incarnation, out)
	})
}

// tellDrain has the others hear that a node takes no new work, or does again.
func (h *host) tellDrain(on bool) {
	h.Input(h.w.Now(), func() {
		h.listen(func(now time.Duration, out *members.Out) { h.list.Update(now, &on, nil, nil, out) })
	})
}
