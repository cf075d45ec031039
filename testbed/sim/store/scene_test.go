package store

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// calmWorld is an instance of n nodes that is whole, on a network on a good
// day. Its clients do nothing yet.
func calmWorld(t *testing.T, seed uint64, n, joiners int) *World {
	t.Helper()
	p := plan{seed: seed, nodes: n, joiners: joiners, links: engine.Quiet()}
	p.delays = drawDelays(engine.NewDice(seed, 1))
	w := newWorld(p, nil)
	w.members.start()
	w.At(0, func() { w.nodes[0].boot(true) })
	for _, x := range w.nodes[1:n] {
		w.At(100*time.Millisecond, func() { x.boot(false) })
	}
	w.Run(time.Second)
	w.becomeWhole("in the beginning")
	sound(t, w)
	return w
}

func sound(t *testing.T, w *World) {
	t.Helper()
	for _, v := range w.Broken() {
		t.Fatalf("seed %d: %v", w.plan.seed, v)
	}
}

// TestStoreMinority cuts two of five nodes off, the acceptors' majority on the
// other side. Nothing that they are asked to do is done there; the others go
// on; healed, all is whole again.
func TestStoreMinority(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		w := calmWorld(t, seed, 5, 0)
		w.plan.patienceMin, w.plan.patienceMax = time.Second, 2*time.Second
		acceptors := w.acceptors()
		few := []*node{acceptors[seed%uint64(len(acceptors))]}
		for _, n := range w.nodes {
			if len(few) < 2 && !slices.Contains(acceptors, n) {
				few = append(few, n)
			}
		}
		many := slices.DeleteFunc(slices.Clone(w.nodes), func(n *node) bool { return slices.Contains(few, n) })
		for i := range 6 {
			c := &client{w: w, index: i, node: w.nodes[i%5]}
			w.clients = append(w.clients, c)
			c.rest()
		}
		w.Run(w.Now() + time.Second)
		w.Trace("", "cut", "%v", names(few))
		w.cut(few, many, time.Hour, true)
		w.Run(w.Now() + 100*time.Millisecond)
		from := w.past.step
		w.Run(w.Now() + 10*time.Second)
		done := map[bool]int{}
		for _, key := range w.past.keys {
			for _, e := range w.past.byKey[key] {
				if e.call <= from || e.open || e.void || e.op.Code == dht.OpLookup && !e.op.Consistent {
					continue
				}
				cut := slices.Contains(few, e.asked)
				if done[cut]++; cut {
					t.Fatalf("seed %d: cut off with %v: %s", seed, names(few), describe(e))
				}
			}
		}
		if done[false] < 20 {
			t.Errorf("seed %d: the majority carried %d operations out in 10 s", seed, done[false])
		}
		w.calm()
		w.rest()
		w.becomeWhole("after the cut was healed")
		w.probe()
		if w.sound() {
			w.judge()
		}
		sound(t, w)
	}
}

// TestStoreForgetsRemoved looks that what was removed is forgotten in the end.
func TestStoreForgetsRemoved(t *testing.T) {
	w := calmWorld(t, 1, 3, 0)
	records := func() (sum int) {
		for _, n := range w.nodes {
			sum += n.store.Status().Records
		}
		return sum
	}
	ask := func(op dht.Op) {
		t.Helper()
		c := &client{w: w, index: len(w.clients), node: w.nodes[0]}
		w.clients = append(w.clients, c)
		e := &entry{client: c.index, kind: dht.KindRegister, op: op}
		c.ask([]*entry{e}, func() {})
		w.Run(w.Now() + time.Second)
		if e.open || e.result.Outcome != dht.Done {
			t.Fatalf("got %s, want it done", describe(e))
		}
	}
	ask(dht.Op{Code: dht.OpInsert, Key: "a", Kind: dht.KindRegister, Value: []byte("x")})
	if got := records(); got != 3 {
		t.Errorf("%d records of one on three nodes, want 3", got)
	}
	ask(dht.Op{Code: dht.OpRemove, Key: "a", Keep: 20 * time.Second})
	if got := records(); got != 3 {
		t.Errorf("%d records just after the removal, want 3", got)
	}
	w.Run(w.Now() + 2*time.Minute)
	if got := records(); got != 0 {
		t.Errorf("%d records two minutes after a removal that was to be remembered for 20 s, want 0", got)
	}
	sound(t, w)
}

