package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/ranks"
)

// bad makes the first rank of node n2 end like that.
func bad(e launcher.RankEnd) func(*keeper) {
	return func(k *keeper) {
		k.at, k.stubborn = 5*sec, true
		if k.host.Name == "n2" {
			e.Rank = k.start.Launch.Nodes[k.start.Index].Ranks[0].First
			k.ends = []launcher.RankEnd{e}
		}
	}
}

// Eight ranks on two nodes; one rank on n2 ends badly 2.5 s after the start.
// The rest ignores TERM; all must be gone within 2 s all the same.
func TestFirstCauseDecidesTheCode(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   launcher.RankEnd
		code  int32
		state filch.State
		text  string
	}{
		{"exit", launcher.RankEnd{Kind: launcher.CauseExit, Code: 3}, 3, filch.Failed, "exited with code 3"},
		{"signal", launcher.RankEnd{Kind: launcher.CauseSignal, Code: 11}, 139, filch.Failed, "killed by SIGSEGV"},
		{"core", launcher.RankEnd{Kind: launcher.CauseSignal, Code: 6, Core: true}, 134, filch.Failed, "killed by SIGABRT (core dumped)"},
		{"oom", launcher.RankEnd{Kind: launcher.CauseOOM}, 137, filch.Killed, "out of memory"},
		{"abort", launcher.RankEnd{Kind: launcher.CauseAbort, Code: 42}, 42, filch.Failed, "MPI_Abort with code 42"},
		{"abort-256", launcher.RankEnd{Kind: launcher.CauseAbort, Code: 511}, 255, filch.Failed, "MPI_Abort"},
		{"no-finalize", launcher.RankEnd{Kind: launcher.CauseNoFinalize}, 1, filch.Failed, "without MPI_Finalize"},
		{"protocol", launcher.RankEnd{Kind: launcher.CauseProtocol}, 1, filch.Failed, "PMI protocol"},
		{"not-exec", launcher.RankEnd{Kind: launcher.CauseNotExec}, 126, filch.Failed, "cannot be executed"},
		{"not-found", launcher.RankEnd{Kind: launcher.CauseNotFound}, 127, filch.Failed, "not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNet(t, 2, 4)
			w.behave = bad(c.end)
			id := w.submit("n1", 1, gang(8))
			w.run(2500*ms + 2*sec)
			e := w.ended(id)
			if e.Code != c.code || e.State != c.state || !strings.Contains(e.Cause.Text, c.text) {
				t.Errorf("ended %s %d %q, want %s %d %q", e.State, e.Code, e.Cause.Text, c.state, c.code, c.text)
			}
			if e.Cause.Node != "n2" || e.Cause.Rank != 4 || len(e.Ranks) != 1 || e.Bad != 8 {
				t.Errorf("ended %+v, want the cause to be rank 4 on n2, and 8 bad ends", e)
			}
			w.quiet()
		})
	}
}

// Without -K the others go on to their own end.
func TestWithoutKillOnBadTheOthersGoOn(t *testing.T) {
	for _, highest := range []bool{false, true} {
		w := newNet(t, 2, 4)
		w.behave = func(k *keeper) {
			k.at = 4 * sec
			first := k.start.Launch.Nodes[k.start.Index].Ranks[0].First
			if k.host.Name == "n2" {
				k.at = 2 * sec
				k.ends = []launcher.RankEnd{{Rank: first, Kind: launcher.CauseExit, Code: 3}}
			} else {
				k.ends = []launcher.RankEnd{{Rank: first, Kind: launcher.CauseSignal, Code: 9}}
			}
		}
		r := gang(8)
		r.Policy.KillOnBad, r.Policy.HighestRC = false, highest
		id := w.submit("n1", 1, r)
		w.run(3 * sec)
		heard := w.events[id]
		if n := len(heard); n < 3 || n > 4 {
			t.Fatalf("heard %v, want that ranks have ended, and that the others go on", heard)
		}
		if e, ok := heard[2].(launcher.RankEnds); !ok || len(e.Ranks) != 1 || e.Ranks[0].Rank != 4 || e.Ranks[0].Code != 3 {
			t.Errorf("heard %+v of the rank that has ended", heard[2])
		}
		if _, over := heard[len(heard)-1].(launcher.Ended); over {
			t.Errorf("heard %v, want it to go on", heard)
		}
		w.run(3 * sec)
		want := int32(3) // the first cause, in time
		if highest {
			want = 137 // the highest code, as srun
		}
		if e := w.ended(id); e.Code != want || e.Bad != 2 {
			t.Errorf("ended %+v, want code %d of two bad ends", e, want)
		}
		w.quiet()
	}
}

