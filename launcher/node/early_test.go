package node_test

import (
	"testing"

	"github.com/filch-hpc/filch"

	"github.com/filch-hpc/filch/launcher"
	. "github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/node/tasks"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// A client submits tasks to a node that was declared dead, and goes before the node
// has its next life. Nothing waits any more, so nothing may be due for it: a moment
// in the past that stays due keeps a launcher busy for ever (seed 61 of
// testbed/sim/instance).
func TestNothingIsDueForAClientThatWent(t *testing.T) {
	w := newNet(t, 3, 4)
	n1 := w.nodes["n1"]
	n1.input(func(out *launcher.Outbox) {
		n1.node.Peer(w.Now(), Peer{Name: "n1", Incarnation: n1.cfg.Incarnation, Standing: filch.Dead}, out)
	})
	before := len(w.replies)
	n1.input(func(out *launcher.Outbox) {
		s := submit.Job{Name: "bag", Total: 3, Spec: record.Spec{Body: []byte{launcher.BodyNoop}, Each: filch.Room{Slots: 1}}}
		n1.node.SubmitTasks(w.Now(), 7, s, int64(w.Now()), out)
	})
	if len(w.replies) > before {
		t.Fatalf("the submission does not wait: %q", w.replies[before:])
	}
	n1.input(func(out *launcher.Outbox) { n1.node.ClientGone(w.Now(), 7, out) })
	at, ticks := w.Now()+2*tasks.EarlyWait, 0
	for ; n1.node.Deadline() <= at && ticks < 10_000; ticks++ {
		n1.node.Tick(max(w.Now(), n1.node.Deadline()), &launcher.Outbox{})
	}
	if d := n1.node.Deadline(); d <= at {
		t.Errorf("after %d ticks a node with nothing to do is due at %v, in the past of %v", ticks, d, at)
	}
}
