package node_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/ranks"
)

// again is a job of n1 with eight ranks on other nodes that is to be started again
// when nodes are lost.
func again(w *net, detached bool) filch.JobID {
	r := gang(8)
	r.Shape.Exclude = []filch.NodeName{"n1"}
	r.Policy.Requeue, r.Policy.KillWait = true, 3*sec
	if detached {
		return w.detach("n1", 1, r)
	}
	return w.submit("n1", 1, r)
}

// onceOnly has ranks run that long and end at KILL only, and notes in wrong if an
// attempt begins while ranks of another run.
func onceOnly(w *net, wrong *string) {
	w.behave = func(k *keeper) {
		k.at, k.stubborn = 30*sec, true
		at := k.start.Launch.Ident.Attempt
		for _, name := range w.names {
			for id, o := range w.nodes[name].keepers {
				if o.running && !o.over && id.Job == k.start.Launch.Ident.Job && id.Attempt < at && *wrong == "" {
					*wrong = fmt.Sprintf("at %v attempt %d starts on %s, and ranks of attempt %d run on %s", w.Now(), at, k.host.Name, id.Attempt, name)
				}
			}
		}
	}
}

// inhabited is a node with ranks.
func (w *net) inhabited() filch.NodeName {
	for _, name := range w.names {
		if w.live(name) > 0 {
			return name
		}
	}
	w.t.Fatalf("at %v no ranks run", w.Now())
	return ""
}

// An origin that was declared dead gives its ranks elsewhere up; they may not know of
// it yet when it is back. Found by the whole-node simulator (seed 2040).
func rebornOrigin(t testing.TB) (wrong string) {
	w := newNet(t, 6, 4)
	onceOnly(w, &wrong)
	id := again(w, false)
	w.run(2 * sec)
	h := w.nodes["n1"]
	h.input(func(out *launcher.Outbox) { h.node.Peer(w.Now(), w.peer("n1", filch.Dead), out) })
	w.run(sec)
	h.cfg.Incarnation++
	h.input(func(out *launcher.Outbox) { h.node.Reborn(w.Now(), h.cfg.Incarnation, out) })
	for _, s := range []filch.Standing{filch.Dead, filch.Up} {
		for _, o := range w.names[1:] {
			h.input(func(out *launcher.Outbox) { h.node.Peer(w.Now(), w.peer(o, s), out) })
		}
	}
	w.declare("n1", filch.Up)
	w.run(100 * sec)
	if e := w.ended(id); e.Code != 0 {
		return fmt.Sprintf("the job ended %+v", e)
	}
	return wrong
}

// The launcher of a node that was declared dead is started again before its keepers
// give up, and takes their ranks back.
func TestRanksThatWereAdoptedAreWaitedFor(t *testing.T) {
	for _, detached := range []bool{false, true} {
		for _, late := range []bool{false, true} {
			w, wrong := newNet(t, 6, 4), ""
			onceOnly(w, &wrong)
			id := again(w, detached)
			w.run(2 * sec)
			lost := w.inhabited()
			w.crash(lost, false)
			w.run(5 * sec)
			w.declare(lost, filch.Dead)
			w.run(1200 * ms)
			if late {
				w.late = 2 * sec
			}
			w.restart(lost)
			since := w.Now()
			w.until("another attempt", 20*sec, func() bool {
				i, _ := w.nodes["n1"].node.Job(w.Now(), id)
				return i.Attempt == 2 && i.State == "running"
			})
			if d := w.Now() - since; d > 8*sec {
				t.Errorf("it began %v after the node was back, want it as soon as nothing of it runs there", d)
			}
			w.run(60 * sec)
			if i, _ := w.nodes["n1"].node.Job(w.Now(), id); wrong != "" || i.State != "ok" {
				t.Errorf("detached %t, late %t: ended as %s: %s", detached, late, i.State, wrong)
			}
			w.quiet()
		}
	}
}

// A node that takes a job over does not hear a node that all others hear. Its ranks wait for
// an heir, longer than for an origin that lives.
func TestRanksThatAnHeirDoesNotHearAreWaitedFor(t *testing.T) {
	for _, heals := range []bool{false, true} {
		w, wrong := newNet(t, 6, 4), ""
		onceOnly(w, &wrong)
		id := again(w, true)
		w.run(2 * sec)
		lost := w.inhabited()
		w.onSend = func(from, to filch.NodeName, m launcher.Message) {
			if _, ok := m.(*launcher.TakeOver); ok && from != to && to == lost && w.faults.cut == nil {
				w.faults.cut = func(a, b filch.NodeName) bool { return a == from && b == to || a == to && b == from }
			}
		}
		w.dies("n1")
		w.run(15 * sec)
		if w.faults.cut == nil {
			t.Fatal("nothing was cut")
		}
		if heals {
			w.faults.cut = func(_, _ filch.NodeName) bool { return false }
		}
		w.run(60 * sec)
		w.faults.cut = nil
		i := w.ends(id, 0)
		if wrong != "" {
			t.Errorf("heals %t: %s: %+v", heals, wrong, i)
		}
		w.run(30 * sec)
		w.quiet()
	}
}

