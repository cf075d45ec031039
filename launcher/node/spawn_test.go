package node_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// spawn is a run of n ranks that a rank of another run spawned.
func spawn(by filch.JobID, n int32) launcher.Request {
	r := gang(n)
	r.Spawner, r.Inside = by, launcher.Inside{Job: by}
	return r
}

// TestSpawnWaitsUnderTheTicketOfItsRun has spawned ranks go before a run that was submitted
// after the run whose rank spawned them.
func TestSpawnWaitsUnderTheTicketOfItsRun(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) {
		if k.at = 60 * sec; k.start.Launch.Name == "short" {
			k.at = 5 * sec
		}
	}
	short := gang(6)
	short.Name = "short"
	parent := w.submit("n1", 1, gang(2))
	w.run(sec)
	first := w.submit("n1", 2, short)
	w.run(sec)
	later := w.submit("n2", 3, gang(6)) // of all free slots, once the short run has ended
	w.run(sec)
	child := w.submit("n1", 4, spawn(parent, 6))
	w.run(10 * sec)
	w.ended(first)
	started := func(id filch.JobID) bool {
		for _, e := range w.events[id] {
			if _, ok := e.(launcher.Started); ok {
				return true
			}
		}
		return false
	}
	if !started(child) || started(later) {
		t.Errorf("the spawned run started: %t, the run submitted before it: %t; want only the spawned run", started(child), started(later))
	}
	if i, ok := w.nodes["n1"].node.Job(w.Now(), child); !ok || !i.Spawned || i.Inside != parent {
		t.Errorf("got %+v, want that job %d spawned it", i, parent)
	}
	w.run(200 * sec)
	w.ended(later)
	w.ended(child)
	w.quiet()
}

// TestSpawnWithoutRoomGivesUp fails a spawn in its time, and one of nobody at once.
func TestSpawnWithoutRoomGivesUp(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 60 * sec }
	parent := w.submit("n1", 1, gang(8))
	w.run(sec)
	r := spawn(parent, 2)
	r.Patient = 3 * sec
	child := w.submit("n1", 2, r)
	w.run(4 * sec)
	if text := strings.Join(w.replies, "\n"); !strings.Contains(text, fmt.Sprintf("cannot start job %d: no room for 2 ranks within 3s", child)) {
		t.Errorf("got %s, want a refusal after 3 s", text)
	}
	n := len(w.replies)
	w.submit("n2", 3, spawn(99, 1))
	if text := strings.Join(w.replies[n:], "\n"); !strings.Contains(text, "cannot spawn ranks for job 99: the job has no ranks on n2") {
		t.Errorf("got %q, want a refusal", text)
	}
	w.run(60 * sec)
	w.ended(parent)
	w.quiet()
}

// TestSpawnWithinAJobTakesFreeSlotsOnly has a spawn of a step use slots of the job around, and
// refuses at once a spawn that would wait for the step itself.
func TestSpawnWithinAJobTakesFreeSlotsOnly(t *testing.T) {
	w, parent := stepWorld(t)
	a := w.submit("n1", 2, step(parent, 2))
	w.run(100 * ms)
	r := spawn(a, 6)
	r.Parent = parent
	b := w.submit("n1", 3, r)
	w.run(100 * ms)
	if i, ok := w.nodes["n1"].node.Job(w.Now(), b); !ok || i.State != "running" || !i.Spawned {
		t.Errorf("got %+v, want the 6 free slots of the job", i)
	}
	r.Shape.Ranks = 1
	c := w.submit("n1", 4, r)
	w.run(100 * ms)
	if text := strings.Join(w.replies, "\n"); c == 0 || !strings.Contains(text, fmt.Sprintf("cannot spawn 1 rank within job %d: its steps use the slots", parent)) {
		t.Errorf("got %s, want that no slot is free", text)
	}
	w.run(70 * sec)
	w.ended(a)
	w.ended(b)
	w.ended(parent)
	w.quiet()
}

// submitLate submits a request to a launcher that may answer later, and waits for the answer.
func (w *net) submitLate(name filch.NodeName, client launcher.ClientID, r launcher.Request) (id filch.JobID) {
	if id = w.submit(name, client, r); id != 0 {
		return id
	}
	n := len(w.replies)
	w.until("an answer", 10*sec, func() bool { return len(w.replies) > n })
	return w.accepted[client]
}

// keeperComesLate is two nodes, and a run whose launcher was started again and has not found
// the keeper of the run yet.
func keeperComesLate(t *testing.T) (w *net, parent filch.JobID) {
	w = newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 20 * sec }
	parent = w.submit("n1", 1, gang(2))
	w.run(sec)
	w.crash("n1", false)
	w.late = 2 * sec
	w.restart("n1")
	w.reattach("n1", 1, parent)
	return w, parent
}

// TestSpawnComesBeforeTheKeeperOfItsRun has a rank spawn ranks when the launcher was started
// again, and has not found the keeper of the rank yet.
func TestSpawnComesBeforeTheKeeperOfItsRun(t *testing.T) {
	w, parent := keeperComesLate(t)
	child := w.submitLate("n1", 2, spawn(parent, 2))
	w.run(sec)
	if i, ok := w.nodes["n1"].node.Job(w.Now(), child); !ok || i.State != "running" || !i.Spawned {
		t.Fatalf("job %d is %+v, want spawned ranks that run: %s", child, i, strings.Join(w.replies, "\n"))
	}
	w.run(60 * sec)
	w.ended(child)
	w.ended(parent)
	w.quiet()
}

