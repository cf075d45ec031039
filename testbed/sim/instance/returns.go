package instance

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Nodes that die and return while a bag runs. The promise: no node stays without tasks and asks
// nobody for longer than askBound, while tasks wait for slots on other nodes all that time.

// Bounds of the checker.
const (
	asksEvery = 50 * time.Millisecond // between two looks
	// askBound is the longest wait between two tries of a thief, with its questions and a steal.
	askBound = policy.PollMax + policy.AskWait + policy.StealWait + asksEvery
)

// asking is what the checker remembers of a host between two looks.
type asking struct {
	moves   map[move]bool // of tasks to the host, under way
	since   time.Duration // from then on the host had nothing to do, and others had tasks that waited
	asked   time.Duration // when the host last asked for tasks
	longest time.Duration // without a question
}

// move names an offer: the victim, its launcher, and the number of the offer.
type move struct{ host, life, offer uint64 }

// sees notes that a host asks for tasks, and which moves of tasks are under way: a thief waits for
// the records of its move.
func sees(ask []asking, now time.Duration, from, to *host, m launcher.Message) {
	t, ok := m.(*launcher.TaskWord)
	if !ok {
		return
	}
	word, _ := message.Decode(t.Body) // nil if the word makes no sense: the receiver says so
	switch word := word.(type) {
	case *message.LoadAsk, *message.Steal:
		ask[from.Index].asked = now
	case *message.Offer:
		if len(word.Ranges)+len(word.Tasks) > 0 {
			ask[to.Index].moves[move{uint64(from.Index), word.Life, word.Xfer}] = true
		}
	case *message.Done:
		ask[from.Index].asked = now
		delete(ask[from.Index].moves, move{uint64(to.Index), word.Life, word.Xfer})
	}
}

// returnsWorld has a few nodes with one bag that lasts, and some launchers that die together and
// return one after the other.
func returnsWorld(seed uint64, looks engine.Looks) (w *World, ask []asking) {
	d := engine.NewDice(seed, streamReturns)
	hosts := 3 + d.N(4)
	w = NewWorld(Options{Seed: seed, Hosts: hosts, Slots: int32(1 + d.N(2)), Links: engine.Quiet(), Looks: looks, MaxSteps: 3e6})
	ask = make([]asking, hosts)
	for i := range ask {
		ask[i].moves = make(map[move]bool)
	}
	w.watch = func(from, to *host, m launcher.Message) { sees(ask, w.Now(), from, to, m) }
	b := &bag{index: len(w.bags), submit: time.Millisecond, shortest: 100 * time.Millisecond, longest: d.Between(200*time.Millisecond, time.Second)}
	s := &b.request
	s.Name, s.Follow, s.Total = fmt.Sprint("returns", seed), true, int32(hosts*int(w.opt.Slots))*int32(d.Between(25*time.Second, 40*time.Second)/b.longest)
	s.Spec = record.Spec{Body: taskBody(b.index), Each: filch.Room{Slots: 1}, CrashLimit: 100}
	b.grow(s.Total)
	w.bags = append(w.bags, b)
	w.At(b.submit, func() { w.submitBag(b) })
	at := d.Between(time.Second, 4*time.Second)
	first, die := d.N(hosts), 1+d.N(hosts-1)
	for i := range die {
		h, back := w.hosts[(first+i)%hosts], at+d.Between(20*time.Millisecond, 8*time.Second)
		w.At(at, func() {
			w.killLauncher(h)
			clear(ask[h.Index].moves)
		})
		w.At(back, func() { w.restart(h) })
	}
	w.At(asksEvery, func() { w.checkAsks(ask) })
	return w, ask
}

// checkAsks looks for nodes that have nothing to do, and ask nobody while others have too much.
func (w *World) checkAsks(ask []asking) {
	for i, h := range w.hosts {
		a := &ask[i]
		if len(a.moves) > 0 || !w.idlesBesideWork(h) {
			a.since = w.Now()
			continue
		}
		without := w.Now() - max(a.since, a.asked)
		if a.longest = max(a.longest, without); without > askBound {
			w.Fail("asks-nobody", "%s has nothing to do and asks nobody since %v, and other nodes have tasks that wait for slots", h.Name, without)
			return
		}
	}
	if w.Now() < 2*time.Minute {
		w.At(w.Now()+asksEvery, func() { w.checkAsks(ask) })
	}
}

// idlesBesideWork reports whether a host is a member with free slots and without tasks, while
// another member has tasks for which that has no slots.
func (w *World) idlesBesideWork(h *host) bool {
	if h.node == nil || !h.joined || len(h.tasks) > 0 || h.node.Slots().Free == 0 {
		return false
	}
	waits := false
	for _, b := range w.bags {
		if b.id == 0 || h.node.TasksHere(b.id).Ready > 0 {
			return false // the node starts them soon
		}
		for _, o := range w.hosts {
			waits = waits || o != h && o.node != nil && o.joined && o.node.Slots().Free == 0 && o.node.TasksHere(b.id).Ready > 0
		}
	}
	return waits
}

// returnsRun runs a seed to the end, and returns how long at most a node had nothing to do and
// asked nobody.
func returnsRun(seed uint64, looks engine.Looks) (w *World, longest time.Duration) {
	w, ask := returnsWorld(seed, looks)
	w.Run(3 * time.Minute)
	w.settleBags()
	if len(w.Broken()) == 0 {
		w.checkQuiet()
	}
	if len(w.Broken()) == 0 {
		w.checkBags()
	}
	for i := range ask {
		longest = max(longest, ask[i].longest)
	}
	return w, longest
}
