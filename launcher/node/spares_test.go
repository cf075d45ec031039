package node_test

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// spareRun is a run of two nodes with a spare node.
func spareRun() launcher.Request {
	r := gang(8)
	r.Shape.MinNodes, r.Shape.MaxNodes, r.Shape.Spare = 2, 2, 1
	r.Policy.Requeue, r.Policy.KillWait = true, sec
	return r
}

// nodesOf are the nodes of the last start of a job that its client heard of.
func (w *net) nodesOf(id filch.JobID) (names []filch.NodeName, attempt filch.Attempt) {
	for _, e := range w.events[id] {
		if e, ok := e.(launcher.Started); ok {
			names, attempt = nil, e.Attempt
			for _, n := range e.Nodes {
				names = append(names, n.Node)
			}
		}
	}
	return names, attempt
}

// urgentRun asks for all slots under a better ticket than all other jobs.
func urgentRun(slots int32) launcher.Request {
	r := gang(slots)
	r.Class = -1
	return r
}

// A run with a spare node goes on there when a node is lost. No node is asked for slots, and a
// waiting run with a better ticket gets neither the spare node nor the slots that the run has
// already. The end of the run gives all slots back.
func TestARunGoesOnOnItsSpareNode(t *testing.T) {
	w := newNet(t, 4, 4)
	w.behave = func(k *keeper) { k.at = 40 * sec }
	id := w.submit("n1", 1, spareRun())
	w.run(sec)
	before, _ := w.nodesOf(id)
	i, _ := w.nodes["n1"].node.Job(w.Now(), id)
	if len(before) != 2 || len(i.Spares) != 1 || slices.Contains(before, i.Spares[0]) {
		t.Fatalf("the run has %v and the spare nodes %v, want two nodes and another", before, i.Spares)
	}
	urgent := w.submit("n1", 2, urgentRun(12))
	w.run(sec)
	dead := before[0]
	if dead == "n1" {
		dead = before[1]
	}
	asks := 0
	w.onSend = func(from, to filch.NodeName, m launcher.Message) {
		if a, ok := m.(*launcher.Ask); ok && a.Job == id {
			asks++
		}
	}
	w.crash(dead, true)
	w.declare(dead, filch.Dead)
	w.run(9 * sec)
	after, attempt := w.nodesOf(id)
	if attempt != 2 || slices.Contains(after, dead) || !slices.Contains(after, i.Spares[0]) || asks > 0 {
		t.Errorf("attempt %d runs on %v after %d asks, want the second, on %v in place of %s, after none", attempt, after, asks, i.Spares[0], dead)
	}
	w.run(40 * sec)
	if e := w.ended(id); e.Code != 0 {
		t.Errorf("the run ended with %+v", e)
	}
	w.run(45 * sec)
	if e := w.ended(urgent); e.Code != 0 {
		t.Errorf("the waiting run ended with %+v", e)
	}
	w.quiet()
}

// Spare nodes are given back when the run ends, however it ends, and when the origin dies.
func TestSpareNodesAreGivenBack(t *testing.T) {
	for _, how := range []string{"ends", "cancel", "origin dies", "node drains"} {
		t.Run(how, func(t *testing.T) {
			w := newNet(t, 4, 4)
			w.behave = func(k *keeper) { k.at = 5 * sec }
			id := w.submit("n1", 1, spareRun())
			w.run(sec)
			i, _ := w.nodes["n1"].node.Job(w.Now(), id)
			if len(i.Spares) != 1 || w.free() != 4 {
				t.Fatalf("%v are spares and %d slots are free, want one node and 4", i.Spares, w.free())
			}
			switch how {
			case "cancel":
				w.nodes["n1"].input(func(out *launcher.Outbox) { w.nodes["n1"].node.Cancel(w.Now(), id, 0, "user", out) })
			case "origin dies":
				w.crash("n1", true)
				w.declare("n1", filch.Dead)
			case "node drains":
				if w.drain(i.Spares[0], "repair"); w.nodes[i.Spares[0]].node.Slots().Held > 0 {
					t.Error("a node that drains keeps slots for a run")
				}
			}
			w.run(4*sec + 500*time.Millisecond)
			want := int32(16)
			if how == "origin dies" {
				want = 12
			}
			if n := w.free(); n != want {
				t.Errorf("%d slots are free, want %d", n, want)
			}
		})
	}
}

// A gang of a bag goes on on its spare node, with the number of the next attempt.
func TestAGangGoesOnOnItsSpareNode(t *testing.T) {
	w := newNet(t, 4, 4)
	a := w.watchGang()
	of := launcher.TaskID{Job: w.bag("n1", 1, 1, func(s *submit.Job) { s.Spec.Gang = record.Gang{Ranks: 8, Nodes: 2, Spare: 1} })}
	w.until("the gang to run", 5*sec, func() bool { return len(w.running(of, 0)) == 2 })
	owner, dead := filch.NodeName(""), filch.NodeName("")
	for _, k := range w.running(of, 0) {
		if owner = k.start.Launch.Origin; k.host.Name != owner {
			dead = k.host.Name
		}
	}
	w.submit(owner, 2, urgentRun(12))
	w.run(sec)
	if n := w.free(); n > 4 {
		t.Errorf("%d slots are free beside the gang and its spare node", n)
	}
	asks := 0
	w.onSend = func(from, to filch.NodeName, m launcher.Message) {
		if a, ok := m.(*launcher.Ask); ok && a.Of == of.Job {
			asks++
		}
	}
	known := w.diesSlowly(dead)
	w.until("the gang to run again", 20*sec, func() bool { return a.second >= 0 })
	if d := a.second - known; d > goesOnBar || a.beside > 0 || asks > 0 {
		t.Errorf("the gang runs again %v after the death was known, beside %d keepers, after %d asks; want at most %v, none, none", d, a.beside, asks, goesOnBar)
	}
	w.run(130 * sec)
	w.quiet()
}

