package node_test

import (
	"fmt"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/ranks"
	"github.com/filch-hpc/filch/launcher/node/records"
)

// The end of a detached job that was told, and is on the disk, is recorded by the next
// launcher, if the store had not taken it when this one died. Without that the home of
// the record takes the job over, and it is run once more (seed 73 of
// testbed/sim/instance, owners).
func TestAnEndThatWasToldIsRecordedByTheNextLauncher(t *testing.T) {
	w := newNet(t, 5, 4)
	w.behave = func(k *keeper) { k.at = sec }
	r := gang(2)
	r.Shape.Only = []filch.NodeName{"n1"}
	ran := w.detach("n1", 1, r)
	r.Shape.Only = []filch.NodeName{"n2"}
	r.Shape.Ranks = 4
	busy := w.submit("n2", 2, r)
	waits := w.detach("n1", 3, r)
	w.faults.stores = func(from, to filch.NodeName) bool { return from == "n1" || to == "n1" }
	n1 := w.nodes["n1"]
	n1.input(func(out *launcher.Outbox) { n1.node.Cancel(w.Now(), waits, 0, "user", out) })
	w.run(1500 * ms)
	for id, code := range map[filch.JobID]int32{ran: 0, waits: filch.ExitCancelled, busy: 0} {
		if e := w.ended(id); e.Code != code {
			t.Fatalf("job %d ended %+v, want %d", id, e, code)
		}
	}
	for _, id := range []filch.JobID{ran, waits} {
		if i, ok := w.told(id); !ok || i.Code != nil {
			t.Fatalf("job %d is recorded as %+v, %v; want that its end is not", id, i, ok)
		}
	}
	w.crash("n1", true)
	w.declare("n1", filch.Gone)
	w.faults.stores = nil
	w.run(sec)
	w.restart("n1")
	w.run(records.ReclaimGrace + 10*sec)
	for id, code := range map[filch.JobID]int32{ran: 0, waits: filch.ExitCancelled} {
		if i := w.ends(id, code); i.Attempt != 1 || i.Hop != 0 {
			t.Errorf("job %d ended as attempt %d of hop %d, want the one that was told", id, i.Attempt, i.Hop)
		}
	}
	w.quiet()
}

// Once recorded, it is not recorded again: what was dropped since would be back.
func TestAnEndIsRecordedOnce(t *testing.T) {
	w := newNet(t, 5, 4)
	id := w.detach("n1", 1, gang(2))
	w.run(5 * sec)
	w.ends(id, 0)
	for _, name := range w.names {
		h := w.nodes[name]
		h.input(func(out *launcher.Outbox) { h.node.DropOldest(w.Now(), out) })
	}
	w.run(sec)
	w.crash("n1", true)
	w.restart("n1")
	w.run(5 * sec)
	if i, ok := w.told(id); ok {
		t.Errorf("the record that was dropped is back: %+v", i)
	}
	w.quiet()
}

// The launcher of an attached job is away for so long that the others take its node for
// dead, and record the job as lost. Its ranks were kept, and end well as soon as it is
// back. The end that the record has is the one that the client hears when it dials
// again, from the next launcher, too. Found by the whole-node simulator (seed 12978).
func TestAnEndThatTheRecordContradictsIsNotForgotten(t *testing.T) {
	for _, twice := range []bool{false, true} {
		w := newNet(t, 4, 4)
		w.behave = func(k *keeper) { k.at = 2 * sec }
		id := w.submit("n1", 1, gang(2))
		w.run(sec)
		w.crash("n1", false)
		w.run(100 * ms)
		w.declare("n1", filch.Dead)
		w.run(2 * sec)
		if i, ok := w.told(id); !ok || i.State != "lost" {
			t.Fatalf("the record says %+v, %t; want lost", i, ok)
		}
		w.restart("n1")
		w.run(500 * ms)
		if twice {
			w.crash("n1", true)
			w.restart("n1")
			w.run(200 * ms)
		}
		w.reattach("n1", 2, id)
		w.run(500 * ms)
		var last launcher.Event
		for _, e := range w.events[id] {
			last = e
		}
		if e, ok := last.(launcher.Ended); !ok || e.State != filch.Lost {
			t.Errorf("twice %t: the client heard %+v, want that the job was lost", twice, last)
		}
	}
}

// The launcher of such a job died when it had recorded that the job fails, and before it
// told its own keeper. The next one ends the job before that keeper turns up, and learns
// before it says so again that the job was lost. The ranks that turned up end all the
// same: they wait for no word of another node, so nobody else would end them. Found by the
// whole-node simulator (seed 1624).
func TestRanksThatTurnUpLateEndWithAJobThatWasLost(t *testing.T) {
	w := newNet(t, 4, 4)
	w.behave = func(k *keeper) { k.at = 60 * sec }
	id := w.submit("n1", 1, gang(8))
	w.run(sec)
	n1 := w.nodes["n1"]
	w.crash("n1", false)
	key := fmt.Sprintf("job/%d", id)
	fails := *n1.records[key].Job
	fails.Cause, fails.Code = launcher.Cause{Kind: launcher.CauseNotFound, Rank: -1, Node: "n2", Text: "planned"}, filch.ExitNotFound
	n1.records[key] = launcher.Record{Key: key, Job: &fails}
	w.run(100 * ms)
	w.declare("n1", filch.Dead)
	w.run(2 * sec)
	if i, ok := w.told(id); !ok || i.State != "lost" {
		t.Fatalf("the record says %+v, %t; want lost", i, ok)
	}
	w.restart("n1")
	w.run(ranks.FailGrace + sec)
	if k := w.live("n1"); k > 0 {
		t.Errorf("%d keepers run on n1, and the job is over", k)
	}
	w.quiet()
}
