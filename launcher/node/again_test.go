package node_test

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/slots"
)

// again restarts the launcher of a job's origin, and its client comes back.
func (w *net) again(name filch.NodeName, id filch.JobID) {
	w.crash(name, false)
	w.run(sec)
	w.restart(name)
	w.reattach(name, 1, id)
}

// The limits of a job hold over a restart of its origin's launcher.
func TestLimitsHoldOverARestart(t *testing.T) {
	for _, c := range []struct {
		name  string
		prep  func(*launcher.Request)
		where filch.NodeName // whose ranks are other than those of n1
		life  func(k *keeper)
		at    int // of the restart, in seconds
		by    int // it has ended
		code  int32
	}{
		{"time-limit", func(r *launcher.Request) { r.Policy.TimeLimit = 20 * sec }, "", nil, 15, 24, 124},
		{"wait-first", func(r *launcher.Request) { r.Policy.WaitFirst, r.Policy.KillOnBad = 10*sec, false }, "n2", func(k *keeper) { k.at = 2 * sec }, 5, 20, 1},
		{"not-ready", func(*launcher.Request) {}, "n2", func(k *keeper) { k.deaf = true }, 5, 70, 125},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNet(t, 2, 4)
			w.behave = func(k *keeper) {
				k.at = 1000 * sec
				if k.host.Name == c.where {
					c.life(k)
				}
			}
			r := gang(8)
			c.prep(&r)
			id := w.submit("n1", 1, r)
			for int(w.age()/sec) < c.at {
				w.run(sec)
			}
			w.again("n1", id)
			for int(w.age()/sec) < c.by {
				w.run(sec)
			}
			if e := w.ended(id); e.Code != c.code {
				t.Errorf("ended %+v, want %d", e, c.code)
			}
		})
	}
}

// A job that may wait for so long only (-I) does not wait longer.
func TestPatienceHoldsOverARestart(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 1000 * sec }
	w.submit("n2", 7, gang(8))
	w.run(sec)
	r := gang(4)
	r.Patient = 10 * sec
	id := w.submit("n1", 1, r)
	w.run(5 * sec)
	w.again("n1", id)
	w.run(12 * sec)
	if last := w.replies[len(w.replies)-1]; !strings.Contains(last, "Refused") {
		t.Errorf("heard %q, want a refusal", last)
	}
}

// A launcher that was restarted and has not found its keepers yet does not say
// that there are none.
func TestAJobIsNotOverWhileKeepersMayTurnUp(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 100 * sec }
	id := w.submit("n1", 1, gang(8))
	w.run(sec)
	w.crash("n2", false)
	w.run(100 * ms)
	w.late = 2 * sec
	w.restart("n2")
	w.run(10 * ms)
	h := w.nodes["n1"]
	h.input(func(out *launcher.Outbox) { h.node.Cancel(w.Now(), id, 0, "user", out) })
	w.run(sec)
	for _, e := range w.events[id] {
		if _, over := e.(launcher.Ended); over && w.live("n2") > 0 {
			t.Errorf("the job has ended, and ranks of it run on n2")
		}
	}
	w.run(5 * sec)
	if e := w.ended(id); e.Code != 143 {
		t.Errorf("ended %+v, want 143", e)
	}
	w.run(5 * sec)
	w.quiet()
}

// Nor does it refuse a launch that it may have begun: the job would run twice.
func TestALaunchIsNotRefusedWhileKeepersMayTurnUp(t *testing.T) {
	for _, keepers := range []bool{false, true} { // that die too
		w := newNet(t, 3, 4)
		starts := 0
		w.behave = func(k *keeper) {
			k.at = 20 * sec
			if starts++; starts == 1 {
				w.After(usec, func() { w.crash("n2", keepers) })
			}
		}
		w.faults.cut = func(from, _ filch.NodeName) bool { return from == "n2" && starts > 0 && !w.nodes["n2"].Up() }
		w.late = 2 * sec
		r := gang(1)
		r.Shape.Only = []filch.NodeName{"n2"}
		id := w.submit("n1", 1, r)
		w.run(100 * ms)
		if w.nodes["n2"].Up() || starts != 1 {
			t.Fatalf("%d starts", starts)
		}
		for _, k := range w.nodes["n2"].keepers {
			k.running = true
			w.After(20*sec, func() { k.finish(k.planned(), 0) })
		}
		w.restart("n2")
		w.run(40 * sec)
		want := int32(0)
		if keepers {
			want = filch.ExitNodeLost
		}
		if e := w.ended(id); e.Code != want || starts != 1 {
			t.Errorf("ended %+v after %d starts, want %d after 1", e, starts, want)
		}
		w.run(5 * sec)
		w.quiet()
	}
}

// Ranks that were ended by their launcher before it was lost count once.
func TestALostNodeCountsItsRanksOnce(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 5 * sec }
	r := gang(8)
	r.Policy.NoKill = true
	id := w.submit("n1", 1, r)
	w.run(sec)
	for ident, k := range w.nodes["n2"].keepers {
		ends := k.planned()
		for i := range ends {
			ends[i].Kind, ends[i].Code, ends[i].Told = launcher.CauseSignal, 9, true
		}
		k.over, k.ended = true, ends
		k.say(launcher.RanksEnded{Ident: ident, Ends: ends})
		k.say(launcher.KeeperDone{Ident: ident})
	}
	w.run(10 * sec)
	i, _ := w.nodes["n1"].node.Job(w.Now(), id)
	if n := i.Tasks; n.OK != 4 || n.OK+n.Failed+n.Killed+n.Lost != 8 || n.Lost < 0 || n.Skipped != 0 {
		t.Errorf("counts %+v, want 8 in all", n)
	}
	w.quiet()
}

