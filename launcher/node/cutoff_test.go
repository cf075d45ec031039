package node_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// cutOff cuts a node off from the others; each side says, some seconds later, that the
// other is dead, unless its launcher was started again meanwhile: that one knows nobody.
func (w *net) cutOff(name filch.NodeName) {
	w.faults.cut = func(from, to filch.NodeName) bool { return (from == name) != (to == name) }
	h, was := w.nodes[name], w.nodes[name].node
	seen := w.peer(name, filch.Up)
	tell := func(s filch.Standing) {
		seen.Standing = s
		for _, o := range w.names {
			if p := w.nodes[o]; p != h {
				p.input(func(out *launcher.Outbox) { p.node.Peer(w.Now(), seen, out) })
				if h.node == was && h.Up() {
					h.input(func(out *launcher.Outbox) { h.node.Peer(w.Now(), w.peer(o, s), out) })
				}
			}
		}
	}
	w.After(2*sec, func() { tell(filch.Suspect) })
	w.After(5*sec, func() { tell(filch.Dead) })
}

// The launcher of a node that is cut off dies and is started again: the others hear
// neither, and start the lost jobs again when the lease is over.
func TestALeaseIsCountedOverARestartThatNobodySees(t *testing.T) {
	for _, origin := range []bool{false, true} {
		for _, detached := range []bool{false, true} {
			for _, forgets := range []bool{false, true} {
				for _, after := range []time.Duration{-sec, 1500 * ms, 4500 * ms, 8 * sec, 9500 * ms} {
					what := fmt.Sprintf("origin %t, detached %t, forgets %t, after %v", origin, detached, forgets, after)
					if origin && !detached || forgets && !detached {
						continue // it decides about the job itself; and no roster matters
					}
					if wrong := hiddenRestart(t, origin, detached, forgets, after); wrong != "" {
						t.Errorf("%s: %s", what, wrong)
					}
				}
			}
		}
	}
}

func hiddenRestart(t *testing.T, origin, detached, forgets bool, after time.Duration) (wrong string) {
	w, lost := newNet(t, 6, 4), filch.NodeName("n1")
	onceOnly(w, &wrong)
	r := gang(8)
	r.Policy.Requeue, r.Policy.KillWait = true, sec
	if !origin {
		r.Shape.Exclude = []filch.NodeName{"n1"}
	}
	if detached {
		w.detach("n1", 1, r)
	} else {
		w.submit("n1", 1, r)
	}
	w.run(2 * sec)
	if !origin {
		lost = w.inhabited()
	}
	if w.live(lost) == 0 {
		t.Fatalf("no ranks run on %s", lost)
	}
	dies := func() {
		w.crash(lost, false)
		if forgets {
			clear(w.nodes[lost].disk)
		}
	}
	if after < 0 {
		dies()
		w.cutOff(lost)
	} else {
		w.cutOff(lost)
		w.run(after)
		dies()
	}
	w.run(sec)
	w.restart(lost)
	w.until("the ranks there to end", 20*sec, func() bool { return w.live(lost) == 0 })
	w.run(20 * sec)
	w.heal(lost)
	w.run(60 * sec)
	w.quiet()
	return wrong
}

// One that is back while it is in touch keeps its ranks.
func TestALeaseBeginsAgainWithAMessageOfTheOrigin(t *testing.T) {
	for _, detached := range []bool{false, true} {
		w := newNet(t, 6, 4)
		w.behave = func(k *keeper) { k.at = 40 * sec }
		id := again(w, detached)
		w.run(2 * sec)
		w.late = 500 * ms
		for range 3 {
			who := w.inhabited()
			w.crash(who, false)
			w.run(4 * sec)
			w.restart(who)
			w.run(3 * time.Second)
		}
		w.run(60 * sec)
		if i, _ := w.nodes["n1"].node.Job(w.Now(), id); i.State != "ok" || i.Attempt != 1 {
			t.Errorf("detached %t: ended %+v", detached, i)
		}
		w.quiet()
	}
}

// A firewall rejects all that comes to a node, and lets it be heard for a moment
// between: whichever side of a run sees the other back, the lease is renewed at once.
func TestAMomentInTouchRenewsTheLease(t *testing.T) {
	for _, seenBy := range []filch.NodeName{"n1", "n2"} {
		w := newNet(t, 2, 4)
		w.behave = func(k *keeper) { k.at = 40 * sec }
		id := w.submit("n1", 1, gang(8))
		w.run(sec)
		other := map[filch.NodeName]filch.NodeName{"n1": "n2", "n2": "n1"}[seenBy]
		see := func(s filch.Standing) {
			h := w.nodes[seenBy]
			h.input(func(out *launcher.Outbox) { h.node.Peer(w.Now(), w.peer(other, s), out) })
		}
		for range 6 {
			w.faults.cut = func(from, to filch.NodeName) bool { return true }
			w.run(100 * ms)
			see(filch.Gone)
			w.run(2900 * ms)
			w.faults.cut = nil
			see(filch.Up)
			w.run(20 * ms)
		}
		w.run(40 * sec)
		if e := w.ended(id); e.Code != 0 {
			t.Errorf("seen by %s: ended %+v, want 0", seenBy, e)
		}
		w.quiet()
	}
}
