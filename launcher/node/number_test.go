package node_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// A launcher whose disk is full forgets that it launched an attempt, and a node that has
// a part of that does not hear of it. Asked for slots under the same number it lends none:
// its ranks are those of the first launch, and the gate of the second would let them run.
func TestAParticipantOfAForgottenLaunchIsNotInTheNext(t *testing.T) {
	w := newNet(t, 4, 4)
	w.behave = func(k *keeper) {
		k.at = map[filch.NodeName]time.Duration{"n1": 60 * sec, "n2": 2 * sec, "n3": 2 * sec, "n4": 2050 * ms}[k.host.Name]
		k.deaf = k.host.Name == "n3" && k.start.Launch.Ident.Attempt == 2 // the gate stays shut
	}
	n1, n2 := w.nodes["n1"], w.nodes["n2"]
	for _, name := range w.names {
		r := gang(4)
		r.Shape.Only = []filch.NodeName{name}
		w.submit(name, 1, r)
	}
	w.run(100 * ms)
	id := w.submit("n1", 2, gang(8)) // waits
	w.run(100 * ms)
	disk := maps.Clone(n1.records) // takes nothing from now on
	again := func() {
		w.restart("n1")
		w.reattach("n1", 1, 1)
		w.reattach("n1", 2, id)
	}
	w.crash("n1", false)
	again()
	second := filch.Ident{Instance: "test", Job: id, Attempt: 2}
	w.until("a part behind the gate", 10*sec, func() bool { return n2.keepers[second] != nil })
	w.run(10 * ms)
	w.crash("n3", true)
	w.crash("n1", false)
	n1.records = disk
	w.run(100 * ms)
	w.faults.cut = func(from, to filch.NodeName) bool { return to == "n1" && from == "n2" }
	again()
	w.faults.cut = nil
	for _, name := range []filch.NodeName{"n2", "n4"} { // who have not heard of n1 yet
		n1.input(func(out *launcher.Outbox) { n1.node.Peer(w.Now(), w.peer(name, filch.Up), out) })
	}
	var launched []string
	// n3 is gone and may have ranks of the launch: the job waits for the rest of their lease.
	w.until("the job to run", 30*sec, func() bool {
		launched = nil
		for _, name := range w.names {
			for i, k := range w.nodes[name].keepers {
				if i.Job == id && k.running && !k.over {
					launched = append(launched, fmt.Sprint(k.start.Launch.Nodes))
				}
			}
		}
		return len(launched) == 2
	})
	if launched[0] != launched[1] {
		t.Errorf("ranks of two launches run as one: %v and %v", launched[0], launched[1])
	}
	w.run(10 * sec)
	e := w.ended(id)
	if e.State != filch.OK {
		t.Errorf("ended as %s, %s; want ok", e.State, e.Cause.Text)
	}
}
