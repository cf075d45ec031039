package node_test

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// learnsDead tells a node that the others declared it dead, before they hear of it.
func (w *net) learnsDead(name filch.NodeName) {
	h := w.nodes[name]
	h.input(func(out *launcher.Outbox) { h.node.Peer(w.Now(), w.peer(name, filch.Dead), out) })
}

// reborn gives a node its next life.
func (w *net) reborn(name filch.NodeName) {
	h := w.nodes[name]
	w.declare(name, filch.Dead)
	h.cfg.Incarnation++
	h.input(func(out *launcher.Outbox) { h.node.Reborn(w.Now(), h.cfg.Incarnation, out) })
	w.declare(name, filch.Up)
}

// A node that was declared dead comes back once nothing runs on it. So nothing begins
// there until then: neither what is submitted there, which is told why, nor what others
// submit that have not heard of the death (seed 16 of testbed/sim/instance, rejoins).
func TestNothingBeginsOnADeadNode(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at = 5 * sec }
	w.learnsDead("n1")
	r := gang(1)
	r.Shape.Only = []filch.NodeName{"n1"}
	mine := w.submit("n1", 1, r)
	theirs := w.submit("n2", 2, r)
	w.run(3 * sec)
	n1 := w.nodes["n1"]
	if len(n1.keepers) > 0 {
		t.Errorf("%d keepers were started on a node that was declared dead", len(n1.keepers))
	}
	if x, err := n1.node.Explain(w.Now(), mine); err != nil || !strings.Contains(x.Text, "waits until n1 is a member again") {
		t.Errorf("the job on the dead node says %q (%v), want that it waits for the next life", x.Text, err)
	}
	w.reborn("n1")
	w.run(20 * sec)
	for _, id := range []filch.JobID{mine, theirs} {
		if e := w.ended(id); e.Code != 0 {
			t.Errorf("job %d ended %+v, want 0", id, e)
		}
	}
	w.quiet()
}

// A job that waits for a node that died says so: the node is in the list of nodes.
func TestTheDeathOfANodeIsTheReason(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at = 60 * sec }
	w.submit("n3", 1, gang(12))
	w.run(sec)
	r := gang(1)
	r.Shape.Only = []filch.NodeName{"n2"}
	id := w.submit("n1", 2, r)
	w.run(sec)
	for s, want := range map[filch.Standing]string{
		filch.Dead: "cannot use node n2: the node is dead; waits for more nodes",
		filch.Left: "cannot use node n2: the node has left the instance; waits for more nodes",
	} {
		w.declare("n2", s)
		w.run(sec)
		if x, err := w.nodes["n1"].node.Explain(w.Now(), id); err != nil || x.Text != want {
			t.Errorf("got  %q (%v)\nwant %q", x.Text, err, want)
		}
		w.submit("n1", 3, r)
		if want, _, _ := strings.Cut(want, ";"); !strings.Contains(w.last(), want) {
			t.Errorf("a new job hears %s, want %q", w.last(), want)
		}
	}
}

// Nor does what it promised before.
func TestADeadNodeTakesItsPromisesBack(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 3 * sec }
	r := gang(4)
	r.Shape.Only = []filch.NodeName{"n2"}
	first := w.submit("n2", 1, r)
	w.run(sec)
	both := w.submit("n2", 2, gang(8)) // holds all of n1, and waits for n2
	w.run(sec)
	w.learnsDead("n1")
	n1 := w.nodes["n1"]
	w.run(3 * sec)
	if e := w.ended(first); e.Code != 0 {
		t.Fatalf("the first job ended %+v, want 0", e)
	}
	if len(n1.keepers) > 0 {
		t.Errorf("%d keepers were started on a node that was declared dead", len(n1.keepers))
	}
	w.reborn("n1")
	w.run(20 * sec)
	if e := w.ended(both); e.Code != 0 {
		t.Errorf("the second job ended %+v, want 0", e)
	}
	w.quiet()
}

// A launcher that goes down, or was declared dead, ends its ranks and dies before it
// tells their origin. The next one tells that they were killed by a signal, which the
// origin had not asked for: they were lost with their node, and a job that may start again
// does. Found by the whole-node simulator (seed 5656).
func TestRanksThatTheirNodeEndedAreLost(t *testing.T) {
	for _, requeue := range []bool{false, true} {
		w := newNet(t, 2, 4)
		w.behave = func(k *keeper) { k.at = 5 * sec }
		r := gang(8)
		r.Policy.Requeue = requeue
		id := w.submit("n1", 1, r)
		w.run(sec)
		w.learnsDead("n2")
		w.run(500 * usec)
		w.crash("n2", false)
		w.run(500 * ms)
		w.restart("n2")
		w.run(30 * sec)
		want := launcher.Ended{State: filch.Lost, Code: filch.ExitNodeLost}
		if requeue {
			want = launcher.Ended{State: filch.OK}
		}
		if e := w.ended(id); e.State != want.State || e.Code != want.Code {
			t.Errorf("requeue %t: ended as %s with %d, %s; want %s with %d", requeue, e.State, e.Code, e.Cause.Text, want.State, want.Code)
		}
		w.quiet()
	}
}
