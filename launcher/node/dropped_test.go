package node_test

import (
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// A node that offered tasks, and never heard that they were taken, asks for them
// back when their job has ended and its records were dropped: it gets none, and
// no record comes back.
func TestADroppedJobStaysDropped(t *testing.T) {
	for _, once := range []bool{false, true} {
		w := newNet(t, 3, 1)
		w.chores.lasts = 50 * ms
		offers := 0
		w.faults.words = func(from, to filch.NodeName, name string) bool {
			if from == "n2" && to == "n3" && name == "mtc.Offer" {
				offers++
			}
			// n3 has what n2 had from n1, and cannot say so.
			return from == "n1" && to == "n3" || from == "n3" && (to == "n1" || name == "mtc.Done")
		}
		const total = 32
		id := w.bag("n1", 1, total, func(s *submit.Job) { s.Spec.Once = once })
		if got := w.tally(id, 2*sec); got.OK != total {
			t.Fatalf("once=%t: got %+v", once, got)
		}
		w.run(100 * ms)
		for _, name := range w.names {
			h := w.nodes[name]
			h.input(func(out *launcher.Outbox) { h.node.DropOldest(w.Now(), out) })
		}
		w.run(10 * sec)
		begun, dropped := 0, 0
		for _, name := range w.names {
			h := w.nodes[name]
			begun, dropped = begun+w.chores.begun[name], dropped+h.node.Dropped()
			for r := range h.store.Homed(dht.Key(record.Prefix)) {
				t.Errorf("once=%t: %s is left", once, r.Key)
			}
		}
		if offers == 0 || dropped == 0 {
			t.Fatalf("once=%t: %d offers, and %d jobs were dropped", once, offers, dropped)
		}
		if begun != total {
			t.Errorf("once=%t: %d tasks were started, want %d", once, begun, total)
		}
	}
}
