package node_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	. "github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/node/origin"
	"github.com/filch-hpc/filch/launcher/node/ranks"
)

// heir is a detached job of n1 with ranks on n2 and n3 that live that long.
func heir(t *testing.T, lives func(k *keeper)) (*net, filch.JobID) {
	w := newNet(t, 5, 4)
	w.behave = lives
	r := gang(8)
	r.Shape.Only = []filch.NodeName{"n2", "n3"}
	return w, w.detach("n1", 1, r)
}

// live counts the keepers of a node that have ranks.
func (w *net) live(name filch.NodeName) (n int) {
	for _, k := range w.nodes[name].keepers {
		if !k.over {
			n++
		}
	}
	return n
}

// ends waits for the end of a job as its record tells it.
func (w *net) ends(id filch.JobID, code int32) launcher.JobInfo {
	w.t.Helper()
	w.until("the end of the job", 120*sec, func() bool { i, _ := w.told(id); return i.Code != nil })
	i, _ := w.told(id)
	if *i.Code != code {
		w.t.Errorf("ended %+v with %d, want %d", i, *i.Code, code)
	}
	return i
}

// Ranks that end after their origin died, and before anybody knows that, have
// ended well for who takes the job over.
func TestEndsBeforeTheOriginIsDeclaredDead(t *testing.T) {
	w, id := heir(t, func(k *keeper) { k.at = 4 * sec })
	w.run(2 * sec)
	w.dies("n1")
	w.ends(id, 0)
	w.run(60 * sec)
	w.quiet()
}

// A node that takes a job over repeats the TakeOver until the participants answer.
func TestATakeoverIsToldAgain(t *testing.T) {
	w, id := heir(t, func(k *keeper) { k.at = 40 * sec })
	w.run(2 * sec)
	cut := false
	w.onSend = func(from, to filch.NodeName, m launcher.Message) {
		if _, ok := m.(*launcher.TakeOver); ok && !cut && to == "n3" && from != "n3" {
			cut = true
			w.faults.cut = func(a, b filch.NodeName) bool { return a == from && b == to }
			w.After(ms, func() { w.faults.cut = nil })
		}
	}
	w.dies("n1")
	w.ends(id, 0)
	if !cut {
		t.Error("nothing was lost")
	}
	w.run(20 * sec)
	w.quiet()
}

// So it is with one whose launcher was restarted and finds its keepers late.
func TestATakeoverIsToldAgainToALauncherThatIsRestarted(t *testing.T) {
	w, id := heir(t, func(k *keeper) { k.at = 60 * sec })
	w.run(2 * sec)
	w.dies("n1")
	w.run(10 * sec)
	w.crash("n3", false)
	w.run(sec)
	w.late = 2 * sec
	w.restart("n3")
	w.ends(id, 0)
	w.run(20 * sec)
	w.quiet()
}

// A participant may forget its ends only when who takes the job over knows them:
// when a record that was begun after them is kept.
func TestAParticipantIsAcknowledgedWhenTheRecordHasItsEnds(t *testing.T) {
	w, id := heir(t, func(k *keeper) {
		k.at = 4 * sec
		if k.host.Name == "n3" {
			k.at += 300 * usec
		}
	})
	w.onSend = func(from, to filch.NodeName, m launcher.Message) {
		if a, ok := m.(*launcher.ProgressAck); ok && a.Done && from == "n1" && to == "n3" && w.nodes["n1"].Up() {
			w.After(usec, func() { w.crash("n1", true) })
			w.After(5*sec, func() { w.declare("n1", filch.Dead) })
		}
	}
	w.run(20 * sec)
	w.ends(id, 0)
	w.run(60 * sec)
	w.quiet()
}

// The same where the store takes longer than a participant waits for an answer.
func TestAParticipantThatRepeatsIsNotAcknowledged(t *testing.T) {
	w, id := heir(t, func(k *keeper) { k.at = 4 * sec })
	w.run(2 * sec)
	w.faults.stores = func(from, to filch.NodeName) bool { return from == "n1" || to == "n1" }
	w.run(4 * sec)
	w.crash("n1", true)
	w.faults.stores = nil
	w.run(5 * sec)
	w.declare("n1", filch.Dead)
	w.ends(id, 0)
	w.run(60 * sec)
	w.quiet()
}

