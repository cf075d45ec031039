package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/testbed/sim/disk"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// node is a machine of the simulated instance, with the one process on it.
type node struct {
	engine.Host
	w           *World
	incarnation uint64
	store       *store.Store // nil while it is down, or not there yet
	disk        *disk.Disk
	marks
	serial  uint64 // of the operations that clients ask through it
	watches map[uint64]*watcher
}

// marks are what faults left on a node.
type marks struct {
	troubles int // how many hit it
	leaving  bool
	left     bool // for good, with its disk
}

// boot begins a process on the disk as it is.
func (n *node) boot(found bool) {
	w := n.w
	n.incarnation++
	n.Start(w.Now()-w.rng.disk.Between(0, time.Hour), n.tick)
	n.leaving, n.serial = false, 0
	n.watches = make(map[uint64]*watcher)
	n.store = store.New(n.config())
	image, damaged := n.disk.Image(n.incarnation)
	w.Trace(n.Name, "boots", "incarnation %d, %d entries", n.incarnation, len(image))
	n.store.Restore(image, damaged)
	if found {
		n.call(n.store.Found)
	} else {
		n.call(n.store.Tick)
	}
	w.members.introduce(n)
}

func (n *node) config() store.Config {
	return store.Config{
		Self: n.Name, Incarnation: n.incarnation, Seed: n.w.plan.seed<<16 ^ uint64(n.Life())<<8 ^ uint64(n.Index),
		Kinds: dht.Kinds{kindTable: mergeTable},
	}
}

// stop ends the process of n; its disk keeps what a crash keeps.
func (n *node) stop() {
	n.w.Trace(n.Name, "dies", "")
	may := n.mayRot() // while what it alone knows of the acceptors is known
	n.silence()
	if n.disk.Crash(may) {
		n.w.ground.rotter = n
	}
}

// silence takes the process away and tells those who wait for its answers.
func (n *node) silence() {
	n.store = nil
	n.Stop()
	n.w.orphan(n)
}

// lose takes a node whose process is over away for good, with its disk.
func (n *node) lose() {
	n.left = true
	n.disk.Wipe()
}

// rejoin is what a launcher does that learns that it was declared dead: its store
// begins a new life, with a new incarnation. Whoever waits for it is answered, and
// watches go on.
func (n *node) rejoin() {
	w := n.w
	n.incarnation++
	n.disk.Live(n.incarnation)
	w.Trace(n.Name, "rejoins", "as incarnation %d, it was declared dead", n.incarnation)
	n.disturb()
	if n.disk.Unsynced() == 0 {
		w.checkImages(n)
	}
	asked := w.askedOf(n)
	n.call(func(now time.Duration, out *store.Out) { n.store.Rejoin(now, n.incarnation, out) })
	for _, k := range asked {
		if k.left > 0 {
			w.Fail("unanswered", "%s began a new life and left unanswered: %s", n.Name, describe(k.entries[slices.Index(k.waits, true)]))
		}
	}
}

// input hands something to the process of now, when it runs.
func (n *node) input(f func()) { n.Input(n.w.Now(), f) }

// call lets the store handle one input and does what it says.
func (n *node) call(f func(now time.Duration, out *store.Out)) {
	w := n.w
	out := &w.out
	out.Reset()
	f(n.Local(), out)
	if w.looks.Due() {
		n.store.Check()
	}
	if w.calls++; !w.plan.bare && w.calls%acrossEvery == 0 {
		w.across()
	}
	n.act(out)
	n.Wake(n.store.Deadline())
}

func (n *node) tick() { n.call(n.store.Tick) }

func (n *node) synced(upto uint64) {
	n.call(func(now time.Duration, out *store.Out) { n.store.Synced(now, upto, out) })
}

func (n *node) receive(from *node, body any) {
	m, ok := body.(message.Message)
	if !ok {
		var err error
		if m, err = message.Decode(body.([]byte)); err != nil {
			n.w.Fail("codec", "%s cannot read a message of %s: %v", n.Name, from.Name, err)
			return
		}
	}
	if n.w.Tracing() {
		n.w.Trace(n.Name, "<- "+string(from.Name), "%s", show(m))
	}
	n.call(func(now time.Duration, out *store.Out) { n.store.Message(now, from.Name, m, out) })
}

// act does what an outbox says, in the order of its fields.
func (n *node) act(out *store.Out) {
	w := n.w
	for i := range out.Notes {
		w.Trace(n.Name, "note", "%s", show(out.Notes[i]))
		w.noted(n, &out.Notes[i])
	}
	if w.Tracing() {
		for _, l := range out.Logs {
			w.Trace(n.Name, "logs", "%d %q: %d bytes", l.Number, l.Key, len(l.Value))
		}
	}
	n.disk.Append(out.Logs)
	for _, s := range out.Sends {
		n.send(s)
	}
	for _, r := range out.Results {
		n.result(r)
	}
	if out.Left {
		w.departed(n)
	}
}

func (n *node) send(s store.Send) {
	w := n.w
	to := w.byName[s.To]
	if to == nil {
		w.Fail("unknown-node", "%s sends %s to %q, which does not exist", n.Name, show(s.Message), s.To)
		return
	}
	if to == n {
		w.Fail("self-send", "%s sends %s to itself", n.Name, show(s.Message))
		return
	}
	if w.Tracing() {
		w.Trace(n.Name, "-> "+string(to.Name), "%s", show(s.Message))
	}
	w.stats.Messages++
	var body any = s.Message
	if w.plan.coded {
		body = message.Encode(s.Message)
	}
	n.Send(&to.Host, func() { to.receive(n, body) })
}

// show prints a thing on one line.
func show(thing any) string { return fmt.Sprintf("%T%+v", thing, thing) }