func TestAbortEndsTheJobEvenWithoutKillOnBad(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = bad(launcher.RankEnd{Kind: launcher.CauseAbort, Code: 7})
	r := gang(8)
	r.Policy.KillOnBad = false
	id := w.submit("n1", 1, r)
	w.run(4500 * ms)
	if e := w.ended(id); e.Code != 7 {
		t.Errorf("ended %+v, want 7", e)
	}
}

// Those that the user asked to be ended get the job's whole kill-wait.
func TestEndsOnRequestGetTheKillWait(t *testing.T) {
	for _, c := range []struct {
		name  string
		prep  func(*launcher.Request)
		act   func(h *host, id filch.JobID, out *launcher.Outbox)
		code  int32
		state filch.State
		sig   int32
		after time.Duration // from the act to the end
	}{
		{"time-limit", func(r *launcher.Request) { r.Policy.TimeLimit = sec }, nil, 124, filch.Killed, 15, 3 * sec},
		{"wait-first", func(r *launcher.Request) { r.Policy.WaitFirst = sec / 2 }, nil, 1, filch.Failed, 15, 3 * sec},
		{"cancel", nil, func(h *host, id filch.JobID, out *launcher.Outbox) { h.node.Cancel(h.net.Now(), id, 0, "user", out) }, 143, filch.Cancelled, 15, 3 * sec},
		{"cancel-int", nil, func(h *host, id filch.JobID, out *launcher.Outbox) { h.node.Cancel(h.net.Now(), id, 2, "user", out) }, 143, filch.Cancelled, 2, 3 * sec},
		{"cancel-kill", nil, func(h *host, id filch.JobID, out *launcher.Outbox) { h.node.Cancel(h.net.Now(), id, 9, "user", out) }, 143, filch.Cancelled, 9, 0},
		{"interrupt", nil, func(h *host, id filch.JobID, out *launcher.Outbox) {
			h.node.Cancel(h.net.Now(), id, 2, "interrupt", out)
		}, 130, filch.Cancelled, 2, 3 * sec},
		{"client-gone", nil, func(h *host, _ filch.JobID, out *launcher.Outbox) { h.node.ClientGone(h.net.Now(), 1, out) }, 143, filch.Cancelled, 15, 3 * sec},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNet(t, 2, 4)
			var keepers []*keeper
			w.behave = func(k *keeper) {
				k.at, k.stubborn = 100*sec, true
				if c.name == "wait-first" && k.host.Name == "n2" {
					k.at = sec / 2
				}
				keepers = append(keepers, k)
			}
			r := gang(8)
			r.Policy.KillWait = 3 * sec
			if c.prep != nil {
				c.prep(&r)
			}
			id := w.submit("n1", 1, r)
			w.run(5 * ms)
			w.submit("n1", 1, gang(1)) // another one of the client, still waiting
			w.run(1003*ms - w.age())
			if c.act != nil {
				h := w.nodes["n1"]
				h.input(func(out *launcher.Outbox) { c.act(h, id, out) })
			}
			w.run(c.after - 100*ms)
			if c.after > 0 && len(w.nodes["n1"].keepers) == 0 {
				t.Error("killed before the kill-wait was over")
			}
			w.run(200 * ms)
			// The client may be gone.
			if i, _ := w.nodes["n1"].node.Job(w.Now(), id); i.Code == nil || *i.Code != c.code || i.State != c.state.String() {
				t.Errorf("the job is %+v, want it %s with %d", i, c.state, c.code)
			}
			for _, k := range keepers[:2] {
				if len(k.stops) > 0 && (k.stops[0].Signal != c.sig || k.stops[0].Grace != c.after) {
					t.Errorf("%s was told %+v, want signal %d and %v", k.host.Name, k.stops[0], c.sig, c.after)
				}
			}
		})
	}
}

