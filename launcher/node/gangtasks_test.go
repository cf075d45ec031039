package node_test

import (
	"testing"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/record"
)

// gangs makes the requests of tasks that are gangs, and hands their ends back, as a
// daemon would.
func (h *host) gangs(o *launcher.Outbox) {
	w := h.net
	for _, l := range o.Tasks {
		g := l.Start.Spec.Gang
		if g.Ranks == 0 {
			continue
		}
		r := launcher.Request{
			Name: "gang", Shape: launcher.Shape{Ranks: g.Ranks, MinNodes: g.Nodes, PerRank: l.Start.Spec.Each},
			Policy: launcher.Policy{KillOnBad: true, KillWait: sec},
		}
		w.After(0, func() {
			h.input(func(out *launcher.Outbox) { h.node.Tasks.Gangs.Start(w.Now(), l.Serial, r, out) })
		})
	}
	for _, e := range o.GangEnds {
		w.After(0, func() {
			h.input(func(out *launcher.Outbox) { h.node.TaskEnds(w.Now(), []launcher.TaskEnd{e}, out) })
		})
	}
}

// ofGangs makes the tasks of a bag gangs.
func ofGangs(ranks, nodes int32) func(*mtc.Submission) {
	return func(s *mtc.Submission) { s.Spec.Gang = record.Gang{Ranks: ranks, Nodes: nodes} }
}

func TestTasksThatAreGangs(t *testing.T) {
	for _, x := range []struct {
		name         string
		ranks, nodes int32
	}{{"on their node", 3, 0}, {"larger than a node", 6, 0}, {"on two nodes", 2, 2}, {"of one rank", 1, 0}} {
		t.Run(x.name, func(t *testing.T) {
			w := newNet(t, 3, 4)
			id := w.bag("n1", 1, 6, ofGangs(x.ranks, x.nodes))
			if got := w.tally(id, 30*sec); got.OK != 6 {
				t.Errorf("the gangs ended as %+v, want 6 ok", got)
			}
			w.run(sec)
			w.quiet()
		})
	}
}

// A gang that waits is no reason to keep slots from a gang that has begun: one bag of
// gangs, of which two do not fit at a time, never ended (seed 8 of
// testbed/sim/instance, gangs).
func TestGangsKeepNoSlotsFromEachOther(t *testing.T) {
	w := newNet(t, 1, 4)
	id := w.bag("n1", 1, 4, ofGangs(3, 0))
	if got := w.tally(id, 6*sec); got.OK != 4 {
		t.Errorf("the gangs ended as %+v, want 4 ok", got)
	}
	w.quiet()
}
