package members_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/members"
)

// A pause under 3 s kills nobody, whatever the network does meanwhile.
func TestMembersForgivePauses(t *testing.T) {
	seeds(t, 12, func(t *testing.T, seed uint64) {
		w := simCluster(t, seed, 8+int(seed)*2%60)
		w.loss, w.dup, w.tail = 0.05, 0.02, 300*time.Millisecond
		for range 30 {
			n := w.nodes[w.rand.IntN(len(w.nodes))]
			if n.paused < w.Now()-3*time.Second {
				n.pause(time.Duration(w.rand.Int64N(int64(2950 * time.Millisecond))))
			}
			w.run(time.Duration(w.rand.Int64N(int64(2 * time.Second))))
		}
		w.loss = 0
		w.until("nobody is suspected any more", 30*time.Second, w.agreed)
		for _, n := range w.nodes {
			if len(n.deaths) > 0 || n.selves > 0 {
				t.Errorf("%s tells of the deaths of %v and was declared dead %d times, want none", n.name, n.deaths, n.selves)
			}
		}
	})
}

// A crash is suspected within 2 s and known to all 5 s after the last sign of
// life, with half a second for the news; also for several at once.
func TestMembersFindCrashes(t *testing.T) {
	seeds(t, 12, func(t *testing.T, seed uint64) {
		w := simCluster(t, seed, 16+int(seed)*3%60)
		k := 1 + int(seed)%3
		at := w.Now()
		dead := map[filch.NodeName]bool{}
		for len(dead) < k {
			n := w.nodes[w.rand.IntN(len(w.nodes))]
			n.down = true
			dead[n.name] = true
		}
		w.until("all know of the deaths", 20*time.Second, w.agreed)
		for _, n := range w.nodes {
			if n.down {
				continue
			}
			for name := range dead {
				if d := n.deathAt[name] - at; d < 4100*time.Millisecond || d > 6*time.Second {
					t.Errorf("%s knew of the death of %s after %v, want 4.1 to 6 s", n.name, name, d)
				}
				if d := n.suspAt[name] - at; n.suspAt[name] == 0 || d > 2300*time.Millisecond {
					t.Errorf("%s knew of the suspicion of %s after %v, want at most 2 s after its last word", n.name, name, d)
				}
			}
			if len(n.deaths) != k || n.selves > 0 {
				t.Errorf("%s tells of the deaths of %v, want %d", n.name, n.deaths, k)
			}
		}
	})
}

// Most of the cluster dies at once: the few survivors find out in time that
// grows with the logarithm of the number.
func TestMembersSurviveTheLossOfMost(t *testing.T) {
	seeds(t, 3, func(t *testing.T, seed uint64) {
		w := simCluster(t, seed, 64)
		for i, n := range w.nodes {
			n.down = i%13 != 0
		}
		w.until("the survivors agree", 40*time.Second, w.agreed)
	})
}

// A network that was cut in two: each side declares the other dead, and after
// the heal the smaller side, and only that, starts anew.
func TestMembersMergeAfterACut(t *testing.T) {
	seeds(t, 12, func(t *testing.T, seed uint64) {
		w := simCluster(t, seed, 10+int(seed)%40)
		small := 1 + w.rand.IntN(len(w.nodes)/2-1)
		side := func(i int) bool { return i < small }
		w.cut = func(a, b int) bool { return side(a) != side(b) }
		w.until("both sides have declared the other dead", 90*time.Second, func() bool {
			for _, n := range w.nodes {
				want := small
				if !side(n.i) {
					want = len(w.nodes) - small
				}
				if n.m.Live() != want {
					return false
				}
			}
			return true
		})
		w.run(time.Duration(w.rand.Int64N(int64(20 * time.Second))))
		w.cut = func(int, int) bool { return false }
		w.until("the list is whole again", 5*time.Minute, w.agreed)
		for _, n := range w.nodes {
			if side(n.i) != (n.selves > 0) {
				t.Errorf("%s of %d nodes, small side %d, was declared dead %d times", n.name, len(w.nodes), small, n.selves)
			}
		}
	})
}

// Sides of the same size agree as well on who starts anew; and of two nodes a
// failed redial alone decides that one is dead.
func TestMembersMergeEqualSides(t *testing.T) {
	seeds(t, 8, func(t *testing.T, seed uint64) {
		w := simCluster(t, seed, 2+2*(int(seed)%4))
		half := len(w.nodes) / 2
		w.cut = func(a, b int) bool { return (a < half) != (b < half) }
		w.until("both sides have declared the other dead", 90*time.Second, func() bool {
			for _, n := range w.nodes {
				if n.m.Live() != half {
					return false
				}
			}
			return true
		})
		w.cut = func(int, int) bool { return false }
		w.until("the list is whole again", 5*time.Minute, w.agreed)
		first, second := 0, 0
		for _, n := range w.nodes {
			if n.selves > 0 && n.i < half {
				first++
			} else if n.selves > 0 {
				second++
			}
		}
		if first+second != half || first != 0 && second != 0 {
			t.Errorf("%d nodes of the one side and %d of the other started anew, want all %d of one", first, second, half)
		}
	})
}

