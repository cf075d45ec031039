package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/submit"
)

// selfDrain carries out the drains that nodes begin and end by themselves, as daemons do.
func (w *net) selfDrain(sick map[filch.NodeName]bool) *net {
	w.chores.end = func(h *host, l launcher.TaskLaunch) launcher.TaskEnd {
		if sick[h.Name] {
			return launcher.TaskEnd{Kind: launcher.CauseExit, Code: 3}
		}
		return launcher.TaskEnd{}
	}
	w.drains = func(h *host, d launcher.Drain) { w.drain(h.Name, d.Reason) }
	return w
}

func badNodes(w *net) (bad []filch.NodeName) {
	for _, name := range w.names {
		if d := w.nodes[name].node.Slots().Drain; d != nil && launcher.IsBad(d.Reason) {
			bad = append(bad, name)
		}
	}
	return bad
}

// A node on which all tasks fail drains, says why, and takes work again when a person
// says so. Where all nodes fail the tasks, none drains.
func TestBadNodeDrains(t *testing.T) {
	w := netOf(t, 4, 2, net{chores: chores{lasts: 50 * ms, drainBad: 5}}).selfDrain(map[filch.NodeName]bool{"n2": true})
	id := w.bag("n1", 1, 400, nil)
	if n := w.tally(id, 120*sec); n.Failed < 5 || n.Failed > 60 {
		t.Errorf("%d of 400 tasks failed, want those until n2 drained", n.Failed)
	}
	if bad := badNodes(w); len(bad) != 1 || bad[0] != "n2" {
		t.Fatalf("%v drain, want n2", bad)
	}
	if text, _ := w.nodes["n4"].node.Drained(); !strings.Contains(text, "n2 is drained (bad node: ") || !strings.Contains(text, "with code 3") {
		t.Errorf("of the drain it is said %q", text)
	}
	w.drain("n2", "")
	w.run(sec)
	if bad := badNodes(w); len(bad) > 0 {
		t.Errorf("%v drain at once again", bad)
	}

	all := map[filch.NodeName]bool{"n1": true, "n2": true, "n3": true, "n4": true}
	w = netOf(t, 4, 2, net{chores: chores{lasts: 50 * ms, drainBad: 5}}).selfDrain(all)
	id = w.bag("n1", 1, 200, nil)
	w.tally(id, 120*sec)
	if bad := badNodes(w); len(bad) > 0 {
		t.Errorf("%v drain although the job fails everywhere", bad)
	}
}

// Three of eight nodes are bad: a quarter drains.
func TestAtMostAQuarterDrains(t *testing.T) {
	w := netOf(t, 8, 2, net{chores: chores{lasts: 50 * ms, drainBad: 5}}).selfDrain(map[filch.NodeName]bool{"n2": true, "n5": true, "n7": true})
	w.tally(w.bag("n1", 1, 1500, nil), 120*sec)
	w.run(5 * sec)
	if bad := badNodes(w); len(bad) != 2 {
		t.Errorf("%v drain, want two of the three bad nodes", bad)
	}
}

// A node on which tasks fail at once gets few tasks of a bag until tasks ended well on other
// nodes, and then drains, however long these take.
func TestBadNodeThatFailsFastEatsNoBag(t *testing.T) {
	for _, c := range []struct {
		lasts  time.Duration // of a task that ends well
		slots  int32
		failed int32 // at most
	}{{200 * ms, 2, 10}, {60 * sec, 2, 30}, {60 * sec, 64, 200}} {
		t.Run(fmt.Sprint(c.lasts, "-", c.slots), func(t *testing.T) {
			w := netOf(t, 4, c.slots, net{chores: chores{lasts: c.lasts, brief: ms, drainBad: 3}}).selfDrain(map[filch.NodeName]bool{"n2": true})
			total := 75 * c.slots
			if n := w.tally(w.bag("n1", 1, total, nil), 7200*sec); n.Failed < 3 || n.Failed > c.failed || n.OK != total-n.Failed {
				t.Errorf("%d of %d tasks failed, %d ended well, want 3 to %d failures", n.Failed, total, n.OK, c.failed)
			}
			if bad := badNodes(w); len(bad) != 1 || bad[0] != "n2" {
				t.Errorf("%v drain, want n2", bad)
			}
		})
	}
}

// Where the tasks fail at once on all nodes, or no other node can take tasks, the nodes go on.
func TestBagThatFailsEverywhereIsNotHeld(t *testing.T) {
	for _, c := range []struct {
		name   string
		nodes  int
		change func(*submit.Job)
		most   time.Duration
	}{
		{"everywhere", 4, nil, 3 * sec},
		{"with-retries", 4, func(j *submit.Job) { j.Spec.Retries = 2 }, 60 * sec},
		{"one-node", 1, nil, 3 * sec},
		{"one-node-suits", 4, func(j *submit.Job) { j.Spec.Nodes = &filch.Nodes{Only: []filch.NodeName{"n1"}} }, 3 * sec},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := map[filch.NodeName]bool{"n1": true, "n2": true, "n3": true, "n4": true}
			w := netOf(t, c.nodes, 2, net{chores: chores{lasts: ms, brief: ms, drainBad: 10}}).selfDrain(all)
			before := w.Now()
			if n := w.tally(w.bag("n1", 1, 2000, c.change), 7200*sec); n.Failed != 2000 {
				t.Errorf("%d of 2000 tasks failed", n.Failed)
			}
			if took := w.Now() - before; took > c.most {
				t.Errorf("the bag took %v, want %v at most", took, c.most)
			}
			if bad := badNodes(w); len(bad) > 0 {
				t.Errorf("%v drain", bad)
			}
		})
	}
}
