package node_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// While the list of members is not whole, a gang too large for the known members is not
// refused: the gang waits for the list and says so, and starts when the list has the
// nodes. With a whole list such a gang is refused at once.
func TestALargeGangWaitsForTheListOfMembers(t *testing.T) {
	w := newNet(t, 3, 2)
	w.behave = func(k *keeper) { k.at = sec }
	h := w.nodes["n1"]
	partial := func(on bool) {
		h.input(func(out *launcher.Outbox) { h.node.ListPartial(w.Now(), on, out) })
	}
	partial(true)
	id := w.submit("n1", 1, gang(8))
	w.run(sec)
	x, err := h.node.Explain(w.Now(), id)
	if err != nil || !strings.Contains(x.Text, "3 nodes have room for 6; waits for the list of members, which is not whole yet") {
		t.Fatalf("%q (%v), want a wait for the list", x.Text, err)
	}
	fits := w.submit("n1", 2, gang(6))
	w.run(5 * sec)
	if e := w.ended(fits); e.Code != 0 {
		t.Errorf("the gang that fits ended with %+v", e)
	}
	w.add("n4", 2)
	w.meet()
	partial(false)
	w.run(5 * sec)
	if e := w.ended(id); e.Code != 0 {
		t.Errorf("the large gang ended with %+v", e)
	}
	never := w.submit("n1", 3, gang(9))
	if !strings.Contains(w.last(), "Refused 125") {
		t.Errorf("with a whole list: %q and job %d, want a refusal", w.last(), never)
	}
}

// While the list of members is not whole, the node looks up the nodes that a job asks for
// by name, and tells of a lookup in vain. A node found becomes a member, and the job runs.
func TestNamedNodesAreLookedUp(t *testing.T) {
	w := newNet(t, 3, 2)
	w.behave = func(k *keeper) { k.at = sec }
	h := w.nodes["n1"]
	h.input(func(out *launcher.Outbox) { h.node.ListPartial(w.Now(), true, out) })
	named := func(names ...filch.NodeName) launcher.Request {
		r := gang(int32(len(names)))
		r.Shape.Only = names
		return r
	}
	sought := func(name filch.NodeName, vain bool) {
		h.input(func(out *launcher.Outbox) { h.node.Sought(w.Now(), name, vain, out) })
	}
	typo, real := w.submit("n1", 1, named("n2", "n77")), w.submit("n1", 2, named("n4"))
	w.submit("n1", 3, named("n77"))
	w.submit("n1", 4, gang(9)) // of no names
	w.run(sec)
	if want := []filch.NodeName{"n77", "n4"}; !slices.Equal(h.seeks, want) {
		t.Fatalf("looked up %v, want %v, each once", h.seeks, want)
	}
	text := func(id filch.JobID) string {
		x, err := h.node.Explain(w.Now(), id)
		if err != nil {
			t.Fatal(err)
		}
		return x.Text
	}
	if got := text(typo); strings.Contains(got, "leads") {
		t.Errorf("while the lookup runs: %q", got)
	}
	sought("n77", true)
	if got := text(typo); !strings.Contains(got, "not whole yet; no node leads to n77") {
		t.Errorf("after a vain lookup: %q", got)
	}
	sought("n4", false)
	w.add("n4", 1)
	w.meet()
	w.run(5 * sec)
	if e := w.ended(real); e.Code != 0 {
		t.Errorf("the job of the node found ended with %+v", e)
	}
	if want := []filch.NodeName{"n77", "n4", "n77"}; !slices.Equal(h.seeks, want) {
		t.Errorf("after %v: looked up %v, want %v", w.Now(), h.seeks, want)
	}
	if got := text(typo); !strings.Contains(got, "no node leads to n77") {
		t.Errorf("during the second lookup: %q", got)
	}
}

// A node that is missing from a list which is not whole stays in the roster; with a whole
// list it is dropped.
func TestAMissingNodeStaysInTheRosterWhileTheListIsPartial(t *testing.T) {
	w := newNet(t, 3, 1)
	// n4 is known to n1 alone, so n1 adds n4 to the roster.
	w.add("n4", 1)
	h := w.nodes["n1"]
	h.input(func(out *launcher.Outbox) { h.node.Peer(w.Now(), w.peer("n4", filch.Up), out) })
	o := w.nodes["n4"]
	for _, name := range []filch.NodeName{"n1", "n2", "n3"} {
		o.input(func(out *launcher.Outbox) { o.node.Peer(w.Now(), w.peer(name, filch.Up), out) })
	}
	for _, name := range []filch.NodeName{"n2", "n3"} {
		x := w.nodes[name]
		x.input(func(out *launcher.Outbox) { x.node.ListPartial(w.Now(), true, out) })
	}
	members := func(name filch.NodeName) int { return len(w.nodes[name].node.StoreStatus().Members) }
	w.until("the roster has n4", 10*sec, func() bool { return members("n2") == 4 })
	// The next proposer does not list n4.
	w.crash("n1", true)
	for _, name := range []filch.NodeName{"n2", "n3", "n4"} {
		x := w.nodes[name]
		x.input(func(out *launcher.Outbox) { x.node.Peer(w.Now(), w.peer("n1", filch.Dead), out) })
	}
	w.run(30 * sec)
	if got := members("n2"); got != 3 {
		t.Fatalf("the roster has %d members, want n2, n3 and n4", got)
	}
	for _, name := range []filch.NodeName{"n2", "n3"} {
		x := w.nodes[name]
		x.input(func(out *launcher.Outbox) { x.node.ListPartial(w.Now(), false, out) })
		x.input(func(out *launcher.Outbox) { x.node.Peer(w.Now(), w.peer("n1", filch.Left), out) })
	}
	w.until("the roster drops n4", 20*sec, func() bool { return members("n2") == 2 })
}
