package node_test

import (
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/ranks"
	"github.com/filch-hpc/filch/launcher/node/records"
)

// loseOwner turns n1 off, which decides about eight jobs that run on n2 and n3. The
// others have not been told.
func (w *net) loseOwner() (jobs []filch.JobID) {
	for i := range 8 {
		r := gang(1)
		r.Shape.Only = []filch.NodeName{w.names[1+i%2]}
		jobs = append(jobs, w.detach("n1", 1, r))
	}
	w.run(2 * sec)
	w.crash("n1", true)
	w.run(5 * sec)
	return jobs
}

// The home of a record asks the store for the job of a dead node, and the store
// takes longer than its own wait: a replica is silent, and not declared dead. Then
// the dead node is back, so that nobody asks again, and the replica acknowledges
// what it was sent. Now the record names the heir, so the heir has to hear of that,
// or nobody goes on with the job (seeds 360 and 914 of testbed/sim/instance).
func TestAnHeirWaitsForASlowStore(t *testing.T) {
	w := newNet(t, 5, 4)
	w.behave = func(k *keeper) { k.at = 15 * sec }
	jobs := w.loseOwner()
	w.faults.cut = func(from, to filch.NodeName) bool { return (from == "n4") != (to == "n4") }
	w.declare("n1", filch.Dead)
	w.run(records.StoreWait - sec)
	w.restart("n1")
	w.run(2 * sec)
	w.faults.cut = nil
	w.run(5 * sec)
	taken := 0
	for _, id := range jobs {
		if i, _ := w.told(id); i.Hop > 0 {
			taken++
		}
	}
	if taken == 0 {
		t.Error("no job was taken over")
	}
	for _, id := range jobs {
		w.ends(id, 0)
	}
	w.run(20 * sec)
	w.quiet()
}

// A cancel is on its way into the record of a job of a dead node when the heir reads
// that record, and comes into it just before the heir does. So the store answers the
// heir with the cancel, and the heir has the job all the same.
func TestAnHeirHearsOfACancelThatCameFirst(t *testing.T) {
	w := newNet(t, 5, 4)
	w.behave = func(k *keeper) { k.at = 1000 * sec }
	jobs := w.loseOwner()
	w.faults.cut = func(from, to filch.NodeName) bool { return (from == "n4") != (to == "n4") }
	said := 0
	n5 := w.nodes["n5"]
	for _, id := range jobs {
		n5.input(func(out *launcher.Outbox) {
			n5.node.CancelJob(w.Now(), id, 0, "user", 20*sec, func(e *launcher.JobEntry, why *filch.Error) { said++ }, out)
		})
	}
	w.run(50 * ms)
	at := said
	w.declare("n1", filch.Dead)
	w.run(2 * sec)
	w.faults.cut = nil
	w.run(5 * sec)
	if at == len(jobs) || said != len(jobs) {
		t.Errorf("%d of %d cancels were recorded before n1 was declared dead, %d in all; want some after it, and all", at, len(jobs), said)
	}
	for _, id := range jobs {
		w.ends(id, 143)
	}
	w.run(20 * sec)
	w.quiet()
}

// The launcher of who took a job over is started again: it goes on with the ranks that
// run, and knows of those whose ends only the record has.
func TestAnHeirThatIsRestartedGoesOn(t *testing.T) {
	w, wrong := newNet(t, 6, 4), ""
	onceOnly(w, &wrong)
	behave := w.behave
	w.behave = func(k *keeper) {
		behave(k)
		if k.host.Name == "n2" {
			k.at = 4 * sec
		}
	}
	r := gang(8)
	r.Shape.Exclude = []filch.NodeName{"n1", "n4", "n5", "n6"}
	id := w.detach("n1", 1, r)
	w.run(6 * sec)
	if w.live("n2") > 0 || w.live("n3") != 1 {
		t.Fatal("want the ranks of n2 to have ended, and those of n3 to run")
	}
	w.dies("n1")
	w.run(2 * sec)
	i, _ := w.told(id)
	if i.Hop != 1 {
		t.Fatalf("got %+v, want it taken over", i)
	}
	w.crash(i.Origin, false)
	w.run(500 * ms)
	w.restart(i.Origin)
	if i = w.ends(id, 0); i.Attempt != 1 || wrong != "" {
		t.Errorf("ended %+v, want the first attempt to end: %s", i, wrong)
	}
	w.run(30 * sec)
	w.quiet()
}

// A node that was restarted has no ranks left of a job, and the node where that was
// submitted dies before it hears so. Who takes the job over hears it, and does not wait for
// those ranks. Found by the whole-node simulator (seed 2832).
func TestAnHeirHearsWhereNoRanksAreLeft(t *testing.T) {
	w := newNet(t, 5, 4)
	w.behave = func(k *keeper) { k.at = 20 * sec }
	r := gang(8)
	r.Shape.Only = []filch.NodeName{"n2", "n3"}
	id := w.detach("n1", 1, r)
	w.run(sec)
	w.split("n1")
	w.crash("n2", true)
	w.run(100 * ms)
	w.restart("n2")
	w.run(ranks.AdoptGrace + 100*ms)
	w.crash("n1", true)
	w.declare("n1", filch.Dead)
	w.until("the job to be over", 2*sec, func() bool {
		i, ok := w.told(id)
		return ok && i.Code != nil
	})
	if i, _ := w.told(id); i.State != "lost" {
		t.Errorf("ended as %s, want lost", i.State)
	}
}