// A node that comes back larger is asked for all that it has now.
func TestANodeThatComesBackLarger(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at = 1000 * sec }
	big := w.nodes["n3"]
	grow := func(n int32) {
		big.cfg.Capacity = slots.Capacity{Slots: n, MemBytes: 64 << 30}
		w.crash("n3", true)
		w.declare("n3", filch.Dead)
		w.restart("n3")
		w.run(sec)
	}
	grow(8)
	first := gang(8)
	first.Shape.Only = []filch.NodeName{"n3"}
	w.submit("n1", 7, first)
	w.run(sec)
	r := gang(8)
	r.Shape.MaxNodes = 1
	id := w.submit("n1", 1, r)
	w.run(10 * sec)
	w.nodes["n2"].cfg.Capacity = slots.Capacity{Slots: 8, MemBytes: 64 << 30}
	w.crash("n2", true)
	w.declare("n2", filch.Dead)
	w.restart("n2")
	w.run(40 * sec)
	if i, _ := w.nodes["n1"].node.Job(w.Now(), id); i.State != "running" {
		t.Errorf("the job is %s (%s), and n2 is free", i.State, i.Cause)
	}
}

// A place on a wait list whose release was lost keeps nobody else waiting.
func TestAPlaceWhoseReleaseWasLost(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 1000 * sec }
	r := gang(1)
	r.Shape.Only = []filch.NodeName{"n2"}
	w.submit("n2", 7, r)
	w.run(sec)
	r.Shape.PerRank.Slots = 4
	over := w.submit("n1", 1, r)
	w.run(sec)
	w.faults.cut = func(from, to filch.NodeName) bool { return true }
	h := w.nodes["n1"]
	h.input(func(out *launcher.Outbox) { h.node.Cancel(w.Now(), over, 0, "user", out) })
	w.run(sec)
	w.faults.cut = nil
	small := gang(3)
	small.Shape.Only = r.Shape.Only
	id := w.submit("n2", 8, small)
	w.run(30 * sec)
	if i, _ := w.nodes["n2"].node.Job(w.Now(), id); i.State != "running" {
		t.Errorf("the job is %s (%s), and there is room", i.State, i.Cause)
	}
}

// Steps that run go on using what they have when the launcher of their parent's
// origin is restarted: others wait for them.
func TestAStepWaitsForItsSiblingsOverARestart(t *testing.T) {
	w, parent := stepWorld(t)
	w.behave = func(k *keeper) { k.at = 20 * sec }
	a := w.submit("n2", 2, step(parent, 8))
	w.run(sec)
	w.again("n1", parent)
	w.run(sec)
	b := w.submit("n2", 3, step(parent, 8))
	w.run(50 * sec)
	for _, id := range []filch.JobID{a, b} {
		if e := w.ended(id); e.Code != 0 {
			t.Errorf("ended %+v, want 0", e)
		}
	}
}

// Only launches count as starts: a run that waits over a restart of its origin, or gathers anew
// since nodes went, was not started, and its program must not look for files of an earlier start.
func TestStartsAreLaunches(t *testing.T) {
	for _, detach := range []bool{false, true} {
		w := newNet(t, 3, 4)
		w.behave = func(k *keeper) { k.at = 20 * sec }
		w.submit("n2", 1, gang(12))
		w.run(sec)
		r := gang(12)
		r.Policy.Requeue, r.Detach = true, detach
		id := w.submitLate("n1", 1, r)
		w.run(sec)
		w.again("n1", id)
		w.run(sec)
		w.declare("n3", filch.Dead)
		w.run(sec)
		w.declare("n3", filch.Up)
		var seen []filch.Attempt
		w.behave = func(k *keeper) {
			k.at = 20 * sec
			if l := &k.start.Launch; l.Ident.Job == id && k.start.Index == 0 {
				seen = append(seen, l.Try())
				if l.Ident.Attempt == 1 {
					t.Errorf("detached %t: the leases from before the restart are used", detach)
				}
			}
		}
		w.until("the run to start", 90*sec, func() bool { return len(seen) > 0 })
		w.run(2 * sec)
		if i, _ := w.nodes["n1"].node.Job(w.Now(), id); i.Attempt != 1 {
			t.Errorf("detached %t: the state names attempt %d, want 1", detach, i.Attempt)
		}
		w.crash("n3", true)
		w.declare("n3", filch.Dead)
		w.run(5 * sec)
		w.restart("n3")
		w.declare("n3", filch.Up)
		w.until("the run to start again", 90*sec, func() bool { return len(seen) > 1 })
		if len(seen) != 2 || seen[0] != 1 || seen[1] != 2 {
			t.Errorf("detached %t: the starts are %v, want 1 and 2", detach, seen)
		}
	}
}
