package node_test

import (
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// allDie ends every machine at once.
func (w *net) allDie() {
	for _, name := range w.names {
		w.crash(name, true)
		w.nodes[name].chores = nil
	}
}

// comeBack begins launchers again, and hears from the first of them of a bag.
func (w *net) comeBack(id filch.JobID, client launcher.ClientID, names ...filch.NodeName) {
	for _, name := range names {
		w.restart(name)
		w.run(50 * ms)
	}
	w.nodes[names[0]].input(func(out *launcher.Outbox) { w.nodes[names[0]].node.FollowTasks(w.Now(), client, id, out) })
}

// A bag whose nodes all died at once goes on when they are back: nobody saw
// another one die, but its owners are of lives before.
func TestABagOutlivesTheDeathOfAllNodes(t *testing.T) {
	for _, once := range []bool{false, true} {
		w := newNet(t, 4, 4)
		w.chores.lasts = 500 * ms
		id := w.bag("n2", 1, 200, func(s *submit.Job) { s.Spec.Once = once })
		w.run(2200 * ms)
		w.allDie()
		w.run(sec)
		w.comeBack(id, 2, w.names...)
		got := w.tally(id, 60*sec)
		if got.Sum() != 200 || got.OK+got.Lost != 200 || got.Lost > 0 && !once || got.Lost > 16 {
			t.Errorf("once %v: got %+v, want 200 that are ok, or lost where they run once", once, got)
		}
	}
}

// So it does when one of them, the one that kept it going, comes later or never.
func TestABagGoesOnWithoutTheLastNode(t *testing.T) {
	for _, comes := range []bool{false, true} {
		w := newNet(t, 4, 4)
		w.chores.lasts = 500 * ms
		id := w.bag("n2", 1, 200, nil)
		w.run(2200 * ms)
		w.allDie()
		w.comeBack(id, 2, "n1", "n3", "n4")
		within := 60 * sec
		if w.run(4 * sec); comes {
			w.restart("n2")
			within = 9 * sec
		}
		if got := w.tally(id, within); got != (record.Tally{OK: 200}) {
			t.Errorf("n2 comes %v: got %+v, want 200 ok", comes, got)
		}
	}
}
