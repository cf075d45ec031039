package node_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/tasks"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// keeperPatience is how long keepers wait for a launcher, and deadAfter the silence after
// which a node is declared dead.
const (
	keeperPatience = 6500 * ms
	deadAfter      = 5 * sec
)

// diesSlowly ends the launcher of a node. Its keepers end their ranks when they have waited for a
// launcher, and the other nodes take the node for gone, then for dead.
func (w *net) diesSlowly(name filch.NodeName) (known time.Duration) {
	h := w.nodes[name]
	w.crash(name, false)
	w.After(keeperPatience, func() {
		for _, k := range h.keepers { // any order: each alike
			k.over = true
		}
	})
	w.run(2 * sec)
	w.declare(name, filch.Gone)
	w.run(deadAfter - 2*sec)
	w.declare(name, filch.Dead)
	return w.Now()
}

// attempts watches the starts of a gang of four nodes, which all last for long.
type attempts struct {
	second time.Duration // when the next attempt began
	beside int           // keepers with ranks of the attempt before, then
}

func (w *net) watchGang() *attempts {
	a := &attempts{second: -1}
	first := filch.JobID(0)
	w.behave = func(k *keeper) {
		k.at, k.stubborn = 60*sec, true
		l := &k.start.Launch
		if first == 0 {
			first = l.Ident.Job
		}
		if l.Ident.Job != first {
			a.beside += len(w.running(l.Of, l.Ident.Job))
			if a.second < 0 {
				a.second = w.Now()
			}
		}
	}
	return a
}

// goesOnBar is how long after the death of a node is known its gangs run again.
const goesOnBar = 3 * sec

// A gang runs again within three seconds of the known death of its owner, or of another node
// with its ranks, and not beside ranks of the attempt before.
func TestAGangGoesOnSoonAfterALoss(t *testing.T) {
	for _, dead := range []string{"owner", "other"} {
		t.Run(dead, func(t *testing.T) {
			w := newNet(t, 4, 4)
			a := w.watchGang()
			id, owner, with := w.gangOfTwo(false)
			at := owner
			if dead == "other" {
				at = with
			}
			known := w.diesSlowly(at)
			said := ""
			w.until("the gang to run again", 20*sec, func() bool {
				if s := w.here(id); s.Astray+s.Remaining == 1 && s.Ready+s.Running == 1 && s.Ranks != "" {
					said = s.Ranks
				}
				return a.second >= 0
			})
			if said == "" {
				t.Error("no node says that the gang waits for its ranks")
			}
			if d := a.second - known; d > goesOnBar {
				t.Errorf("the gang runs again %v after the death of %s was known, want at most %v", d, at, goesOnBar)
			}
			if a.beside > 0 {
				t.Errorf("the gang began beside %d keepers with its ranks", a.beside)
			}
		})
	}
}

// A node is cut off with ranks of a gang. The next attempt begins after their lease.
func TestAGangGoesOnAfterTheLeaseOfACutOffNode(t *testing.T) {
	w := newNet(t, 4, 4)
	a := w.watchGang()
	_, _, at := w.gangOfTwo(false)
	w.run(10 * sec)
	w.faults.cut = func(from, to filch.NodeName) bool { return (from == at) != (to == at) }
	w.run(deadAfter - 750*ms) // the last beat
	w.declare(at, filch.Dead) // the cut-off node lets the others decide, and hears nothing
	known := w.Now()
	w.until("the gang to run again", 20*sec, func() bool { return a.second >= 0 })
	if d := a.second - known; d > goesOnBar || a.beside > 0 {
		t.Errorf("the gang runs again %v after the death was known, beside %d keepers, want at most %v, beside none", d, a.beside, goesOnBar)
	}
}

// gangOfTwo has a gang of two nodes run, and names its owner and another node with ranks.
func (w *net) gangOfTwo(once bool) (id filch.JobID, owner, with filch.NodeName) {
	w.t.Helper()
	return w.gangOfTwoIn(func(s *submit.Job) { s.Spec.Once, s.Spec.Sure = once, once })
}