func TestASecondCancelIsHarder(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at, k.stubborn = 100*sec, true }
	id := w.submit("n1", 1, gang(8))
	w.run(sec)
	h := w.nodes["n1"]
	h.input(func(out *launcher.Outbox) { h.node.Cancel(w.Now(), id, 2, "interrupt", out) })
	w.run(sec)
	h.input(func(out *launcher.Outbox) { h.node.Cancel(w.Now(), id, 9, "interrupt", out) })
	w.run(100 * ms)
	if e := w.ended(id); e.Code != 130 {
		t.Errorf("ended %+v, want 130", e)
	}
	w.quiet()
}

func TestCancelBeforeTheStart(t *testing.T) {
	w := newNet(t, 2, 4)
	first := w.submit("n1", 1, gang(8))
	second := w.submit("n2", 2, gang(8))
	w.run(100 * ms)
	h := w.nodes["n2"]
	h.input(func(out *launcher.Outbox) { h.node.Cancel(w.Now(), second, 0, "user", out) })
	if e := w.ended(second); e.Code != 143 {
		t.Errorf("ended %+v, want 143 at once", e)
	}
	w.run(20 * sec)
	if e := w.ended(first); e.Code != 0 {
		t.Errorf("ended %+v, want 0", e)
	}
	w.quiet()
}

func TestAKeeperThatVanishesEndsTheJob(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at, k.stubborn = 100*sec, true }
	id := w.submit("n1", 1, gang(8))
	w.run(sec)
	for ident, k := range w.nodes["n2"].keepers {
		k.over = true
		k.say(launcher.KeeperGone{Ident: ident, Text: "killed by SIGKILL"})
	}
	w.run(2 * sec)
	if e := w.ended(id); e.Code != 125 || !strings.Contains(e.Cause.Text, "keeper") {
		t.Errorf("ended %+v, want 125 and the keeper named", e)
	}
	w.nodes["n2"].keepers = map[filch.Ident]*keeper{}
	w.quiet()
}

// A node is lost: ranks elsewhere are gone within 2 s of its being declared
// dead, and the code is 122; with NoKill they go on, with Requeue the job
// starts again under its ticket.
func TestANodeIsLost(t *testing.T) {
	for _, c := range []struct {
		name string
		prep func(*launcher.Policy)
		code int32
	}{
		{"default", func(*launcher.Policy) {}, 122},
		{"no-kill", func(p *launcher.Policy) { p.NoKill = true }, 122},
		{"requeue", func(p *launcher.Policy) { p.Requeue = true }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNet(t, 3, 4)
			w.behave = func(k *keeper) { k.at, k.stubborn = 10*sec, true }
			r := gang(8)
			r.Shape.MinNodes = 2
			r.Shape.Only = []filch.NodeName{"n1", "n2"}
			if c.name == "requeue" {
				r.Shape.Only = nil
			}
			c.prep(&r.Policy)
			id := w.submit("n1", 1, r)
			w.run(sec)
			var lost filch.NodeName
			for _, e := range w.events[id] {
				if e, ok := e.(launcher.Started); ok {
					lost = e.Nodes[1].Node
				}
			}
			w.crash(lost, true)
			w.run(5 * sec)
			w.declare(lost, filch.Dead)
			w.run(2 * sec)
			switch c.name {
			case "default":
				w.quiet()
			case "no-kill":
				if len(w.nodes["n1"].keepers) != 1 {
					t.Error("the ranks on n1 did not go on")
				}
			}
			w.run(30 * sec)
			if e := w.ended(id); e.Code != c.code {
				t.Errorf("ended %+v, want %d", e, c.code)
			}
			if i, _ := w.nodes["n1"].node.Job(w.Now(), id); c.name == "requeue" && i.Attempt != 2 {
				t.Errorf("attempt %d, want 2", i.Attempt)
			}
			w.quiet()
		})
	}
}

