package node_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/origin"
)

// A client that dials again while the launcher that was restarted stands still is heard
// when that goes on, however late (seed 277 of testbed/sim/instance, rejoins).
func TestAClientIsHeardAfterAPause(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 3 * sec }
	first := w.submit("n1", 1, gang(8))
	second := w.submit("n1", 2, gang(8))
	w.run(500 * ms)
	w.crash("n1", false)
	w.restart("n1")
	n1 := w.nodes["n1"]
	w.run(ms)
	n1.Pause(filch.Never)
	w.run(origin.ReclaimWait + 2*sec)
	n1.tick() // what is due comes first
	w.reattach("n1", 2, second)
	w.reattach("n1", 1, first)
	n1.Resume()
	w.run(20 * sec)
	for _, id := range []filch.JobID{first, second} {
		if e := w.ended(id); e.Code != 0 {
			t.Errorf("job %d ended %+v, want 0", id, e)
		}
	}
	w.quiet()
}

// A job that waited when its launcher died begins when its client is back. It may have
// run since the disk was full, and the client may know how it ended: nobody is there to
// want it again (seed 77 of testbed/sim/instance, restarts).
func TestAJobBeginsAgainOnlyForItsClient(t *testing.T) {
	for _, back := range []bool{false, true} {
		w := newNet(t, 2, 4)
		w.behave = func(k *keeper) { k.at = sec }
		first := w.submit("n1", 1, gang(8))
		r := gang(2)
		r.Shape.Only = []filch.NodeName{"n1"}
		id := w.submit("n1", 2, r)
		w.run(500 * ms)
		n1 := w.nodes["n1"]
		w.faults.stores = func(from, to filch.NodeName) bool { return true }
		full := map[string]launcher.Record{} // what the disk still says
		maps.Copy(full, n1.records)
		w.run(2 * sec)
		for _, id := range []filch.JobID{first, id} {
			if e := w.ended(id); e.Code != 0 {
				t.Fatalf("job %d ended %+v, want 0", id, e)
			}
		}
		starts := 0
		w.behave = func(k *keeper) { k.at, starts = sec, starts+1 }
		n1.records = full
		w.crash("n1", true)
		w.restart("n1")
		w.run(sec)
		if i, ok := n1.node.Job(w.Now(), id); !ok || !strings.Contains(i.Cause, "waits for its client") {
			t.Errorf("the job is %+v, want that it waits for its client", i)
		}
		if back {
			w.reattach("n1", 2, id)
		}
		w.run(origin.ReadoptWait + origin.ReclaimWait + 5*sec)
		if (starts > 0) != back {
			t.Errorf("client back %v: ranks were started %d times", back, starts)
		}
		w.quiet()
	}
}

// So does one whose launch was recorded and failed behind the gate: what is there of it
// may be what is left of a run that ended. Before, it gathered at once, and once more
// when its client was back (seed 10708 of testbed/sim/instance).
func TestAJobThatFailedBehindTheGateBeginsAgainOnlyForItsClient(t *testing.T) {
	for _, back := range []bool{false, true} {
		w := newNet(t, 2, 4)
		w.every = 1
		w.onSend = func(_, to filch.NodeName, m launcher.Message) {
			if d, ok := m.(*launcher.Dispatch); ok && d.Launch.Ident.Attempt == 1 {
				w.faults.cut = func(from, to filch.NodeName) bool { return from != to }
			}
		}
		id := w.submit("n1", 1, gang(8))
		w.run(100 * ms)
		w.crash("n1", false)
		w.onSend, w.faults.cut = nil, nil
		r := gang(4)
		r.Shape.Only = []filch.NodeName{"n2"}
		w.submit("n2", 2, r) // so that the job cannot begin at once
		starts := 0
		w.behave = func(k *keeper) {
			k.at = sec
			if k.start.Launch.Ident.Job == id {
				starts++
			}
		}
		w.restart("n1")
		w.run(700 * ms)
		n1 := w.nodes["n1"].node
		if i, ok := n1.Job(w.Now(), id); !ok || !strings.Contains(i.Cause, "waits for its client") {
			t.Errorf("the job is %+v, want that it waits for its client", i)
		}
		if back {
			w.reattach("n1", 1, id)
		}
		w.run(origin.ReclaimWait + 5*sec)
		if (starts > 0) != back {
			t.Errorf("client back %v: ranks were started %d times", back, starts)
		}
		if back && w.ended(id).Code != 0 {
			t.Errorf("the job ended %+v, want 0", w.ended(id))
		}
		w.quiet()
	}
}