// TestSpawnOfAClientThatIsGone forgets a spawn that waits for the keeper of its run.
func TestSpawnOfAClientThatIsGone(t *testing.T) {
	w, parent := keeperComesLate(t)
	w.submit("n1", 2, spawn(parent, 2))
	h := w.nodes["n1"]
	h.input(func(out *launcher.Outbox) { h.node.ClientGone(w.Now(), 2, out) })
	w.run(5 * sec)
	if id := w.accepted[2]; id != 0 {
		t.Errorf("job %d of a client that is gone", id)
	}
	w.run(60 * sec)
	w.ended(parent)
	w.quiet()
}

// TestSpawnIsAskedForTwice has the launcher die before it answers: the client asks again, and
// receives the job of its first request.
func TestSpawnIsAskedForTwice(t *testing.T) {
	if wrong := spawnedTwice(t); wrong != "" {
		t.Error(wrong)
	}
}

func spawnedTwice(t testing.TB) (wrong string) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 20 * sec }
	parent := w.submit("n1", 1, gang(2))
	w.run(sec)
	r := spawn(parent, 1)
	r.Call = 77
	first := w.submit("n1", 2, r)
	w.run(sec)
	w.crash("n1", false)
	w.late = 100 * ms
	w.restart("n1")
	w.reattach("n1", 1, parent)
	again := w.submitLate("n1", 3, r)
	r.Call = 78
	other := w.submitLate("n1", 4, r)
	if first != again || other == again {
		wrong = fmt.Sprintf("job %d, then job %d for the same call and job %d for another one", first, again, other)
	}
	w.run(60 * sec)
	w.ended(parent)
	w.ended(again)
	w.ended(other)
	return wrong
}

// TestSpawnThatNoKeeperGot has the launcher die after it recorded a spawned run, and before it
// gave the run to a keeper: the client hears of no start.
func TestSpawnThatNoKeeperGot(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 40 * sec }
	parent := w.submit("n1", 1, gang(2))
	w.run(sec)
	child := w.submit("n1", 2, spawn(parent, 2))
	h := w.nodes["n1"]
	for id, k := range h.keepers { // any order: at most one
		if id.Job == child {
			k.over = true
			delete(h.keepers, id)
		}
	}
	w.crash("n1", false)
	w.events[child] = nil
	w.late = 100 * ms
	w.restart("n1")
	w.reattach("n1", 1, parent)
	w.reattach("n1", 2, child)
	w.run(20 * sec)
	for _, e := range w.events[child] {
		if s, ok := e.(launcher.Started); ok {
			t.Errorf("the client hears of a start: %+v", s)
		}
	}
	if e := w.ended(child); e.Cause.Kind != launcher.CauseNodeLost {
		t.Errorf("the spawned run ended as %+v, want that it was lost", e)
	}
	w.run(60 * sec)
	w.quiet()
}

// TestSpawnWithoutANumberGivesUp fails a spawn within its limit while no job number can be had.
func TestSpawnWithoutANumberGivesUp(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at = 20 * sec }
	parent := w.submit("n1", 1, gang(2))
	w.run(sec)
	w.crash("n1", false)
	w.faults.stores = func(_, _ filch.NodeName) bool { return true }
	w.late = 100 * ms
	w.restart("n1")
	w.reattach("n1", 1, parent)
	w.run(sec)
	r := spawn(parent, 2)
	r.Patient = 3 * sec
	if id := w.submit("n1", 2, r); id != 0 {
		t.Fatalf("job %d has a number without a store", id)
	}
	w.run(3100 * ms)
	if text := strings.Join(w.replies, "\n"); !strings.Contains(text, "cannot start within 3s: no job number can be had") {
		t.Errorf("got %s, want a refusal after 3 s", text)
	}
}

// TestUniverse counts the ranks that the nodes of a job could hold.
func TestUniverse(t *testing.T) {
	w := newNet(t, 2, 4)
	universe := map[filch.JobID]int32{}
	w.behave = func(k *keeper) {
		k.at = 5 * sec
		universe[k.start.Launch.Ident.Job] = k.start.Launch.Universe
	}
	fat, one := gang(1), gang(1)
	fat.Shape.PerRank.Slots, one.Shape.Only = 2, []filch.NodeName{"n2"}
	parent := w.submit("n1", 1, gang(3))
	w.run(sec)
	for what, x := range map[string]struct {
		id   filch.JobID
		want int32
	}{
		"a run":         {parent, 8},
		"fat ranks":     {w.submit("n2", 2, fat), 4},
		"one node":      {w.submit("n2", 3, one), 4},
		"a step":        {w.submit("n1", 4, step(parent, 1)), 3},
		"a spawned run": {w.submit("n1", 5, spawn(parent, 1)), 8},
	} {
		w.run(100 * ms)
		if got := universe[x.id]; got != x.want {
			t.Errorf("%s has a universe of %d ranks, want %d", what, got, x.want)
		}
	}
	w.run(20 * sec)
	w.quiet()
}