// A run whose spare nodes are too few for a loss gathers again, with as many spare nodes as
// there can be.
func TestARunGathersAgainWithoutEnoughSpareNodes(t *testing.T) {
	w := newNet(t, 5, 4)
	w.behave = func(k *keeper) { k.at = 60 * sec }
	id := w.submit("n1", 1, spareRun())
	w.run(sec)
	i, _ := w.nodes["n1"].node.Job(w.Now(), id)
	dead := []filch.NodeName{i.Spares[0]}
	for _, name := range i.Nodes {
		if name != "n1" {
			dead = append(dead, name)
		}
	}
	for _, name := range dead {
		w.crash(name, true)
		w.declare(name, filch.Dead)
	}
	w.run(10 * sec)
	after, attempt := w.nodesOf(id)
	if i, _ = w.nodes["n1"].node.Job(w.Now(), id); attempt != 2 || len(after) != 2 || len(i.Spares) != 5-len(dead)-2 {
		t.Errorf("attempt %d runs on %v with the spare nodes %v after the loss of %v", attempt, after, i.Spares, dead)
	}
	w.run(120 * sec)
	w.quiet()
}

// The room of ranks that ended is gone with the launcher that granted it: the next attempt is
// not launched there under the old lease.
func TestRoomOfAnotherLauncherIsNotKept(t *testing.T) {
	w := newNet(t, 5, 4)
	early := filch.NodeName("")
	w.behave = func(k *keeper) {
		if name := k.host.Name; early == "" && name != "n1" {
			early = name
		}
		if k.at = 30 * sec; k.host.Name == early && k.start.Launch.Ident.Attempt == 1 {
			k.at = 2 * sec
		}
	}
	r := spareRun()
	r.Shape.Ranks, r.Shape.MinNodes, r.Shape.MaxNodes = 12, 3, 3
	id := w.submit("n1", 1, r)
	w.run(4 * sec)
	nodes, _ := w.nodesOf(id)
	w.crash(early, false)
	w.restart(early)
	w.run(sec)
	stale := 0
	w.onSend = func(_, to filch.NodeName, m launcher.Message) {
		d, ok := m.(*launcher.Dispatch)
		for i := 0; ok && i < len(d.Launch.Nodes); i++ {
			if at := &d.Launch.Nodes[i]; at.Node == early && at.Lease.Incarnation < w.nodes[early].cfg.Incarnation {
				stale++
			}
		}
	}
	for _, name := range nodes {
		if name != "n1" && name != early {
			w.crash(name, true)
			w.declare(name, filch.Dead)
		}
	}
	w.run(20 * sec)
	if _, attempt := w.nodesOf(id); attempt < 2 || stale > 0 {
		t.Errorf("attempt %d runs; %d launches named the room that %s granted before it was started again", attempt, stale, early)
	}
	w.run(60 * sec)
	w.quiet()
}

// A Grant of a run with spare nodes that arrives late, after the launch, has the origin answer
// once. The lender of slots in use has nothing to add: if the lender answered, the two nodes
// would answer each other as fast as the network allows, for as long as the run lasts.
func TestALateGrantOfARunWithSpareNodesIsAnsweredOnce(t *testing.T) {
	w := newNet(t, 4, 4)
	w.behave = func(k *keeper) { k.at = 20 * sec }
	grants := map[filch.NodeName]*launcher.Grant{}
	w.onSend = func(from, to filch.NodeName, m launcher.Message) {
		if g, ok := m.(*launcher.Grant); ok && to == "n1" && g.Held > 0 {
			grants[from] = g
		}
	}
	id := w.submit("n1", 1, spareRun())
	w.run(sec)
	nodes, _ := w.nodesOf(id)
	late := slices.DeleteFunc(nodes, func(n filch.NodeName) bool { return n == "n1" || grants[n] == nil })
	if len(late) == 0 {
		t.Fatalf("no node of %v granted slots", nodes)
	}
	said := 0
	w.onSend = func(_, _ filch.NodeName, m launcher.Message) {
		switch m.(type) {
		case *launcher.Grant, *launcher.Renew:
			said++
		}
	}
	w.nodes["n1"].input(func(out *launcher.Outbox) {
		w.nodes["n1"].node.Message(w.Now(), late[0], grants[late[0]], out)
	})
	w.run(sec)
	if said > 3 {
		t.Errorf("%d messages about slots in the second after a late Grant of %s, want the answer and the renewals", said, late[0])
	}
	w.run(30 * sec)
	w.quiet()
}