// A launcher that is restarted after another node took its job over, and gave up the
// ranks here, ends these: nobody says a word to them (as whole-node seed 131 found).
func TestRanksThatTheHeirGaveUpEnd(t *testing.T) {
	w := newNet(t, 5, 4)
	w.behave = func(k *keeper) { k.at = 1000 * sec }
	r := gang(8)
	r.Shape.Only = []filch.NodeName{"n1", "n2"}
	id := w.detach("n1", 1, r)
	w.run(2 * sec)
	w.crash("n1", false)
	w.run(5 * sec)
	w.declare("n1", filch.Dead)
	w.ends(id, filch.ExitNodeLost)
	w.restart("n1")
	w.run(sec)
	if w.live("n1") != 1 {
		t.Fatal("no ranks outlived the launcher")
	}
	w.run(ranks.JobTerm + 3*sec)
	w.quiet()
}

// A node that was lost may run its ranks on until their lease is over, also
// where the launcher of the origin is restarted, or the job taken over,
// meanwhile.
func TestALostNodeIsWaitedForOverARestart(t *testing.T) {
	for _, what := range []string{"restart", "takeover"} {
		w := newNet(t, 6, 4)
		w.behave = func(k *keeper) {
			k.at, k.stubborn = 30*sec, true
			if k.start.Launch.Ident.Attempt > 1 && w.live("n2") > 0 {
				t.Errorf("%s: at %v attempt %d starts on %s, and ranks run on n2", what, w.Now(), k.start.Launch.Ident.Attempt, k.host.Name)
			}
		}
		r := gang(1)
		r.Shape.Only, r.Shape.Exclude = nil, []filch.NodeName{"n1"}
		r.Policy.Requeue, r.Policy.KillWait = true, 3*sec
		for _, n := range []filch.NodeName{"n3", "n4", "n5", "n6"} {
			w.drain(n, "n2 is to have the rank")
		}
		id := w.detach("n1", 1, r)
		w.run(2 * sec)
		if len(w.nodes["n2"].keepers) != 1 {
			t.Fatalf("it does not run on n2")
		}
		for _, n := range []filch.NodeName{"n3", "n4", "n5", "n6"} {
			w.drain(n, "")
		}
		w.split("n2")
		w.run(sec)
		if what == "restart" {
			w.crash("n1", false)
			w.run(200 * ms)
			w.restart("n1")
			h := w.nodes["n1"]
			h.input(func(out *launcher.Outbox) { h.node.Peer(w.Now(), w.peer("n2", filch.Dead), out) })
		} else {
			w.crash("n1", true)
			w.declare("n1", filch.Dead)
		}
		w.run(25 * sec)
		w.heal("n2")
		if i := w.ends(id, 0); i.Attempt < 2 {
			t.Errorf("%s: ended %+v, want another attempt", what, i)
		}
		w.run(30 * sec)
		w.quiet()
	}
}

// A node that was declared dead while a job of it waits for another lost one
// begins that once; the others have recorded meanwhile that the job is lost.
func TestAJobThatWaitsForALostNodeBeginsOnce(t *testing.T) {
	w := newNet(t, 4, 4)
	w.behave = func(k *keeper) { k.at, k.stubborn = 20*sec, true }
	r := gang(8)
	r.Shape.Exclude = []filch.NodeName{"n1"}
	r.Policy.Requeue = true
	w.submit("n1", 1, r)
	w.run(2 * sec)
	var lost filch.NodeName
	for _, n := range []filch.NodeName{"n2", "n3", "n4"} {
		if len(w.nodes[n].keepers) > 0 {
			lost = n
		}
	}
	w.dies(lost)
	w.run(4 * sec)
	h := w.nodes["n1"]
	w.declare("n1", filch.Dead)
	w.heal("n1")
	h.input(func(out *launcher.Outbox) { h.node.Peer(w.Now(), w.peer(lost, filch.Dead), out) })
	w.run(60 * sec)
	w.run(30 * sec)
	w.quiet()
}

