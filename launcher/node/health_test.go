package node_test

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
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
