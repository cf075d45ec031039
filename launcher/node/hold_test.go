package node_test

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// hold gives an order to the node of a job, and returns the answer after a second.
func (w *net) hold(name filch.NodeName, id filch.JobID, by string) (why *filch.Error) {
	w.t.Helper()
	answered, h := false, w.nodes[name]
	h.input(func(out *launcher.Outbox) {
		h.node.Hold(w.Now(), id, by, func(e *filch.Error) { why, answered = e, true }, out)
	})
	w.until("the answer to an order", 5*sec, func() bool { return answered })
	return why
}

// free is the number of free slots of all nodes.
func (w *net) free() (n int32) {
	for _, name := range w.names {
		n += w.nodes[name].node.Slots().Free
	}
	return n
}

// A held run gives its slots back and asks for none, a younger run starts in its place, and
// the released run has its old ticket: it starts before a run that is younger.
func TestHoldOfAGatheringRun(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at = 10 * sec }
	first := w.submit("n1", 1, gang(6))
	w.run(sec)
	held := w.detach("n2", 2, gang(12))
	w.run(2 * sec)
	if free := w.free(); free != 0 {
		t.Fatalf("%d slots are free, want the waiting run to hold the rest", free)
	}
	if err := w.hold("n2", held, "ann"); err != nil {
		t.Fatal(err)
	}
	w.run(sec)
	if free := w.free(); free != 6 {
		t.Errorf("%d slots are free, want the 6 that the held run had", free)
	}
	if x, _ := w.nodes["n2"].node.Explain(w.Now(), held); !strings.Contains(x.Text, "ann holds the run: filch release") || x.By != "ann" {
		t.Errorf("explained as %+v, want it held by ann", x)
	}
	if i, _ := w.nodes["n2"].node.Job(w.Now(), held); i.Held != "ann" {
		t.Errorf("%+v, want it held by ann", i)
	}
	if err := w.hold("n1", first, "ann"); err == nil || !strings.Contains(err.Text, "only a run that waits can be held") {
		t.Errorf("the hold of a run that runs: %v", err)
	}
	w.run(30 * sec) // the first has ended: the held run stays
	younger := w.submit("n3", 3, gang(12))
	w.run(sec)
	if i, _ := w.nodes["n3"].node.Job(w.Now(), younger); i.State != "running" {
		t.Errorf("a younger run is %s beside a held run", i.State)
	}
	last := w.submit("n3", 4, gang(12))
	w.run(sec)
	if err := w.hold("n2", held, ""); err != nil {
		t.Fatal(err)
	}
	w.run(12 * sec)
	if i, _ := w.nodes["n2"].node.Job(w.Now(), held); i.State != "running" {
		t.Errorf("the released run is %+v, want it to run before the youngest", i)
	}
	w.ends(held, 0)
	w.ends(last, 0)
	w.run(20 * sec)
	w.quiet()
}

// A run that is submitted held does not start, and another node that takes the run over
// keeps the hold and can release the run.
func TestHoldOutlivesItsNode(t *testing.T) {
	w := newNet(t, 4, 4)
	w.behave = func(k *keeper) { k.at = 6 * sec }
	r := gang(2)
	r.HeldBy = "ann"
	early := w.detach("n1", 1, r)
	w.submit("n2", 2, gang(14))
	w.run(2 * sec)
	late := w.detach("n1", 3, gang(12))
	w.run(500 * ms)
	if err := w.hold("n1", late, "bob"); err != nil {
		t.Fatal(err)
	}
	w.run(5 * sec)
	w.dies("n1")
	w.run(20 * sec)
	for id, by := range map[filch.JobID]string{early: "ann", late: "bob"} {
		i, ok := w.told(id)
		if !ok || i.Held != by || i.Hop != 1 || i.Code != nil {
			t.Fatalf("job %d is %+v, want it taken over and held by %s", id, i, by)
		}
		if err := w.hold(i.Origin, id, ""); err != nil {
			t.Fatal(err)
		}
	}
	w.ends(early, 0)
	w.ends(late, 0)
	w.run(20 * sec)
	w.quiet()
}

// A held job of an array gives its place to the next job of the array, and takes a place
// when there is one after the release.
func TestHoldOfAnArray(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 5 * sec }
	w.submit("n2", 1, gang(8))
	w.run(sec)
	var jobs []filch.JobID
	for i := range 3 {
		r := gang(2)
		r.Array = launcher.Array{Key: "a", Most: 1}
		jobs = append(jobs, w.detach("n1", launcher.ClientID(2+i), r))
	}
	for _, id := range jobs[:2] { // the first gathers, the second waits for its end
		if err := w.hold("n1", id, "ann"); err != nil {
			t.Fatal(err)
		}
	}
	w.ends(jobs[2], 0)
	for _, id := range jobs[:2] {
		if i, _ := w.nodes["n1"].node.Job(w.Now(), id); i.State != "waiting" || i.Held != "ann" {
			t.Errorf("job %d is %s, held by %q", id, i.State, i.Held)
		}
	}
	for _, id := range jobs[:2] {
		if err := w.hold("n1", id, ""); err != nil {
			t.Fatal(err)
		}
	}
	w.run(2 * sec)
	if i, _ := w.nodes["n1"].node.Job(w.Now(), jobs[1]); i.State != "waiting" {
		t.Errorf("two jobs of an array for one at a time run: %+v", i)
	}
	w.ends(jobs[0], 0)
	w.ends(jobs[1], 0)
	w.run(20 * sec)
	w.quiet()
}
