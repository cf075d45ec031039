package node_test

import (
	"testing"

	"github.com/filch-hpc/filch"
)

// A node takes a job over, and the store does not say in time whether its record has
// it so. Meanwhile the owner of before is back, so that nobody misses it. When the
// record does say so, the job goes on with the node that took it over.
func TestAClaimThatIsAnsweredLateCounts(t *testing.T) {
	w := newNet(t, 5, 4)
	w.behave = func(k *keeper) { k.at = 2 * sec }
	r := gang(4)
	r.Shape.Only = []filch.NodeName{"n2"}
	w.submit("n3", 1, r)
	w.run(sec)
	id := w.detach("n1", 2, r)
	w.crash("n1", true)
	w.run(2 * sec)
	w.declare("n1", filch.Suspect)
	w.run(3 * sec)
	w.declare("n1", filch.Dead)
	w.run(90 * ms) // just before the job is taken over
	w.faults.stores = func(filch.NodeName, filch.NodeName) bool { return true }
	w.run(4500 * ms)
	w.restart("n1")
	w.run(1500 * ms)
	w.faults.stores = nil
	w.run(20 * sec)
	if i, _ := w.told(id); i.Code == nil {
		t.Errorf("the job does not end: it is %s with %s", i.State, i.Origin)
	}
}