// The launch has not reached all nodes when the origin dies. Who takes the job over
// cannot know whether the gate was open, and does not open it for those that wait.
func TestAnHeirDoesNotOpenTheGateForSome(t *testing.T) {
	w := newNet(t, 5, 4)
	w.behave = func(k *keeper) { k.at = 10 * sec }
	r := gang(8)
	r.Shape.Only = []filch.NodeName{"n2", "n3"}
	lost, end := 0, w.Now()+10*sec
	w.onSend = func(_, to filch.NodeName, m launcher.Message) {
		switch m.(type) {
		case *launcher.Dispatch, *launcher.TakeOver:
			if to == "n3" && w.Now() < end {
				lost++
				w.faults.cut = func(_, to filch.NodeName) bool { return to == "n3" }
				w.After(ms, func() { w.faults.cut = nil })
			}
		}
	}
	w.detach("n1", 1, r)
	w.run(sec)
	if lost == 0 || w.live("n2") != 1 {
		t.Fatal("it was not launched")
	}
	w.dies("n1")
	for range 200 {
		w.run(50 * ms)
		for _, k := range w.nodes["n2"].keepers {
			if k.running {
				t.Fatalf("at %v ranks run on n2, and n3 has not heard of the job", w.Now())
			}
		}
	}
	w.run(60 * sec)
	w.quiet()
}

// A launcher whose disk takes nothing forgets that it launched a job. The next one hears of
// that from what is left of it, from a keeper of its own or from another node, and ends
// that before the job begins again for its client, and after one more restart, too. Found
// by the whole-node simulator (seed 12102).
func TestRanksOfALaunchThatWasForgottenAreWaitedFor(t *testing.T) {
	for _, there := range []filch.NodeName{"n1", "n2"} {
		for _, twice := range []bool{false, true} {
			w, wrong := newNet(t, 4, 4), ""
			onceOnly(w, &wrong)
			busy := w.submit(there, 1, gang(4))
			w.run(100 * ms)
			r := gang(2)
			r.Shape.Only = []filch.NodeName{there}
			id := w.submit("n1", 2, r)
			w.run(100 * ms)
			n1 := w.nodes["n1"]
			disk := maps.Clone(n1.records) // takes nothing from now on
			at := w.nodes[there]
			at.input(func(out *launcher.Outbox) { at.node.Cancel(w.Now(), busy, 9, "user", out) })
			w.run(sec)
			if w.live(there) != 1 {
				t.Fatalf("%s: %d keepers live, want that of the job", there, w.live(there))
			}
			w.crash("n1", false)
			n1.records = disk
			w.restart("n1")
			w.run(ms)
			w.reattach("n1", 2, id)
			if twice {
				w.run(100 * ms)
				w.crash("n1", false)
				w.restart("n1")
				w.run(ms)
				w.reattach("n1", 2, id)
			}
			since := w.Now()
			w.until("another attempt", 20*sec, func() bool {
				i, _ := n1.node.Job(w.Now(), id)
				return i.State == "running"
			})
			if d := w.Now() - since; d > ranks.FailGrace+sec {
				t.Errorf("%s: it began %v after its client was back, want it as soon as nothing of it runs", there, d)
			}
			w.run(60 * sec)
			if e := w.ended(id); e.Code != 0 || wrong != "" {
				t.Errorf("%s, twice %t: ended %+v: %s", there, twice, e, wrong)
			}
			w.quiet()
		}
	}
}

// The client is back before the keeper of a launch that was forgotten has turned up. The
// job does not begin elsewhere meanwhile.
func TestKeepersOfALaunchThatWasForgottenAreWaitedFor(t *testing.T) {
	w, wrong := newNet(t, 2, 4), ""
	onceOnly(w, &wrong)
	busy := w.submit("n1", 1, gang(8))
	w.run(100 * ms)
	id := w.submit("n1", 2, gang(2))
	w.run(100 * ms)
	n1 := w.nodes["n1"]
	disk := maps.Clone(n1.records) // takes nothing from now on
	n1.input(func(out *launcher.Outbox) { n1.node.Cancel(w.Now(), busy, 9, "user", out) })
	w.run(sec)
	if w.live("n1") != 1 || w.live("n2") != 0 {
		t.Fatalf("%d and %d keepers live, want that of the job on n1", w.live("n1"), w.live("n2"))
	}
	w.crash("n1", false)
	n1.records, w.late = disk, 50*ms
	w.restart("n1")
	w.run(ms)
	w.reattach("n1", 2, id)
	w.run(10 * ms)
	if i, _ := n1.node.Job(w.Now(), id); !strings.Contains(i.Cause, "keepers") {
		t.Errorf("the job is %+v, want that it waits for keepers", i)
	}
	w.run(60 * sec)
	if e := w.ended(id); e.Code != 0 || wrong != "" {
		t.Errorf("ended %+v: %s", e, wrong)
	}
	w.quiet()
}

