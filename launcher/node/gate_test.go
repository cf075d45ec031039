package node_test

import (
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// losingGang is a detached job of n1 on n2, n3 and n4 that may go on without some of them.
// The store hears nothing more of n1 once that launches it, so that the record does
// not say whether the gate was opened; and what loses holds for is lost.
func losingGang(w *net, requeue bool, loses func(from, to filch.NodeName, m launcher.Message) bool) filch.JobID {
	w.behave = func(k *keeper) { k.at = 10 * sec }
	r := gang(12)
	r.Shape.Only = []filch.NodeName{"n2", "n3", "n4"}
	r.Policy.NoKill, r.Policy.KillOnBad, r.Policy.Requeue = true, false, requeue
	w.onSend = func(from, to filch.NodeName, m launcher.Message) {
		if _, ok := m.(*launcher.Dispatch); ok && w.nodes["n1"].Up() {
			w.faults.stores = func(from, _ filch.NodeName) bool { return from == "n1" && w.nodes["n1"].Up() }
		}
		if loses(from, to, m) {
			w.faults.cut = func(a, b filch.NodeName) bool { return a == from && b == to }
			w.After(ms, func() { w.faults.cut = nil })
		}
	}
	id := w.detach("n1", 1, r)
	w.run(sec)
	return id
}

// begun counts the nodes where ranks of an attempt have begun.
func (w *net) begun(attempt filch.Attempt) (n int) {
	for _, h := range w.nodes {
		for id, k := range h.keepers {
			if k.running && id.Attempt == attempt {
				n++
			}
		}
	}
	return n
}

// A gang that may go on without some of its nodes does not begin without them. Found
// by the whole-node simulator (seed 132, owners).
func TestAnHeirBeginsNothingWithoutANodeThatHasNoRanks(t *testing.T) {
	for _, dead := range []bool{false, true} {
		for _, requeue := range []bool{false, true} {
			w := newNet(t, 6, 4)
			id := losingGang(w, requeue, func(from, to filch.NodeName, m launcher.Message) bool {
				_, ok := m.(*launcher.Dispatch)
				return ok && to == "n4" && w.nodes["n1"].Up()
			})
			if w.live("n2") != 1 || w.live("n3") != 1 || w.live("n4") != 0 {
				t.Fatal("it was not launched on n2 and n3 alone")
			}
			if dead {
				w.crash("n4", true)
			}
			w.dies("n1")
			if dead {
				w.declare("n4", filch.Dead)
			}
			for range 200 {
				w.run(50 * ms)
				if w.begun(1) > 0 {
					t.Fatalf("dead %t, requeue %t: at %v ranks run, and n4 has none", dead, requeue, w.Now())
				}
			}
			if dead {
				w.run(20 * sec)
				w.restart("n4")
			}
			code := int32(filch.ExitNodeLost)
			if requeue {
				code = 0
			}
			w.ends(id, code)
			w.run(30 * sec)
			w.quiet()
		}
	}
}

// Where ranks of it have begun, it goes on without a node that is lost.
func TestAnHeirGoesOnWithAGangThatHasBegun(t *testing.T) {
	w := newNet(t, 6, 4)
	id := losingGang(w, false, func(_, to filch.NodeName, m launcher.Message) bool {
		_, ok := m.(*launcher.Proceed)
		return ok && to == "n3" && w.nodes["n1"].Up()
	})
	if w.begun(1) != 2 {
		t.Fatalf("ranks of %d nodes have begun, want those of n2 and n4", w.begun(1))
	}
	w.crash("n4", true)
	w.dies("n1")
	w.declare("n4", filch.Dead)
	w.run(2 * sec)
	if w.begun(1) != 2 {
		t.Errorf("ranks of %d nodes run, want those of n2 and n3", w.begun(1))
	}
	w.ends(id, filch.ExitNodeLost)
	if w.Now() < 14*sec {
		t.Errorf("it ended at %v, want all that was left of it to run", w.Now())
	}
	w.run(30 * sec)
	w.quiet()
}

// All nodes were ready, and the origin died before it heard of that: the heir opens
// the gate.
func TestAnHeirOpensTheGateWhenAllAreReady(t *testing.T) {
	w := newNet(t, 6, 4)
	id := losingGang(w, false, func(_, to filch.NodeName, m launcher.Message) bool {
		_, ok := m.(*launcher.Progress)
		return ok && to == "n1"
	})
	w.dies("n1")
	if w.begun(1) > 0 {
		t.Fatal("ranks have begun")
	}
	w.ends(id, 0)
	w.run(30 * sec)
	w.quiet()
}
