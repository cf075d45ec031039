package store

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// node is a machine of the simulated instance, with the one process on it.
type node struct {
	w           *World
	index       int32
	name        filch.NodeName
	incarnation uint64
	gen         int32      // counts processes and rejoins; what was for an older one is void
	store       *dht.Store // nil while it is down, or not there yet
	born        time.Duration
	pausedUntil time.Duration
	inbox       []event // what came while it stood still
	wake        time.Duration
	disk        disk
	held
	marks
	serial  uint64 // of the operations that clients ask through it
	watches map[uint64]*watcher
}

// held is what waits for the disk of a process.
type held struct {
	upto        uint64 // its synced entries
	heldSends   []dht.StoreSend
	heldResults []dht.StoreResult
}

// marks are what faults left on a node.
type marks struct {
	troubles int // how many hit it
	leaving  bool
	left     bool // for good
}

// speaks reports whether the network hears from n now.
func (n *node) speaks() bool { return n.store != nil && n.pausedUntil <= n.w.now }

// local is the node's own clock, which began with its process.
func (n *node) local() time.Duration { return n.w.now - n.born }

// boot begins a process on the disk as it is.
func (n *node) boot(found bool) {
	w := n.w
	n.incarnation++
	n.gen++
	n.born = w.now - w.rng.disk.Between(0, time.Hour)
	n.pausedUntil, n.wake, n.leaving = 0, filch.Never, false
	n.upto, n.serial = 0, 0
	n.heldSends, n.heldResults = nil, nil
	n.watches = make(map[uint64]*watcher)
	n.store = dht.NewStore(n.config())
	image := n.disk.image()
	w.trace(n.name, "boots", "incarnation %d, %d entries", n.incarnation, len(image))
	n.store.Restore(image, n.disk.damaged)
	n.disk.life = n.incarnation
	if found {
		n.call(n.store.Found)
	} else {
		n.call(n.store.Tick)
	}
	w.members.introduce(n)
}

func (n *node) config() dht.StoreConfig {
	return dht.StoreConfig{Self: n.name, Incarnation: n.incarnation, Seed: n.w.plan.seed<<16 ^ uint64(n.gen)<<8 ^ uint64(n.index)}
}

// stop ends the process of n; its disk keeps what a crash keeps.
func (n *node) stop() {
	n.w.trace(n.name, "dies", "")
	may := n.mayRot() // while what it alone knows of the seats is known
	n.silence()
	n.crashDisk(may)
}

// silence takes the process away and tells those who wait for its answers.
func (n *node) silence() {
	n.store = nil
	n.gen++
	n.pausedUntil = 0
	n.heldSends, n.heldResults = nil, nil
	n.w.orphan(n)
}

// rejoin is what a launcher does that learns that it was declared dead: it
// syncs its log and begins anew on it, with a new incarnation.
func (n *node) rejoin() {
	n.w.trace(n.name, "rejoins", "it was declared dead")
	n.disk.settle(len(n.disk.tail))
	n.w.checkImages(n)
	n.disturb()
	n.silence()
	n.disk.syncing = false
	n.boot(false)
}

// input hands something to the process of now, when it runs.
func (n *node) input(f func(*node)) {
	n.w.queue.Push(n.w.now, event{kind: evInput, from: n.index, to: n.index, gen: n.gen, body: f})
}

// wakeUp hands over what came while the process stood still, in the order in
// which it came: a pause that is made longer, or ends early, changes nothing of
// that.
func (n *node) wakeUp() {
	if n.pausedUntil > n.w.now || len(n.inbox) == 0 {
		return
	}
	all := n.inbox
	n.inbox = nil
	for i := range all {
		n.w.step(&all[i])
	}
}

// The invariants inside the stores cost as much as all the rest: they are
// asserted after every input in one of checkedSeeds seeds, and after one of
// checkedCalls inputs in the others.
const (
	checkedSeeds = 4
	checkedCalls = 8
)