// gangOfTwoIn is gangOfTwo in a job that is changed.
func (w *net) gangOfTwoIn(change func(*submit.Job)) (id filch.JobID, owner, with filch.NodeName) {
	w.t.Helper()
	id = w.bag("n1", 1, 1, func(s *submit.Job) {
		s.Spec.Gang = record.Gang{Ranks: 8, Nodes: 2}
		change(s)
	})
	of := launcher.TaskID{Job: id}
	w.until("the gang to run", 5*sec, func() bool { return len(w.running(of, 0)) >= 2 })
	for _, k := range w.running(of, 0) {
		if owner = k.start.Launch.Origin; k.host.Name != owner {
			with = k.host.Name
		}
	}
	return id, owner, with
}

// A node is lost when its launcher has told that the ranks of a gang ended well, and not yet that
// the owner has their output. The gang ends well, and names the node.
func TestAGangNamesTheNodeLostWithItsOutput(t *testing.T) {
	w := newNet(t, 4, 4)
	w.watchGang()
	id, _, with := w.gangOfTwo(false)
	for _, k := range w.running(launcher.TaskID{Job: id}, 0) {
		if k.host.Name == with {
			k.say(launcher.RanksEnded{Ident: k.start.Launch.Ident, Ends: k.planned()})
		}
	}
	w.run(sec)
	w.diesSlowly(with)
	if n := len(w.chores.gangEnds); n > 0 {
		t.Fatalf("%d gangs have ended, and ranks run on other nodes than %s", n, with)
	}
	for _, k := range w.running(launcher.TaskID{Job: id}, 0) {
		k.finish(k.planned(), 0)
	}
	w.until("the gang to end", 20*sec, func() bool { return len(w.chores.gangEnds) > 0 })
	if e := w.chores.gangEnds[0]; e.Kind != launcher.CauseNone || !slices.Equal(e.Silent, []filch.NodeName{with}) {
		t.Errorf("the gang ended as %+v, want a good end, and %s silent", e, with)
	}
}

// A node whose launcher gave up sending output to the owner is named, too.
func TestAGangNamesTheNodeThatKeptItsOutput(t *testing.T) {
	w := newNet(t, 4, 4)
	w.watchGang()
	id, _, with := w.gangOfTwo(false)
	for _, k := range w.running(launcher.TaskID{Job: id}, 0) {
		if k.host.Name != with {
			k.finish(k.planned(), 0)
			continue
		}
		k.over, k.ended = true, k.planned()
		k.say(launcher.RanksEnded{Ident: k.start.Launch.Ident, Ends: k.ended})
		k.say(launcher.KeeperDone{Ident: k.start.Launch.Ident, Unsent: true})
	}
	w.until("the gang to end", 20*sec, func() bool { return len(w.chores.gangEnds) > 0 })
	if e := w.chores.gangEnds[0]; e.Kind != launcher.CauseNone || !slices.Equal(e.Silent, []filch.NodeName{with}) {
		t.Errorf("the gang ended as %+v, want a good end, and %s silent", e, with)
	}
}

// A gang with --once is lost with its owner when its ranks are gone, not before: a retry would
// begin beside the ranks. A node with ranks may learn of the death later than the others.
func TestAOnceGangIsLostAfterItsRanks(t *testing.T) {
	for _, late := range []time.Duration{0, 4 * sec} {
		w := newNet(t, 5, 4)
		w.watchGang()
		id, owner, with := w.gangOfTwo(true)
		for _, o := range w.names { // the client of the bag may be on the node that dies
			if h := w.nodes[o]; o != owner && o != with {
				h.input(func(out *launcher.Outbox) { h.node.FollowTasks(w.Now(), 9, id, out) })
			}
		}
		w.crash(owner, true)
		w.run(deadAfter / 2)
		known := w.Now()
		for _, o := range w.names {
			if w.nodes[o].Up() && o != with {
				w.hearsDead(o, owner)
			}
		}
		w.After(late, func() { w.hearsDead(with, owner) })
		said := ""
		w.until("the end of the bag", 20*sec, func() bool {
			if s := w.here(id); s.Astray == 1 && s.Running == 1 && s.Ranks != "" {
				said = s.Ranks
			}
			ended := w.heard(id, launcher.TasksFinished) != nil
			if n := len(w.running(launcher.TaskID{Job: id}, 0)); ended && n > 0 {
				t.Errorf("the gang is over %v after the death of its owner was known, and %d keepers have its ranks", w.Now()-known, n)
			}
			return ended
		})
		if b := w.heard(id, launcher.TasksFinished); b.Tally.Lost != 1 {
			t.Errorf("the gang ended as %+v, want lost", b.Tally)
		}
		if said == "" {
			t.Error("no node says that the gang waits for its ranks")
		}
	}
}

