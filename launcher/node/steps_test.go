package node_test

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// stepWorld is a job of eight ranks on n1 and n2 of three nodes, submitted on
// n1, that lives for a minute; its steps live for two seconds.
func stepWorld(t *testing.T) (*net, filch.JobID) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) {
		k.at = 60 * sec
		if k.start.Launch.Parent != 0 {
			k.at = 2 * sec
		}
	}
	r := gang(8)
	r.Shape.Only = []filch.NodeName{"n1", "n2"}
	id := w.submit("n1", 1, r)
	w.run(sec)
	return w, id
}

func step(parent filch.JobID, n int32) launcher.Request {
	r := gang(n)
	r.Parent = parent
	return r
}

func TestStepUsesSlotsOfItsParent(t *testing.T) {
	for _, from := range []filch.NodeName{"n1", "n2"} {
		w, parent := stepWorld(t)
		id := w.submit(from, 2, step(parent, 8))
		w.run(sec)
		for _, h := range w.nodes {
			if s := h.node.Slots(); s.Free != s.Slots-s.Running || h.Name == "n3" && s.Running > 0 {
				t.Errorf("%s: %+v, want the step within its parent's slots", h.Name, s)
			}
		}
		if i, ok := w.nodes[from].node.Job(w.Now(), id); !ok || i.Kind != "step" || i.Parent != parent || len(i.Nodes) != 2 {
			t.Errorf("step %+v, want it on both nodes", i)
		}
		w.run(2 * sec)
		if e := w.ended(id); e.Code != 0 {
			t.Errorf("from %s: ended %+v, want 0", from, e)
		}
		w.run(60 * sec)
		w.ended(parent)
		w.quiet()
	}
}

func TestStepsWaitForTheirSiblings(t *testing.T) {
	w, parent := stepWorld(t)
	a := w.submit("n2", 2, step(parent, 6))
	w.run(10 * ms)
	b := w.submit("n1", 3, step(parent, 6))
	w.run(10 * ms)
	c := w.submit("n2", 4, step(parent, 2))
	w.run(sec)
	x, err := w.nodes["n1"].node.Explain(w.Now(), b)
	if err != nil || !strings.Contains(x.Text, "step") {
		t.Errorf("explains %+v, want that it waits for a step", x)
	}
	w.run(1500 * ms)
	w.ended(a)
	w.run(2 * sec)
	if e := w.ended(b); e.Code != 0 {
		t.Errorf("ended %+v, want 0", e)
	}
	if e := w.ended(c); e.Code != 0 {
		t.Errorf("ended %+v, want 0", e)
	}
	w.run(60 * sec)
	w.quiet()
}

func TestAStepLargerThanItsParentIsRefusedAtOnce(t *testing.T) {
	w, parent := stepWorld(t)
	w.submit("n2", 2, step(parent, 9))
	w.run(10 * ms)
	last := w.replies[len(w.replies)-1]
	if !strings.Contains(last, "room for 8") || !strings.Contains(last, "--new-job") || !strings.Contains(last, "Refused 125") {
		t.Errorf("heard %s, want a refusal with the numbers", last)
	}
	r := step(parent, 3)
	r.Shape.MinNodes = 3
	w.submit("n2", 2, r)
	w.run(10 * ms)
	if last := w.replies[len(w.replies)-1]; !strings.Contains(last, "on 3 nodes") {
		t.Errorf("heard %s, want a refusal that names the nodes", last)
	}
	w.submit("n3", 2, step(parent, 1))
	w.run(10 * ms)
	if last := w.replies[len(w.replies)-1]; !strings.Contains(last, "no ranks on n3") {
		t.Errorf("heard %s, want a refusal where the job is not", last)
	}
}

