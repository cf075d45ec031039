package node_test

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/origin"
	"github.com/filch-hpc/filch/slots"
)

// A launcher that has just started lends nothing, and names no holder: who waits
// for its slots has a word for that.
func TestAWaitForSlotsWithoutAHolder(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 30 * sec }
	r := gang(4)
	w.submit("n2", 1, r)
	w.run(sec)
	w.crash("n2", false)
	w.late = 2 * sec
	w.restart("n2")
	id := w.submit("n1", 2, gang(8))
	w.run(100 * ms)
	x, err := w.nodes["n1"].node.Explain(w.Now(), id)
	if want := "room for 4 of 8 ranks is held, 4 missing (2 nodes asked): n2 did not report yet which jobs have the slots there"; err != nil || x.Text != want {
		t.Errorf("%q (%v), want %q", x.Text, err, want)
	}
	w.run(2 * origin.SayEvery)
	if x, err = w.nodes["n1"].node.Explain(w.Now(), id); err != nil || !strings.Contains(x.Text, "job 1 has 4 slots on n2") && x.Phase != "run" && x.Phase != "end" {
		t.Errorf("later: %+v (%v), want the job that has the slots", x, err)
	}
}

// The slots that a run holds on n2 are lent to tasks until the run can start. The answer of n2
// that the slots are lent no more is lost: the run has all its slots, and waits for n2.
func TestAWaitForSlotsThatWereLent(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at = 8 * sec }
	w.submit("n3", 1, gang(4))
	w.run(sec)
	id := w.submit("n1", 2, gang(12))
	w.run(4 * sec)
	w.faults.cut = func(from, to filch.NodeName) bool { return from == "n2" && to == "n1" }
	w.run(4 * sec)
	x, err := w.nodes["n1"].node.Explain(w.Now(), id)
	if want := "room for 12 ranks is held, in part lent to tasks: n2 did not report yet that no task has the slots any more"; err != nil || x.Text != want {
		t.Errorf("%q (%v), want %q", x.Text, err, want)
	}
	w.faults.cut = nil
	w.run(5 * sec)
	if x, err = w.nodes["n1"].node.Explain(w.Now(), id); err != nil || x.Phase != "run" {
		t.Errorf("later: %+v (%v), want a run", x, err)
	}
}

// n2 crashes when the launch arrives, and its next launcher does not know the launch. The
// origin gives the launch up, and cannot reach n3, which has a part in the launch.
func TestALaunchThatIsGivenUpHasAReason(t *testing.T) {
	w, crashed := newNet(t, 3, 4), false
	w.onSend = func(_, to filch.NodeName, m launcher.Message) {
		if _, ok := m.(*launcher.Dispatch); !ok || to != "n2" || crashed {
			return
		}
		crashed = true
		w.After(0, func() {
			w.crash("n2", true)
			w.faults.cut = func(from, to filch.NodeName) bool { return from == "n1" && to == "n3" || from == "n3" && to == "n1" }
		})
		w.After(200*ms, func() { w.restart("n2") })
	}
	id, why := w.submit("n1", 1, gang(12)), ""
	for range 1000 {
		w.run(10 * ms)
		x, err := w.nodes["n1"].node.Explain(w.Now(), id)
		if err != nil || x.Text == "" {
			t.Fatalf("at %v n1 has no text about the job: %+v %v", w.Now(), x, err)
		}
		if strings.HasPrefix(x.Text, "is being stopped") {
			why = x.Text
		}
	}
	if want := "is being stopped, and will be launched again: "; !strings.HasPrefix(why, want) || why == want {
		t.Errorf("got %q, want %q and a reason", why, want)
	}
	w.faults.cut = nil
	w.until("the end of the job", 30*sec, func() bool { return w.over(id) })
	if e := w.ended(id); e.Code != 0 {
		t.Errorf("the job ended %+v", e)
	}
}

// A run that waits for GPUs, memory or a resource on a node with free slots is told so, and
// not of slots.
func TestAWaitForMoreThanSlots(t *testing.T) {
	for lacks, take := range map[string]func(*filch.Room){
		"GPUs are":   func(r *filch.Room) { r.GPUs = 2 * filch.GPU },
		"license is": func(r *filch.Room) { r.Named = "license=3" },
		"memory is":  func(r *filch.Room) { r.MemBytes = 6 << 30 },
	} {
		w := netOf(t, 2, 4, net{equip: func(c *slots.Capacity) { c.GPUs, c.Named, c.MemBytes = []string{"0", "1"}, "license=4", 8<<30 }})
		w.behave = func(k *keeper) { k.at = 60 * sec }
		r := gang(1)
		r.Shape.Only = []filch.NodeName{"n2"}
		take(&r.Shape.PerRank)
		w.submit("n1", 1, r)
		w.run(sec)
		id := w.submit("n1", 2, r)
		w.run(sec)
		x, err := w.nodes["n1"].node.Explain(w.Now(), id)
		if want := ": slots are free on n2, but " + lacks + " lacking, of which job 1 has most"; err != nil || !strings.HasSuffix(x.Text, want) {
			t.Errorf("%q (%v), want %q", x.Text, err, want)
		}
	}
}

// Drained nodes with free slots lend nothing: a run that waits for them names the drain, and no job
// with the slots.
func TestAWaitForDrainedNodes(t *testing.T) {
	w := newNet(t, 2, 4)
	for _, name := range []filch.NodeName{"n1", "n2"} {
		w.drain(name, "upgrade")
	}
	w.run(sec)
	id := w.submit("n1", 1, gang(8))
	w.run(2 * sec)
	x, err := w.nodes["n1"].node.Explain(w.Now(), id)
	if err != nil || strings.Contains(x.Text, "did not report") || !strings.Contains(x.Text, "drained") {
		t.Errorf("%q (%v), want the drain alone", x.Text, err)
	}
}
