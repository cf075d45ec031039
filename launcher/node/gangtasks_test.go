package node_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
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
		w.chores.tries = append(w.chores.tries, l.Try())
		r := launcher.Request{
			Name: "gang", Shape: launcher.Shape{Ranks: g.Ranks, MinNodes: g.Nodes, Spare: g.Spare, PerRank: l.Start.Spec.Each},
			Policy: launcher.Policy{KillOnBad: true, KillWait: sec},
		}
		w.After(0, func() {
			h.input(func(out *launcher.Outbox) { h.node.Tasks.Gangs.Start(w.Now(), l.Serial, r, out) })
		})
	}
	for _, e := range o.GangEnds {
		w.chores.gangEnds = append(w.chores.gangEnds, e)
		w.After(0, func() {
			h.input(func(out *launcher.Outbox) { h.node.TaskEnds(w.Now(), []launcher.TaskEnd{e}, out) })
		})
	}
}

// ofGangs makes the tasks of a bag gangs.
func ofGangs(ranks, nodes int32) func(*submit.Job) {
	return func(s *submit.Job) { s.Spec.Gang = record.Gang{Ranks: ranks, Nodes: nodes} }
}

// running are the keepers that run ranks of a task, but for those of one launch.
func (w *net) running(of launcher.TaskID, but filch.JobID) (all []*keeper) {
	for _, name := range w.names {
		for _, k := range w.nodes[name].keepers { // any order: a set
			if l := &k.start.Launch; l.Of == of && l.Ident.Job != but && k.running && !k.over {
				all = append(all, k)
			}
		}
	}
	return all
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

// A gang that fits on all nodes lost its ranks with one of them, and is due again while
// that node is away.
func TestAGangWaitsForNodesThatAreAway(t *testing.T) {
	w := newNet(t, 2, 4)
	id := w.bag("n1", 1, 1, ofGangs(6, 0))
	w.run(200 * ms)
	w.crash("n2", true)
	w.declare("n2", filch.Dead)
	w.run(15 * sec)
	w.restart("n2")
	w.declare("n2", filch.Up)
	if got := w.tally(id, 60*sec); got.OK != 1 {
		t.Errorf("the gang ended as %+v, want ok", got)
	}
}

// The launcher of a gang's owner dies, and the ranks live on for a while, on its node and
// on others (seed 73 of testbed/sim/instance).
func TestAGangBeginsAloneAfterItsOwner(t *testing.T) {
	w := newNet(t, 4, 4)
	beside, second := 0, time.Duration(-1)
	w.behave = func(k *keeper) {
		k.at = 20 * sec
		l := &k.start.Launch
		beside += len(w.running(l.Of, l.Ident.Job))
		if l.Origin != "n1" && second < 0 {
			second = w.Now()
		}
	}
	id := w.bag("n1", 1, 1, ofGangs(8, 2))
	of := launcher.TaskID{Job: id}
	w.until("the gang to run", 5*sec, func() bool { return len(w.running(of, 0)) >= 2 })
	w.crash("n1", false)
	w.After(6500*ms, func() { // as long as keepers wait for a launcher
		for _, k := range w.nodes["n1"].keepers { // any order: each alike
			k.over = true
		}
	})
	w.declare("n1", filch.Gone)
	w.run(5 * sec)
	w.declare("n1", filch.Dead)
	w.until("the gang to begin elsewhere", 20*sec, func() bool { return second >= 0 })
	if beside > 0 {
		t.Errorf("the gang began beside %d keepers with its ranks, at %v", beside, second)
	}
	w.run(30 * sec)
	if b := w.heard(id, launcher.TasksFinished); b != nil {
		t.Errorf("a client of the dead launcher heard %+v", b)
	}
}

// A node that leaves ends its tasks, and then hears that their job is cancelled (seed 1828
// of testbed/sim/instance).
func TestACancelAfterTheTasksOfALeavingNode(t *testing.T) {
	for _, ranks := range []int32{0, 2} {
		w := newNet(t, 2, 4)
		w.chores.lasts = 20 * sec
		w.behave = func(k *keeper) { k.at = 20 * sec }
		id := w.bag("n1", 1, 1, ofGangs(ranks, 0))
		w.run(sec)
		w.learnsDead("n1")
		w.run(3 * sec)
		n1 := w.nodes["n1"]
		n1.input(func(out *launcher.Outbox) { n1.node.CancelTasks(w.Now(), id, "", out) })
		w.run(sec)
		if len(n1.chores) > 0 || len(w.running(launcher.TaskID{Job: id}, 0)) > 0 {
			t.Errorf("tasks of %d ranks run on a node that left", ranks)
		}
	}
}

// A gang that no nodes can hold any more says so in a sentence.
func TestAGangSaysThatItLacksNodes(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at = 60 * sec }
	w.submit("n3", 1, gang(12))
	w.run(sec)
	id := w.bag("n1", 1, 1, ofGangs(3, 3))
	w.run(sec)
	w.declare("n2", filch.Dead)
	w.run(sec)
	want := "filch cannot use 3 nodes: 2 could take part; this ends when more nodes are there"
	if h := w.nodes["n1"].node.TasksHere(id); h.Gathers != 1 || h.Lacks != want {
		t.Errorf("%d gangs gather, and one says %q, want %q", h.Gathers, h.Lacks, want)
	}
}

// A gang that gathers slots has not begun, and a gang that is stopped then had no attempt.
func TestAGangBeginsWithItsSlots(t *testing.T) {
	w := newNet(t, 2, 4)
	var told []string
	w.onEvents = func(list []events.Event) {
		for _, e := range list {
			if e.Kind == events.TaskStarted || e.Kind == events.TaskEnded {
				told = append(told, fmt.Sprintf("%s %d", e.Kind, e.Job))
			}
		}
	}
	w.behave = func(k *keeper) { k.at = 3 * sec }
	w.submit("n2", 3, gang(8))
	w.run(sec)
	stopped := w.bag("n1", 1, 1, ofGangs(8, 2))
	id := w.bag("n1", 2, 1, ofGangs(8, 2))
	w.run(sec)
	n1 := w.nodes["n1"]
	n1.input(func(out *launcher.Outbox) { n1.node.CancelTasks(w.Now(), stopped, "", out) })
	w.run(500 * ms)
	if len(told) > 0 {
		t.Errorf("while the gangs gather slots: %v", told)
	}
	if got := w.tally(id, 30*sec); got.OK != 1 {
		t.Errorf("the gang ended as %+v, want 1 ok", got)
	}
	if want := []string{fmt.Sprintf("task-started %d", id), fmt.Sprintf("task-ended %d", id)}; !slices.Equal(told, want) {
		t.Errorf("events: %v, want %v", told, want)
	}
}