// A job that was gathered from what was free has more ranks on one node than on
// another. An srun in it lays its ranks out as evenly as those nodes have room.
// TestAStepThatFitsNoMoreIsRefused ends the ranks of the parent on one of two nodes while a
// step waits: the step that the rest of the parent cannot hold is refused, and the step
// behind it starts.
func TestAStepThatFitsNoMoreIsRefused(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) {
		switch l := &k.start.Launch; {
		case l.Parent != 0:
			k.at = 5 * sec
		case k.start.Index == 1:
			k.at = 3 * sec
		default:
			k.at = 60 * sec
		}
	}
	r := gang(8)
	r.Shape.Only = []filch.NodeName{"n1", "n2"}
	parent := w.submit("n1", 1, r)
	w.run(sec)
	w.submit("n1", 2, step(parent, 3))
	w.run(10 * ms)
	w.submit("n1", 3, step(parent, 6))
	w.run(10 * ms)
	c := w.submit("n1", 4, step(parent, 4))
	w.run(3 * sec)
	if all := strings.Join(w.replies, "\n"); !strings.Contains(all, "room for 4") || !strings.Contains(all, "Refused 125") {
		t.Errorf("heard\n%s\nwant a refusal of the step of 6 ranks, as 4 slots are left", all)
	}
	w.run(10 * sec)
	if e := w.ended(c); e.Code != 0 {
		t.Errorf("the step behind ended %+v, want 0", e)
	}
}

func TestAnEvenStepFitsOnAnUnevenParent(t *testing.T) {
	for want, others := range map[string]int32{"n1:[{0 3}] n2:[{3 1}]": 1, "n1:[{0 2}] n2:[{2 2}]": 2, "n1:[{0 1}] n2:[{1 3}]": 3} {
		w := newNet(t, 2, 4)
		w.behave = func(k *keeper) { k.at = 60 * sec }
		w.submit("n1", 1, gang(others))
		parent := w.submit("n1", 2, gang(4))
		w.run(sec)
		r := step(parent, 4)
		r.Shape.MinNodes, r.Shape.MaxNodes, r.Shape.Even = 2, 2, true
		id := w.submit("n1", 3, r)
		w.run(sec)
		if got := w.ranksOf(id); got != want {
			t.Errorf("beside %d ranks: the step is on %q, want %q; heard %s", others, got, want, w.replies[len(w.replies)-1])
		}
	}
}

func TestStepsEndWithTheirParent(t *testing.T) {
	w, parent := stepWorld(t)
	w.behave = func(k *keeper) { k.at = 100 * sec }
	a := w.submit("n2", 2, step(parent, 8))
	b := w.submit("n2", 3, step(parent, 1))
	w.run(sec)
	n1 := w.nodes["n1"]
	n1.input(func(out *launcher.Outbox) { n1.node.Cancel(w.Now(), parent, 0, "user", out) })
	w.run(2 * sec)
	w.ended(parent)
	if e := w.ended(a); e.Code == 0 {
		t.Errorf("ended %+v, want it ended with its parent", e)
	}
	if len(w.events[b]) != 2 {
		if last := w.replies[len(w.replies)-1]; !strings.Contains(last, "ended while it waited") {
			t.Errorf("heard %v and %s, want the waiting step refused", w.events[b], last)
		}
	}
	w.run(10 * sec)
	w.quiet()
}

// The step around may have been started on another node than the job.
func TestAStepOfAStepUsesTheJob(t *testing.T) {
	for _, from := range []filch.NodeName{"n1", "n2"} {
		w, parent := stepWorld(t)
		w.behave = func(k *keeper) { k.at = 2 * sec }
		a := w.submit(from, 2, step(parent, 2))
		w.run(100 * ms)
		b := w.submit(from, 3, step(a, 4))
		w.run(3 * sec)
		w.ended(a)
		if e := w.ended(b); e.Code != 0 {
			t.Errorf("%s: ended %+v, want 0", from, e)
		}
		w.run(60 * sec)
		w.quiet()
	}
}

func TestStepsSurviveLossAndTheDeathOfTheirOrigin(t *testing.T) {
	for seed := range uint64(30) {
		w, parent := stepWorld(t)
		w.rng = filch.Rand(seed + 1)
		w.faults = faults{drop: 0.1, dup: 0.1, delayMax: 2 * ms}
		for i := range 10 {
			w.submit(w.names[i%2], launcher.ClientID(10+i), step(parent, int32(1+i%8)))
			w.run(100 * ms)
		}
		if seed%3 == 0 {
			w.crash("n2", true)
			w.run(5 * sec)
			w.declare("n2", filch.Dead)
			w.run(2 * sec)
		}
		w.run(120 * sec)
		w.ended(parent)
		w.quiet()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