// What a job is to be started with stays as long as another node decides about it.
func TestTheOrderStaysWithTheNewOwner(t *testing.T) {
	w := newNet(t, 7, 4)
	w.behave = func(k *keeper) { k.at = 60 * sec }
	for i, n := range w.names {
		r := gang(4)
		r.Shape.Only = []filch.NodeName{n}
		w.submit(n, launcher.ClientID(50+i), r)
	}
	r := gang(4)
	r.Shape.Exclude = []filch.NodeName{"n1"}
	r.Order = []byte("order")
	id := w.detach("n1", 1, r)
	w.run(2 * sec)
	w.split("n1")
	w.run(2 * sec)
	n1 := w.nodes["n1"]
	n1.input(func(out *launcher.Outbox) { n1.node.Cancel(w.Now(), id, 0, "user", out) })
	w.run(5 * sec)
	w.heal("n1")
	w.run(10 * sec)
	i, _ := w.told(id)
	if i.Hop != 1 || i.Origin == "n1" {
		t.Fatalf("got %+v, want it taken over", i)
	}
	w.dies(i.Origin)
	w.until("the end of the job", 200*sec, func() bool { i, _ := w.told(id); return i.Code != nil })
	if i, _ = w.told(id); *i.Code != 0 {
		t.Errorf("ended %+v with %d, want 0", i, *i.Code)
	}
}

// A record that can never be kept ends its job, and somebody says so.
func TestAJobWhoseRecordIsTooLargeIsRefused(t *testing.T) {
	w := newNet(t, 3, 4)
	var name strings.Builder
	for range 600 << 10 {
		name.WriteByte(byte(' ' + w.pick(90)))
	}
	r := gang(1)
	r.Detach, r.Name = true, name.String()
	w.submit("n1", 1, r)
	w.run(10 * sec)
	if !slices.ContainsFunc(w.replies, func(s string) bool { return strings.Contains(s, "Refused") }) {
		t.Errorf("%d events, and no refusal", len(w.replies))
	}
	w.quiet()
}

// A cancel that was recorded since the owner of the job did not answer at that
// moment reaches it when it is there again.
func TestACancelInTheRecordReachesItsOwner(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w, id := heir(t, func(k *keeper) { k.at = 1000 * sec })
		w.run(2 * sec)
		n1, n5 := w.nodes["n1"], w.nodes["n5"]
		if restart {
			w.crash("n1", false)
		} else {
			n1.Pause(filch.Never)
		}
		said := false
		n5.input(func(out *launcher.Outbox) {
			n5.node.CancelJob(w.Now(), id, 0, "user", 5*sec, func(e *launcher.JobEntry, why *filch.Error) { said = e != nil && why == nil }, out)
		})
		w.run(2 * sec)
		if restart {
			w.restart("n1")
		} else {
			n1.Resume()
		}
		w.run(4 * sec)
		if !said {
			t.Fatal("the cancel was not recorded")
		}
		w.ends(id, 143)
		w.run(20 * sec)
		w.quiet()
	}
}