// here sums up what all nodes say of a job of tasks.
func (w *net) here(id filch.JobID) (s tasks.Sum) {
	for _, o := range w.names {
		if h := w.nodes[o]; h.Up() {
			v := h.node.TasksHere(id)
			s.Add(&v)
		}
	}
	return s
}

// hearsDead tells one node that another is dead.
func (w *net) hearsDead(name, dead filch.NodeName) {
	h := w.nodes[name]
	h.input(func(out *launcher.Outbox) { h.node.Peer(w.Now(), w.peer(dead, filch.Dead), out) })
}

// askedForRanks asks a node again and again for the ranks of a gang whose owner is dead: at
// first the node does not know of the death, then its ranks take a second to end.
func askedForRanks(t testing.TB) (wrong string) {
	w := newNet(t, 4, 4)
	w.watchGang()
	id, owner, with := w.gangOfTwo(false)
	h, none := w.nodes[with], false
	w.onSend = func(from, _ filch.NodeName, m launcher.Message) {
		if m, ok := m.(*launcher.RanksLeft); ok && from == with && m.Left == 0 {
			none = true
			for _, k := range w.running(launcher.TaskID{Job: id}, 0) {
				if k.host == h {
					wrong = fmt.Sprintf("%s says that no rank is left, and has %v", with, k.start.Launch.Ident)
				}
			}
		}
	}
	w.crash(owner, true)
	for range 30 {
		if w.run(100 * ms); w.Now() > founding+2*sec {
			w.hearsDead(with, owner)
		}
		h.input(func(out *launcher.Outbox) {
			h.node.Message(w.Now(), "n4", &launcher.RanksAsk{Owner: owner, Incarnation: 1}, out)
		})
	}
	if !none {
		t.Errorf("%s never says that no rank is left", with)
	}
	return wrong
}

// A gang with --once that only gathered slots has not started when its owner dies: the gang
// goes back to the queue for another owner.
func TestAOnceGangThatOnlyGatheredGoesOn(t *testing.T) {
	w := newNet(t, 5, 4)
	w.behave = func(k *keeper) { k.at = 15 * sec }
	taken := gang(4)
	taken.Shape.Only = []filch.NodeName{"n5"}
	w.submit("n5", 1, taken)
	w.run(sec)
	id := w.bag("n1", 1, 1, func(s *submit.Job) {
		s.Spec.Once, s.Spec.Sure, s.Spec.Gang = true, true, record.Gang{Ranks: 20}
	})
	var owner filch.NodeName
	w.until("the gang to gather", 5*sec, func() bool {
		for _, name := range w.names {
			if w.nodes[name].node.TasksHere(id).Gathers > 0 {
				owner = name
			}
		}
		return owner != ""
	})
	for _, name := range w.names {
		if h := w.nodes[name]; name != owner {
			h.input(func(out *launcher.Outbox) { h.node.FollowTasks(w.Now(), 9, id, out) })
		}
	}
	if n := len(w.running(launcher.TaskID{Job: id}, 0)); n > 0 {
		t.Fatalf("%d keepers run ranks of a gang that has no slots", n)
	}
	w.dies(owner)
	w.restart(owner)
	w.declare(owner, filch.Up)
	if b := w.tally(id, 90*sec); b.OK != 1 {
		t.Errorf("the gang ended as %+v, want ok", b)
	}
}

// Each start of a gang has a number of its own, which grows: also where the owner dies whose
// starts are in no record.
func TestAGangHasTheNextAttemptAfterALoss(t *testing.T) {
	for _, dead := range []string{"owner", "other"} {
		t.Run(dead, func(t *testing.T) {
			w := newNet(t, 4, 4)
			w.behave = func(k *keeper) { k.at = 60 * sec }
			_, owner, with := w.gangOfTwo(false)
			if got := w.chores.tries; !slices.Equal(got, []filch.Attempt{1}) {
				t.Fatalf("got the attempts %v, want the first", got)
			}
			if dead == "other" {
				owner = with
			}
			w.diesSlowly(owner)
			w.until("the gang to begin again", 20*sec, func() bool { return len(w.chores.tries) > 1 })
			if got := w.chores.tries; !slices.Equal(got, []filch.Attempt{1, 2}) {
				t.Errorf("got the attempts %v, want 1 and 2", got)
			}
		})
	}
}
