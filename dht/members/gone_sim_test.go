package members_test

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht/members"
)

// soon is within which all know of a process that was killed.
const soon = 200 * time.Millisecond

func (w *world) state(of, at *simNode) members.State {
	m, _ := at.m.Get(of.name)
	return m.State
}

// A process that is killed is gone for all others at once, and dead five seconds
// after its last sign of life.
func TestMembersFindTheKilled(t *testing.T) {
	seeds(t, 12, func(t *testing.T, seed uint64) {
		w := simCluster(t, seed, 3+int(seed)*5%40)
		n := w.nodes[w.rand.IntN(len(w.nodes))]
		at := w.Now()
		n.kill()
		w.until("all know of the death", 20*time.Second, w.agreed)
		for _, o := range w.nodes {
			if o == n {
				continue
			}
			if d := o.goneAt[n.name] - at; o.goneAt[n.name] == 0 || d > soon {
				t.Errorf("%s knew after %v that %s is gone, want within %v", o.name, d, n.name, soon)
			}
			if d := o.deathAt[n.name] - at; d < 4*time.Second || d > 6*time.Second {
				t.Errorf("%s knew of the death of %s after %v, want 4 to 6 s", o.name, n.name, d)
			}
			if len(o.deaths) > 1 || o.selves > 0 {
				t.Errorf("%s tells of the deaths of %v, want one", o.name, o.deaths)
			}
		}
	})
}

// A node that is started again while it is gone is up at once.
func TestMembersTakeTheKilledBack(t *testing.T) {
	seeds(t, 8, func(t *testing.T, seed uint64) {
		w := simCluster(t, seed, 4+int(seed)*3%20)
		n, via := w.nodes[1], w.nodes[2]
		n.kill()
		w.run(time.Second)
		if s := w.state(n, via); s != members.Gone {
			t.Fatalf("%s is %v after a second, want gone", n.name, s)
		}
		w.add(n.name, via)
		w.until("the list is whole", 3*time.Second, w.agreed)
		for _, o := range w.nodes {
			if len(o.deaths) > 0 {
				t.Errorf("%s tells of the deaths of %v, want none", o.name, o.deaths)
			}
		}
	})
}

// What one node alone finds refused is not gone, nor is a node of two.
func TestMembersNeedAWitness(t *testing.T) {
	seeds(t, 8, func(t *testing.T, seed uint64) {
		w := simCluster(t, seed, 2+int(seed)%9)
		n := w.nodes[0]
		only := 1 + w.rand.IntN(len(w.nodes)-1)
		w.rejects = func(from, to int) bool { return from == only && to == 0 }
		w.reset(n, func(o *simNode) bool { return o.i == only })
		w.run(3 * time.Second)
		for _, o := range w.nodes {
			if len(o.goneAt) > 0 {
				t.Errorf("%s of %d nodes calls %v gone, and one alone found it refused", o.name, len(w.nodes), o.goneAt)
			}
		}
		w.rejects = nobody
		w.until("all agree", 20*time.Second, w.agreed)
	})
}

// A witness whose own connection goes a moment later is asked again.
func TestMembersAskWitnessesAgain(t *testing.T) {
	seeds(t, 6, func(t *testing.T, seed uint64) {
		w := simCluster(t, seed, 3+int(seed)%3)
		n := w.nodes[0]
		n.down, n.killed = true, true
		w.linked = func(from, to int) bool { return from > 1 && to == 0 }
		w.reset(n, func(o *simNode) bool { return o.i == 1 })
		w.run(300 * time.Millisecond)
		w.linked = nobody // and nobody but the first node saw it close
		w.until("all call it gone", time.Second, func() bool {
			for _, o := range w.nodes {
				if o != n && w.state(n, o) != members.Gone {
					return false
				}
			}
			return true
		})
	})
}

// A firewall that rejects a live node is found out: the node is told by whom it
// can reach, refutes it, and is not called gone again soon. Nobody dies of it.
func TestMembersRefuteThatTheyAreGone(t *testing.T) {
	seeds(t, 12, func(t *testing.T, seed uint64) {
		w := simCluster(t, seed, 4+int(seed)*3%20)
		n := w.nodes[0]
		// Nobody can dial it; it can dial the others.
		w.rejects = func(_, to int) bool { return to == 0 }
		reject := func() { w.reset(n, func(o *simNode) bool { return true }) }
		reject()
		w.until("somebody calls it gone", time.Second, func() bool {
			for _, o := range w.nodes {
				if o != n && w.state(n, o) == members.Gone {
					return true
				}
			}
			return false
		})
		w.rejects = nobody // it has dialed the others
		w.until("it is refuted, with its next beat", members.BeatEvery+100*time.Millisecond, w.agreed)
		for _, o := range w.nodes {
			clear(o.goneAt)
		}
		w.rejects = func(_, to int) bool { return to == 0 }
		reject()
		w.run(time.Second)
		w.rejects = nobody
		w.until("all agree", 20*time.Second, w.agreed)
		for _, o := range w.nodes {
			if len(o.goneAt) > 0 || len(o.deaths) > 0 || o.selves > 0 {
				t.Errorf("%s called %v gone again within %v, tells of the deaths of %v, fell %d times", o.name, o.goneAt, 30*time.Second, o.deaths, o.selves)
			}
		}
	})
}

// A host that is cut off answers nothing, so its node is not gone: it is silent.
func TestMembersDoNotCallTheSilentGone(t *testing.T) {
	w := simCluster(t, 5, 9)
	w.cut = func(a, b int) bool { return a == 0 || b == 0 }
	w.reset(w.nodes[0], func(*simNode) bool { return true })
	w.run(4 * time.Second)
	for _, o := range w.nodes {
		if len(o.goneAt) > 0 {
			t.Errorf("%s calls %v gone", o.name, o.goneAt)
		}
	}
}
