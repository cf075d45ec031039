package node_test

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher/node/origin"
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