// call lets the store handle one input and does what it says.
func (n *node) call(f func(now time.Duration, out *dht.StoreOut)) {
	w := n.w
	out := &w.out
	out.Reset()
	f(n.local(), out)
	if w.calls++; !w.plan.bare && (w.plan.seed%checkedSeeds == 0 || w.calls%checkedCalls == 0) {
		n.store.Check()
	}
	n.act(out)
	d := n.store.Deadline()
	if d == filch.Never {
		n.wake = filch.Never
		return
	}
	if at := max(d+n.born, w.now+1); at != n.wake {
		n.wake = at
		w.queue.Push(at, event{kind: evWake, from: n.index, to: n.index, gen: n.gen})
	}
}

// tickSoon lets a process that was stopped find out what is due.
func (n *node) tickSoon() { n.input((*node).tick) }

func (n *node) tick() { n.call(n.store.Tick) }

func (n *node) synced(upto uint64) {
	n.upto = max(n.upto, upto)
	n.call(func(now time.Duration, out *dht.StoreOut) { n.store.Synced(now, upto, out) })
	n.release()
}

func (n *node) receive(from *node, body any) {
	m, ok := body.(dht.StoreMessage)
	if !ok {
		var err error
		if m, err = dht.DecodeStore(body.([]byte)); err != nil {
			n.w.fail("codec", "%s cannot read a message of %s: %v", n.name, from.name, err)
			return
		}
	}
	if n.w.log != nil {
		n.w.trace(n.name, "<- "+string(from.name), "%s", show(m))
	}
	n.call(func(now time.Duration, out *dht.StoreOut) { n.store.Message(now, from.name, m, out) })
}

// act does what an outbox says, in the order of its fields.
func (n *node) act(out *dht.StoreOut) {
	w := n.w
	for i := range out.Notes {
		w.trace(n.name, "note", "%s", show(out.Notes[i]))
		w.noted(n, &out.Notes[i])
	}
	if w.log != nil {
		for _, l := range out.Logs {
			w.trace(n.name, "logs", "%d %q: %d bytes", l.Number, l.Key, len(l.Value))
		}
	}
	n.disk.append(n.gen, out.Logs)
	for _, h := range out.Homes {
		w.ground.homed(n, h)
	}
	for _, s := range out.Sends {
		if s.After > n.upto {
			n.heldSends = append(n.heldSends, s)
		} else {
			n.send(s)
		}
	}
	for _, r := range out.Results {
		if r.After > n.upto {
			n.heldResults = append(n.heldResults, r)
		} else {
			n.result(r)
		}
	}
	if out.Left {
		w.departed(n)
	}
	n.flush()
}

// release lets go what waited for the disk.
func (n *node) release() {
	sends, results := n.heldSends, n.heldResults
	n.heldSends, n.heldResults = nil, nil
	for _, s := range sends {
		if s.After > n.upto {
			n.heldSends = append(n.heldSends, s)
		} else {
			n.send(s)
		}
	}
	for _, r := range results {
		if r.After > n.upto {
			n.heldResults = append(n.heldResults, r)
		} else {
			n.result(r)
		}
	}
}

func (n *node) send(s dht.StoreSend) {
	w := n.w
	to := w.byName[s.To]
	if to == nil {
		w.fail("unknown-node", "%s sends %s to %q, which does not exist", n.name, show(s.Message), s.To)
		return
	}
	if to == n {
		w.fail("self-send", "%s sends %s to itself", n.name, show(s.Message))
		return
	}
	if w.log != nil {
		w.trace(n.name, "-> "+string(to.name), "%s", show(s.Message))
	}
	w.stats.Messages++
	at, count := w.net.Arrivals(w.now, n.index, to.index)
	if count == 0 {
		return
	}
	var body any = s.Message
	if w.plan.coded {
		body = dht.EncodeStore(s.Message)
	}
	for i := range count {
		w.queue.Push(at[i], event{kind: evMessage, from: n.index, to: to.index, body: body})
	}
}

// show prints a thing on one line.
func show(thing any) string { return fmt.Sprintf("%T%+v", thing, thing) }