// Cuts of any length and in one direction only, pauses of any length, loss,
// repetition and delay: when it is over the list becomes whole again.
func TestMembersHeal(t *testing.T) {
	seeds(t, 16, func(t *testing.T, seed uint64) {
		w := simCluster(t, seed, 5+int(seed)%20)
		w.loss, w.dup, w.tail = w.rand.Float64()*0.2, 0.05, 400*time.Millisecond
		for range 12 {
			switch w.rand.IntN(4) {
			case 0:
				w.nodes[w.rand.IntN(len(w.nodes))].pause(time.Duration(w.rand.Int64N(int64(15 * time.Second))))
			case 1:
				a, b := w.rand.IntN(len(w.nodes)), w.rand.IntN(len(w.nodes))
				w.cut = func(x, y int) bool { return x == a && y == b }
			case 2:
				mask := w.rand.Uint64()
				w.cut = func(x, y int) bool { return mask>>(x%64)&1 != mask>>(y%64)&1 }
			case 3:
				deaf := w.rand.IntN(len(w.nodes))
				w.cut = func(_, y int) bool { return y == deaf }
			}
			w.run(time.Duration(w.rand.Int64N(int64(12 * time.Second))))
		}
		w.loss, w.tail = 0, 0
		w.cut = func(int, int) bool { return false }
		w.until("the list is whole again", 15*time.Minute, w.agreed)
	})
}

// Nodes come, go, crash and come back all the time; when that ends all agree.
func TestMembersFollowChurn(t *testing.T) {
	seeds(t, 12, func(t *testing.T, seed uint64) {
		w := simCluster(t, seed, 10)
		w.loss, w.dup, w.tail = 0.02, 0.02, 100*time.Millisecond
		running := func() *simNode {
			for {
				if n := w.nodes[w.rand.IntN(len(w.nodes))]; !n.down && n.m.Joined() {
					return n
				}
			}
		}
		left := map[filch.NodeName]bool{}
		for i := range 40 {
			n := w.nodes[w.rand.IntN(len(w.nodes))]
			switch k := w.rand.IntN(4); {
			case n.down:
				w.add(n.name, running())
				delete(left, n.name)
			case k == 0:
				w.add(filch.NodeName(fmt.Sprintf("x%d", i)), running())
			case k == 1 && running() != n:
				n.down = true
			case k == 2 && running() != n && n.m.Joined():
				n.do(func(out *members.Out) { n.m.Leave(n.clock(), out) })
				n.down, left[n.name] = true, true
			}
			w.run(time.Duration(w.rand.Int64N(int64(3 * time.Second))))
		}
		w.loss = 0
		w.until("all agree", 2*time.Minute, w.agreed)
		for _, n := range w.nodes {
			if !n.down && n.selves > 0 {
				t.Errorf("%s was declared dead, though it never was silent", n.name)
			}
		}
	})
}

// The same seed makes the same run, message by message.
func TestMembersRepeat(t *testing.T) {
	run := func() (int, string) {
		w := simCluster(t, 3, 20)
		w.loss, w.dup = 0.1, 0.1
		w.nodes[4].pause(9 * time.Second)
		w.nodes[5].down = true
		w.run(30 * time.Second)
		return w.sent, w.views()
	}
	sent, views := run()
	again, same := run()
	if sent != again || views != same {
		t.Errorf("got %d messages, then %d; same views: %v", sent, again, views == same)
	}
}

// The cost of an idle node does not grow with the list, messages stay within
// their limit, and a late joiner gets them all.
func TestMembersScale(t *testing.T) {
	n := 300
	w := newWorld(t, 1)
	for i := range n {
		var via *simNode
		if i > 0 {
			via = w.nodes[w.rand.IntN(i)]
		}
		w.add(filch.NodeName(fmt.Sprintf("n%d", i)), via)
		if i%100 == 99 {
			w.run(200 * time.Millisecond)
		}
	}
	w.until("all have joined", time.Minute, w.agreed)
	t.Logf("joined after %v and %d messages, %.1f for a node; the largest has %d bytes", w.Now(), w.sent, float64(w.sent)/float64(n), w.largest)
	if w.largest > members.MaxGossip {
		t.Errorf("a message of %d bytes, want at most %d", w.largest, members.MaxGossip)
	}
	w.run(2 * time.Second)
	before := w.sent
	w.run(4 * time.Second)
	rate := float64(w.sent-before) / float64(n) / 4
	if rate > 6 {
		t.Errorf("an idle node sends %.1f messages a second, want about 4", rate)
	}
	widest := 0
	for _, s := range w.nodes {
		widest = max(widest, len(s.m.Neighbors()))
	}
	if widest > 40 {
		t.Errorf("a node has %d neighbors, want at most 40", widest)
	}
}