// TestStoreRosterForced takes the roster away while clients are busy, in several
// ways, and has its loss accepted. Everything is whole again then, and as each
// record is on a live node or on a disk, what clients saw and see is linearizable.
func TestStoreRosterForced(t *testing.T) {
	for _, c := range []struct {
		name string
		deed func(w *World)
	}{
		{"acceptors-lost-with-their-disks", func(w *World) {
			acceptors := w.acceptors()
			for _, n := range acceptors[:len(acceptors)/2+1] {
				n.stop()
				n.lose()
			}
		}},
		{"disks-of-acceptors-damaged", func(w *World) { w.restartDamaged(w.acceptors()...) }},
		{"all-disks-damaged", func(w *World) { w.restartDamaged(w.up()...) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 10; seed++ {
				w := calmWorld(t, seed, 5, 0)
				w.busy(6)
				w.Run(w.Now() + time.Second)
				w.rest()
				w.probe()
				w.Run(w.Now() + time.Second) // all is synced
				w.ground.sound = true        // no disk rots but as said
				c.deed(w)
				w.Run(w.Now() + 3*w.plan.dead + 12*time.Second)
				if g := w.generation(); g > 1<<30 {
					t.Fatalf("seed %d: a new roster was forced, and nobody accepted the loss", seed)
				}
				for tries := 0; w.whole() != "" && tries < pleas; tries++ {
					up := w.up()
					r := w.acceptLoss(up[int(seed)%len(up)])
					w.Run(w.Now() + pleaMax)
					if sound(t, w); r.Outcome != dht.Done {
						t.Fatalf("seed %d: got %v %s", seed, r.Outcome, r.Err)
					}
				}
				if why := w.whole(); why != "" {
					t.Fatalf("seed %d: the loss was accepted, and still %s", seed, why)
				}
				if g := w.generation(); g < 1<<30 {
					t.Fatalf("seed %d: the roster was not lost: its generation is %d", seed, g)
				}
				w.busy(6)
				w.Run(w.Now() + time.Second)
				w.rest()
				w.probe()
				if w.sound() {
					w.judge()
				}
				sound(t, w)
			}
		})
	}
}

// TestStoreAcceptorsSpared damages the disk of one of three acceptors as its process dies, and
// before anybody knows of that the disk of another one takes nothing for a moment. There
// is nobody to take its place, and the register moves to one acceptor. Those that live know
// the roster, and it is not lost.
func TestStoreAcceptorsSpared(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		w := calmWorld(t, seed, 3, 0)
		w.busy(3)
		w.Run(w.Now() + time.Second)
		w.ground.sound = true // no disk rots but as said
		d := w.rng.fault
		acceptors := w.acceptors()
		if len(acceptors) != 3 {
			t.Fatalf("seed %d: the acceptors are %v, want three", seed, names(acceptors))
		}
		i := d.N(3)
		w.crash(acceptors[i], w.lasts(1000, 4000))
		acceptors[i].disk.Doubt()
		w.Run(w.Now() + d.Between(0, w.plan.dead/2))
		w.failDisk(acceptors[(i+1+d.N(2))%3], d.Between(time.Millisecond, w.plan.dead/2))
		w.Run(w.Now() + 3*w.plan.dead + 5*time.Second)
		w.rest()
		w.becomeWhole("after an acceptor came back with a damaged disk")
		w.probe()
		sound(t, w)
	}
}

// busy lets clients begin.
func (w *World) busy(n int) {
	w.plan.patienceMin, w.plan.patienceMax = time.Second, 2*time.Second
	for i := range n {
		c := &client{w: w, index: len(w.clients), node: w.nodes[i%len(w.nodes)]}
		w.clients = append(w.clients, c)
		c.rest()
	}
}

// restartDamaged ends everybody and starts them again; the disks of some tell
// that they are damaged, whatever it is that they lost.
func (w *World) restartDamaged(some ...*node) {
	for _, n := range w.up() {
		n.stop()
		if slices.Contains(some, n) {
			n.disk.Doubt()
		}
		n.boot(false)
	}
}