func TestTheOriginIsLost(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at, k.stubborn = 100*sec, true }
	r := gang(8)
	r.Shape.Only = []filch.NodeName{"n2", "n3"}
	w.submit("n1", 1, r)
	w.run(sec)
	w.crash("n1", true)
	w.run(5 * sec)
	w.declare("n1", filch.Dead)
	w.run(2 * sec)
	w.quiet()
}

// A node that is cut off cannot hear that its origin gave it up: its lease
// ends its ranks, JobTerm after the last word and the kill-wait after that.
func TestACutOffNodeEndsItsRanksByItself(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at, k.stubborn = 100*sec, true }
	r := gang(8)
	r.Policy.KillWait = 3 * sec
	id := w.submit("n1", 1, r)
	w.run(sec)
	w.faults.cut = func(from, to filch.NodeName) bool { return true }
	w.run(5 * sec)
	n1 := w.nodes["n1"]
	n1.input(func(out *launcher.Outbox) { n1.node.Peer(w.Now(), w.peer("n2", filch.Dead), out) })
	w.run(2 * sec)
	if e := w.ended(id); e.Code != 122 {
		t.Errorf("ended %+v, want 122", e)
	}
	w.run(ranks.JobTerm + 3*sec - 6*sec)
	for _, k := range w.nodes["n2"].keepers {
		if !k.over {
			t.Error("ranks run on a node that was cut off, after its lease and the kill-wait")
		}
	}
	w.faults.cut = nil
	n1.input(func(out *launcher.Outbox) { n1.node.Peer(w.Now(), w.peer("n2", filch.Up), out) })
	w.run(30 * sec)
	w.quiet()
}

// Rank 0 on n1, the origin's node, ends because rank 4 on n2 ended, and is heard
// of first: that of rank 4 is still on its way. Where neither explains the other
// the one that was heard of first is the cause.
func TestAConsequenceThatIsHeardOfFirst(t *testing.T) {
	lost := launcher.RankEnd{Kind: launcher.CauseAbort, Code: 15, Doubt: launcher.DoubtMuch}
	abrt := launcher.RankEnd{Kind: launcher.CauseSignal, Code: 6, Doubt: launcher.DoubtSome}
	for _, c := range []struct {
		name        string
		near, later launcher.RankEnd
		code        int32
		rank        filch.Rank
	}{
		{"abrt-then-abort", lost, abrt, 134, 4},
		{"exit-then-abort", lost, launcher.RankEnd{Kind: launcher.CauseExit, Code: 9}, 9, 4},
		{"no-finalize-then-abort", lost, launcher.RankEnd{Kind: launcher.CauseNoFinalize}, 1, 4},
		{"kill-then-abort", lost, launcher.RankEnd{Kind: launcher.CauseSignal, Code: 9}, 137, 4},
		{"abort-then-abort", lost, launcher.RankEnd{Kind: launcher.CauseAbort, Code: 42}, 42, 4},
		{"exit-then-abrt", abrt, launcher.RankEnd{Kind: launcher.CauseExit, Code: 9}, 9, 4},
		{"abort-then-abrt", abrt, launcher.RankEnd{Kind: launcher.CauseAbort, Code: 42}, 42, 4},
		{"segv-then-own-abort", launcher.RankEnd{Kind: launcher.CauseAbort, Code: 42}, launcher.RankEnd{Kind: launcher.CauseSignal, Code: 11}, 139, 4},
		{"own-abort-then-exit", launcher.RankEnd{Kind: launcher.CauseAbort, Code: 42}, launcher.RankEnd{Kind: launcher.CauseExit, Code: 9}, 42, 0},
		{"exit-then-exit", launcher.RankEnd{Kind: launcher.CauseExit, Code: 3}, launcher.RankEnd{Kind: launcher.CauseExit, Code: 9}, 3, 0},
		{"abort-of-15-then-told", lost, launcher.RankEnd{Kind: launcher.CauseSignal, Code: 9, Told: true}, 15, 0},
		{"abort-of-15-twice", lost, lost, 15, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNet(t, 2, 4)
			w.faults.delayMax = 0 // 20 us each way
			w.behave = func(k *keeper) {
				k.at, k.stubborn, k.ends = 5*sec, true, []launcher.RankEnd{c.near}
				if k.host.Name == "n2" {
					k.at -= 20 * time.Microsecond
					k.ends = []launcher.RankEnd{c.later}
				}
				k.ends[0].Rank = k.start.Launch.Nodes[k.start.Index].Ranks[0].First
			}
			id := w.submit("n1", 1, gang(8))
			w.run(5 * sec)
			e := w.ended(id)
			if e.Code != c.code || e.Cause.Rank != c.rank {
				t.Errorf("ended with %d for %q, want %d for rank %d", e.Code, e.Cause.Text, c.code, c.rank)
			}
			for _, x := range e.Ranks {
				t.Log(x.Rank, x.Kind, x.Told)
			}
			w.quiet()
		})
	}
}

