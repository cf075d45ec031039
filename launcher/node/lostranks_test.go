package node_test

import (
	"fmt"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// The scenes in which an old owner must not have its way, and of a client that asks an
// owner twice. Each returns what it saw that must not be.
var lostScenes = map[string]func(t testing.TB) string{
	"spawn-twice": spawnedTwice,
	// Ranks of an origin that is cut off end before the job starts again.
	"no-fence-off": func(t testing.TB) string {
		w, wrong := newNet(t, 5, 4), ""
		w.behave = func(k *keeper) {
			k.at = 60 * sec
			if k.start.Launch.Ident.Attempt > 1 && len(w.nodes["n1"].keepers) > 0 {
				wrong = fmt.Sprintf("at %v attempt %d starts on %s, and ranks run on n1", w.Now(), k.start.Launch.Ident.Attempt, k.host.Name)
			}
		}
		r := gang(8)
		r.Policy.Requeue, r.Policy.KillWait = true, sec
		w.detach("n1", 1, r)
		w.run(2 * sec)
		w.split("n1")
		w.run(60 * sec)
		return wrong
	},
	// An old owner whose words come late is not heeded.
	"hopless": func(t testing.TB) string {
		w := newNet(t, 5, 4)
		w.behave = func(k *keeper) { k.at = 60 * sec }
		r := gang(8)
		r.Shape.Only = []filch.NodeName{"n2", "n3"}
		id := w.detach("n1", 1, r)
		w.run(2 * sec)
		w.split("n1")
		w.until("the job to be taken over", 10*sec, func() bool { i, _ := w.told(id); return i.Hop == 1 })
		for i, at := range []filch.NodeName{"n2", "n3"} {
			late := &launcher.Halt{Job: id, Attempt: 1, Index: int32(i), Level: 1 << 20, Signal: 15, Reason: "the scene"}
			w.nodes[at].input(func(out *launcher.Outbox) { w.nodes[at].node.Message(w.Now(), "n1", late, out) })
		}
		w.until("the end of the job", 120*sec, func() bool { i, _ := w.told(id); return i.Code != nil })
		if i, _ := w.told(id); *i.Code != 0 {
			return fmt.Sprintf("the job ended with %d: %s", *i.Code, i.Cause)
		}
		return ""
	},
	// A waiting job of an origin that is cut off does not start there.
	"eager-launch": func(t testing.TB) string {
		w, wrong := newNet(t, 5, 4), ""
		w.behave = func(k *keeper) { k.at = 100 * sec }
		w.submit("n2", 1, gang(20))
		w.run(sec)
		id := w.detach("n1", 2, gang(4))
		w.behave = func(k *keeper) {
			k.at = 60 * sec
			if k.host.Name == "n1" && k.start.Launch.Ident.Job == id {
				wrong = fmt.Sprintf("at %v job %d starts on n1, which is cut off", w.Now(), id)
			}
		}
		w.run(100 * ms)
		w.split("n1")
		w.run(30 * sec)
		return wrong
	},
	// A node takes back what it held while the launch of a detached job waits for its
	// record.
	"stale-launch": func(t testing.TB) string {
		w, wrong := newNet(t, 5, 4), ""
		id := w.holdLaunch()
		told := false
		w.onSend = func(from, to filch.NodeName, m launcher.Message) {
			switch m := m.(type) {
			case *launcher.Grant:
				if to == "n1" && m.Job == id && m.Held == 4 && !told {
					told = true
					less := *m
					less.Held, less.Waiting, less.Version = 0, true, m.Version+1
					w.After(100*ms, func() {
						w.nodes["n1"].input(func(out *launcher.Outbox) { w.nodes["n1"].node.Message(w.Now(), "n2", &less, out) })
					})
				}
			case *launcher.Dispatch:
				if m.Launch.Ident.Job == id && m.Launch.Ident.Attempt == 1 {
					wrong = "the launch goes out on what n2 took back"
				}
			}
		}
		w.run(2 * sec)
		w.faults.stores = nil
		w.until("the end of the job", 60*sec, func() bool { i, _ := w.told(id); return i.Code != nil })
		if !told {
			return "n2 grants nothing"
		}
		return wrong
	},
	"early-fence": rebornOrigin,
	"none-left":   askedForRanks,
}

// holdLaunch has a detached job of n1 wait for n2, which another job has, and keeps its
// launch waiting: the store of n1 is cut off.
func (w *net) holdLaunch() filch.JobID {
	w.behave = func(k *keeper) { k.at = 2 * sec }
	taken := gang(4)
	taken.Shape.Only = []filch.NodeName{"n2"}
	w.submit("n3", 1, taken)
	w.run(sec)
	id := w.detach("n1", 2, taken)
	w.run(500 * ms)
	w.faults.stores = func(from, to filch.NodeName) bool { return from == "n1" || to == "n1" }
	return id
}

// A node that a launch needs is restarted while the launch waits for its record: what
// it held is void, and nothing goes out before the record says who owns the job.
func TestALaunchThatWaitsIsTakenBackFromANodeThatIsRestarted(t *testing.T) {
	w, launches := newNet(t, 5, 4), 0
	id := w.holdLaunch()
	granted := false
	w.onSend = func(_, to filch.NodeName, m launcher.Message) {
		switch m := m.(type) {
		case *launcher.Grant:
			granted = granted || to == "n1" && m.Job == id && m.Held == 4
		case *launcher.Dispatch:
			if m.Launch.Ident.Job == id {
				launches++
			}
		}
	}
	w.until("n2 to lend what the job needs", 5*sec, func() bool { return granted })
	w.run(100 * ms)
	w.crash("n2", true)
	w.run(100 * ms)
	w.restart("n2")
	w.run(3 * sec)
	if launches > 0 {
		t.Errorf("%d launches went out before the record of the job was kept", launches)
	}
	w.faults.stores = nil
	w.until("the end of the job", 60*sec, func() bool { i, _ := w.told(id); return i.Code != nil })
	if i, _ := w.told(id); *i.Code != 0 {
		t.Errorf("the job ended with %d: %s", *i.Code, i.Cause)
	}
}

func TestAnOldOwnerHasNoSay(t *testing.T) {
	for name, scene := range lostScenes {
		t.Run(name, func(t *testing.T) {
			if wrong := scene(t); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}
