package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// A run does not end because the launcher of a node is gone: that may be back
// within 4 s, and takes the ranks back then. When it is dead, the run ends.
func TestARunWaitsForALauncherThatIsGone(t *testing.T) {
	for _, back := range []bool{true, false} {
		w := newNet(t, 4, 4)
		w.behave = func(k *keeper) { k.at = 10 * sec }
		id := w.submit("n1", 1, gang(16))
		w.run(sec)
		w.crash("n2", !back)
		w.run(50 * ms)
		w.declare("n2", filch.Gone)
		w.run(3450 * ms)
		n1 := w.nodes["n1"].node
		if i, _ := n1.Job(w.Now(), id); i.State != "running" {
			t.Fatalf("the job is %s 3.5 s after the launcher of n2 was gone, want it running", i.State)
		}
		if x, err := n1.Explain(w.Now(), id); err != nil || !strings.Contains(x.Text, "the launcher has ended on n2") {
			t.Errorf("explain says %q, %v; want it to name n2", x.Text, err)
		}
		if !back {
			w.run(1500 * ms)
			w.declare("n2", filch.Dead)
			w.run(8 * sec)
			if e := w.ended(id); e.Code != filch.ExitNodeLost {
				t.Errorf("ended %+v, want %d", e, filch.ExitNodeLost)
			}
			continue
		}
		w.restart("n2")
		w.run(12 * sec)
		if e := w.ended(id); e.Code != 0 {
			t.Errorf("ended %+v, want 0", e)
		}
		w.run(10 * sec)
		w.quiet()
	}
}

// A node that is called gone and lives goes on with its ranks: none ends.
func TestARunGoesOnWhereItsNodeIsCalledGone(t *testing.T) {
	w := newNet(t, 4, 4)
	w.behave = func(k *keeper) { k.at = 10 * sec }
	id := w.submit("n1", 1, gang(16))
	w.run(sec)
	for _, name := range []filch.NodeName{"n1", "n2"} {
		w.declare(name, filch.Gone)
		w.run(2 * sec)
		w.declare(name, filch.Up)
		w.run(sec)
	}
	w.run(12 * sec)
	if e := w.ended(id); e.Code != 0 {
		t.Errorf("ended %+v, want 0", e)
	}
	w.run(10 * sec)
	w.quiet()
}

// Tasks go on elsewhere as soon as their node is gone, with the store's records of
// them; its death is not waited for.
func TestTasksGoOnWhenANodeIsGone(t *testing.T) {
	for _, victim := range []filch.NodeName{"n1", "n2", "n3"} {
		w := newNet(t, 4, 2)
		w.chores.lasts = 100 * ms
		id := w.bag("n4", 1, 160, nil)
		w.run(500 * ms)
		w.crash(victim, true)
		w.run(50 * ms)
		w.declare(victim, filch.Gone)
		at := w.Now()
		if got := w.tally(id, time.Minute); got.OK != 160 {
			t.Errorf("%s was gone: %+v, want 160 ok", victim, got)
		}
		// 16 s of work for six slots.
		if d := w.Now() - at; d > 4*sec {
			t.Errorf("%s was gone: the bag ended %v later, want before it is dead", victim, d)
		}
	}
}

// A launcher whose disk was full gives the number of an attempt again. What a
// participant still says of the first launch of that number ends nothing of the second.
// Found by the whole-node simulator (seed 11041).
func TestWordOfAnotherLaunchOfTheSameNumber(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 5 * sec }
	id := w.submit("n1", 1, gang(8))
	w.run(sec)
	if w.live("n1") != 1 || w.live("n2") != 1 {
		t.Fatal("the job does not run on both nodes")
	}
	w.send("n2", "n1", &launcher.Progress{
		Job: id, Attempt: 1, Index: 1, Lease: filch.LeaseID{Incarnation: 1, Serial: 1 << 20}, Phase: launcher.PhaseRefused,
		Cause: launcher.CauseNotFound, Err: *filch.Errorf(filch.NotFound, "of another launch"),
	})
	w.run(10 * sec)
	if e := w.ended(id); e.State != filch.OK {
		t.Errorf("ended as %s, %s; want ok", e.State, e.Cause.Text)
	}
	w.quiet()
}