// One participant of such a launch tells of it, a keeper of the origin's own or another node,
// and another one is cut off: it is the launch that is over before the job begins again, not
// the ranks of the one that spoke. Found by the whole-node simulator (seed 20375).
func TestAllRanksOfALaunchThatWasForgottenAreWaitedFor(t *testing.T) {
	for _, speaks := range []filch.NodeName{"n1", "n2"} {
		for _, cut := range []time.Duration{2 * sec, 60 * sec} {
			wrong := allWaitedFor(t, speaks, cut)
			if wrong != "" {
				t.Errorf("%s speaks, n3 is cut off for %v: %s", speaks, cut, wrong)
			}
		}
	}
}

func allWaitedFor(t *testing.T, speaks filch.NodeName, cut time.Duration) (wrong string) {
	w := newNet(t, 3, 4)
	onceOnly(w, &wrong)
	var busy filch.JobID           // on n1
	for _, name := range w.names { // what the job takes is free on speaks and on n3
		r := gang(4)
		r.Shape.Only = []filch.NodeName{name}
		if name == speaks || name == "n3" {
			r.Shape.Ranks = 2
		}
		if id := w.submit(name, 1, r); name == "n1" {
			busy = id
		}
	}
	w.run(100 * ms)
	r := gang(4)
	r.Policy.KillWait = 3 * sec
	id := w.submit("n1", 2, r)
	n1, n3 := w.nodes["n1"], w.nodes["n3"]
	disk := maps.Clone(n1.records) // takes nothing from now on
	w.run(100 * ms)
	n1.input(func(out *launcher.Outbox) { n1.node.Cancel(w.Now(), busy, 9, "user", out) })
	w.run(sec)
	for _, name := range []filch.NodeName{speaks, "n3"} {
		if k := w.nodes[name].keepers[filch.Ident{Instance: "test", Job: id, Attempt: 1}]; k == nil || !k.running {
			t.Fatalf("the job has no ranks on %s", name)
		}
	}
	w.crash("n1", false)
	n1.records = disk
	w.faults.cut = func(from, to filch.NodeName) bool { return from == "n3" || to == "n3" }
	w.restart("n1")
	since := w.Now()
	w.run(ms)
	w.reattach("n1", 2, id)
	w.After(cut, func() {
		w.faults.cut = nil
		n1.input(func(out *launcher.Outbox) { n1.node.Peer(w.Now(), w.peer("n3", filch.Up), out) })
		n3.input(func(out *launcher.Outbox) { n3.node.Peer(w.Now(), w.peer("n1", filch.Up), out) })
	})
	w.until("another attempt", 60*sec, func() bool {
		i, _ := n1.node.Job(w.Now(), id)
		return i.State == "running"
	})
	if d, most := w.Now()-since, min(cut, ranks.JobTerm+r.Policy.KillWait)+ranks.FailGrace+sec; d > most {
		t.Errorf("%s speaks, n3 is cut off for %v: it began after %v, want %v at most", speaks, cut, d, most)
	}
	w.run(60 * sec)
	if e := w.ended(id); e.Code != 0 {
		t.Errorf("%s speaks, n3 is cut off for %v: ended %+v", speaks, cut, e)
	}
	w.quiet()
	return wrong
}

// A launcher is started again before that of the origin is, which has forgotten the launch.
// It says what it has of that as soon as it sees the origin.
func TestRanksThatTurnUpBeforeTheirOriginAreWaitedFor(t *testing.T) {
	w, wrong := newNet(t, 3, 4), ""
	onceOnly(w, &wrong)
	busy := w.submit("n1", 1, gang(4))
	w.run(100 * ms)
	r := gang(4)
	r.Shape.Exclude = []filch.NodeName{"n3"}
	id := w.submit("n1", 2, r)
	n1 := w.nodes["n1"]
	disk := maps.Clone(n1.records) // takes nothing from now on
	w.run(100 * ms)
	n1.input(func(out *launcher.Outbox) { n1.node.Cancel(w.Now(), busy, 9, "user", out) })
	w.run(sec)
	if w.live("n1") != 0 || w.live("n2") != 1 {
		t.Fatalf("%d and %d keepers live, want that of the job on n2", w.live("n1"), w.live("n2"))
	}
	w.crash("n1", false)
	n1.records = disk
	w.crash("n2", false)
	w.restart("n2")
	w.run(100 * ms)
	w.restart("n1")
	w.run(ms)
	w.reattach("n1", 2, id)
	w.run(60 * sec)
	if e := w.ended(id); e.Code != 0 || wrong != "" {
		t.Errorf("ended %+v: %s", e, wrong)
	}
	w.quiet()
}