// The launcher of n2 and its ranks are gone, and rank 0 on n1 ends for the loss of its
// peers. The next launcher of n2 hears the order to end ranks that n2 does not have.
func TestALauncherThatLostItsRanksExplainsABadEnd(t *testing.T) {
	for _, end := range []launcher.RankEnd{
		{Kind: launcher.CauseAbort, Code: 15, Doubt: launcher.DoubtMuch},
		{Kind: launcher.CauseSignal, Code: 6, Doubt: launcher.DoubtSome},
	} {
		w := newNet(t, 2, 4)
		halt := &launcher.Halt{Attempt: 1, Index: 1, Level: 1, Signal: 15, Reason: "the scene"}
		w.behave = func(k *keeper) {
			k.at, k.stubborn = 100*sec, true
			if k.host.Name == "n1" {
				k.at, k.ends = 1200*ms, []launcher.RankEnd{end}
			}
			halt.Job, halt.Lease = k.start.Launch.Ident.Job, k.start.Launch.Nodes[1].Lease
		}
		id := w.submit("n1", 1, gang(8))
		w.run(sec)
		w.crash("n2", true)
		w.run(sec)
		w.restart("n2")
		w.run(ranks.AdoptGrace + 500*ms)
		n2 := w.nodes["n2"]
		n2.input(func(out *launcher.Outbox) { n2.node.Message(w.Now(), "n1", halt, out) })
		w.run(20 * sec)
		if e := w.ended(id); e.Code != filch.ExitNodeLost || e.Cause.Node != "n2" {
			t.Errorf("ended %+v, want 122 for n2", e)
		}
		w.quiet()
	}
}

// The keeper of n2 is gone, and rank 0 on n1 aborts for the loss of its peers;
// that is heard of first.
func TestAKeeperThatVanishesExplainsAnAbort(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) {
		k.at, k.stubborn = 2*sec, true
		if k.host.Name == "n1" {
			k.ends = []launcher.RankEnd{{Kind: launcher.CauseAbort, Code: 15, Doubt: launcher.DoubtMuch}}
		}
	}
	id := w.submit("n1", 1, gang(8))
	w.run(sec / 2)
	for ident, k := range w.nodes["n2"].keepers {
		k.over = true
		w.After(sec, func() { k.say(launcher.KeeperGone{Ident: ident, Text: "killed by SIGKILL"}) })
	}
	w.run(4 * sec)
	if e := w.ended(id); e.Code != 125 || !strings.Contains(e.Cause.Text, "keeper") {
		t.Errorf("ended %+v, want 125 and the keeper named", e)
	}
	w.nodes["n2"].keepers = map[filch.Ident]*keeper{}
	w.quiet()
}