// A claim of who had a job before it was taken over, with the same number of the
// attempt, says nothing of who has it now.
func TestAClaimOfAnOwnerBeforeIsNotTakenForOnesOwn(t *testing.T) {
	w := newNet(t, 2, 4)
	h := w.nodes["n1"]
	var grants []*launcher.Grant
	w.onSend = func(from, to filch.NodeName, m launcher.Message) {
		if g, ok := m.(*launcher.Grant); ok {
			grants = append(grants, g)
		}
	}
	ask := func(from filch.NodeName, round uint32) {
		h.input(func(out *launcher.Outbox) {
			h.node.Message(w.Now(), from, &launcher.Ask{
				Job: 7, Attempt: 2, Ticket: filch.Ticket{UnixNS: 1, Job: 7}, Incarnation: 1,
				Each: filch.Room{Slots: 1}, Want: 4, Wait: true, Round: round,
			}, out)
		})
	}
	w.submit("n1", 1, gang(4)) // it takes all of n1 for a second
	w.run(100 * ms)
	ask("n3", 5) // who had the job, and is not known to be dead here
	ask("n2", 3) // who has it now
	h.input(func(out *launcher.Outbox) {
		h.node.Peer(w.Now(), Peer{Name: "n3", Incarnation: 1, Standing: filch.Up}, out)
	})
	h.input(func(out *launcher.Outbox) {
		h.node.Peer(w.Now(), Peer{Name: "n3", Incarnation: 1, Standing: filch.Dead}, out)
	})
	if s := h.node.Slots(); s.Waiting != 1 {
		t.Errorf("%d jobs wait, want the one of n2", s.Waiting)
	}
}

// A job that was started again as often as is allowed is not, however often the
// launcher of its origin was restarted, or it was taken over.
func TestAttemptsAreCountedOverRestarts(t *testing.T) {
	w := newNet(t, 5, 4)
	w.behave = func(k *keeper) { k.at = 1000 * sec }
	r := gang(1)
	r.Policy.Requeue = true
	r.Shape.Exclude = []filch.NodeName{"n1"}
	id := w.detach("n1", 1, r)
	w.run(sec)
	for range origin.MaxAttempts + 1 {
		w.crash("n1", false)
		w.restart("n1")
		w.run(sec)
		for _, name := range w.names {
			if w.live(name) > 0 {
				w.dies(name)
				w.run(20 * sec)
				w.restart(name)
				w.run(2 * sec)
				break
			}
		}
	}
	if i := w.ends(id, filch.ExitNodeLost); i.Attempt > origin.MaxAttempts {
		t.Errorf("ended %+v", i)
	}
}

// A node that gave a job up for another node says nothing more about it: not that it is
// over, and not that its ends are known.
func TestANodeThatHandedAJobOverAnswersNothingForTheJob(t *testing.T) {
	w, id := heir(t, func(k *keeper) {
		k.at = 4 * sec
		if k.host.Name == "n3" {
			k.at = 20 * sec
		}
	})
	w.until("the ranks to be nearly over", 10*sec, func() bool { return w.live("n2") > 0 })
	w.run(3500 * ms)
	h := w.nodes["n1"]
	h.input(func(out *launcher.Outbox) { h.node.Peer(w.Now(), w.peer("n1", filch.Dead), out) })
	w.run(2 * sec)
	w.crash("n1", true)
	w.declare("n1", filch.Left)
	w.ends(id, 0)
	w.run(60 * sec)
	w.quiet()
}

// A node that is cut off launches a detached job of its own on itself, and waits for
// the record. Meanwhile it is declared dead, and another node takes the job over: the
// slots are free again. Found by the whole-node simulator (seed 122).
func TestALaunchThatWaitedGivesItsSlotsBack(t *testing.T) {
	w := newNet(t, 5, 4)
	w.behave = func(k *keeper) { k.at = 12 * sec }
	first := gang(4)
	first.Shape.Only = []filch.NodeName{"n1"}
	w.submit("n1", 1, first)
	var others []filch.JobID
	for _, name := range w.names[1:] {
		r := gang(4)
		r.Shape.Only = []filch.NodeName{name}
		others = append(others, w.submit(name, 1, r))
	}
	w.run(sec)
	id := w.detach("n1", 2, gang(4))
	w.run(3 * sec)
	w.split("n1")
	w.run(9 * sec)
	if i, _ := w.nodes["n1"].node.Job(w.Now(), id); i.State == "waiting" {
		t.Fatalf("the job is %s on n1, want its launch to wait for the record", i.State)
	}
	w.heal("n1")
	w.run(60 * sec)
	for _, o := range others {
		if e := w.ended(o); e.Code != 0 {
			t.Errorf("job %d ended %+v", o, e)
		}
	}
	w.quiet()
}
