package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// TestGiver has the rounds of listing 4 of ADAGE: only the most loaded node of its
// neighborhood gives, to the least loaded; the wait between two rounds doubles up to its bound,
// and begins anew after a gift.
func TestGiver(t *testing.T) {
	const ms = time.Millisecond
	busy := func(wait time.Duration) Load { return Load{Slots: 2, Work: 2 * wait} }
	round := func(g *Giver, now time.Duration, own Load, loads ...Load) filch.NodeName {
		t.Helper()
		if g.At(now, true); !g.Due(now) {
			t.Fatalf("no round is due at %v", now)
		}
		names := []filch.NodeName{"a", "b", "c"}[:len(loads)]
		g.Ask(now, append([]filch.NodeName{}, names...))
		for k, l := range loads {
			if g.Over(now) {
				t.Errorf("the round ends after %d of %d answers", k, len(loads))
			}
			if all := g.Said(names[k], l); all != (k == len(loads)-1) {
				t.Errorf("after %d of %d answers all answered: %v", k+1, len(loads), all)
			}
		}
		to, _ := g.End(now, own, 100)
		return to
	}
	var g Giver
	if at := g.At(0, false); at != filch.Never || g.Due(time.Hour) {
		t.Errorf("a node without tasks gives at %v", at)
	}
	now := time.Second
	if at := g.At(now, true); at != now+giveMin {
		t.Errorf("the first round is at %v, want %v", at, now+giveMin)
	}
	now += giveMin
	if to := round(&g, now, busy(50*ms), busy(20*ms), busy(10*ms), busy(30*ms)); to != "b" {
		t.Errorf("the most loaded node gives to %q, want b", to)
	}
	now = g.At(now, true)
	if to := round(&g, now, busy(50*ms), busy(60*ms), busy(10*ms)); to != "" {
		t.Errorf("a node that is not the most loaded gives to %q", to)
	}
	wait := g.At(now, true) - now
	now += wait
	if to := round(&g, now, busy(10*ms), busy(10*ms)); to != "" || g.At(now, true) != now+2*wait {
		t.Errorf("equal nodes: %q, the next round after %v, want none after %v", to, g.At(now, true)-now, 2*wait)
	}
	if now = g.At(now, true); round(&g, now, Load{Slots: 2, Free: 0}, Load{Slots: 2, Free: 2}) != "a" {
		t.Error("a full node gives nothing to an idle one")
	}
	for range 40 {
		now = g.At(now, true)
		round(&g, now, busy(10*ms), busy(10*ms))
	}
	if wait := g.At(now, true) - now; wait != giveMax {
		t.Errorf("after 40 rounds the wait is %v, want %v", wait, giveMax)
	}
	now = g.At(now, true)
	g.Ask(now, []filch.NodeName{"a", "b"})
	if g.Said("a", Load{Slots: 2, Free: 2}); g.Over(now+AskWait-1) || !g.Over(now+AskWait) {
		t.Error("a round is over before its time, or never")
	}
	if to, _ := g.End(now+AskWait, busy(ms), 100); to != "a" {
		t.Error("a node without an answer holds the round up")
	}
	if g.Said("b", Load{}) || g.Over(now+time.Hour) {
		t.Error("a late answer begins a round")
	}
	if at := g.At(now, false); at != filch.Never || g.At(now, true) != now+giveMin {
		t.Error("new tasks wait as long as the last ones")
	}
}

// TestGiftsEndBalanced: a node without work gets half of the tasks, and another node no more than
// makes the waits equal, so that tasks do not go to and fro.
func TestGiftsEndBalanced(t *testing.T) {
	const ms = time.Millisecond
	busy := func(wait time.Duration) Load { return Load{Slots: 2, Work: 2 * wait} }
	for _, c := range []struct {
		own, other Load
		tasks      int64
		want       int64
	}{
		{busy(100 * ms), Load{Slots: 2, Free: 1}, 9, 5},
		{busy(100 * ms), busy(20 * ms), 100, 40},
		{busy(100 * ms), busy(98 * ms), 100, 1},
		{busy(100 * ms), busy(99 * ms), 100, 0},
		{Load{Slots: 2}, Load{Slots: 2, Free: 2}, 1, 1},
	} {
		var g Giver
		g.At(0, true)
		g.Ask(giveMin, []filch.NodeName{"a"})
		g.Said("a", c.other)
		to, n := g.End(giveMin, c.own, c.tasks)
		if n != c.want || (to != "") != (c.want > 0) {
			t.Errorf("a node that waits for %v gives %d of %d tasks to %q, which waits for %v; want %d", c.own.Wait(), n, c.tasks, to, c.other.Wait(), c.want)
		}
	}
}

// TestRolesSuit: a node for gangs takes no other tasks, and a node for tasks takes no gangs.
func TestRolesSuit(t *testing.T) {
	for role, want := range map[filch.Role][2]bool{filch.ForAll: {true, true}, filch.ForTasks: {true, false}, filch.ForGangs: {false, true}} {
		m := &filch.Member{Name: "a", Role: role}
		task, gang := Suits(&record.Spec{}, m), Suits(&record.Spec{Gang: record.Gang{Ranks: 2}}, m)
		if task != want[0] || gang != want[1] {
			t.Errorf("a node of role %v takes tasks %v and gangs %v, want %v", role, task, gang, want)
		}
	}
}

// TestSpreading has the numbers of dispatchers of MATRIX v1 (3.4).
func TestSpreading(t *testing.T) {
	for name, want := range map[string][]int{"1": {1, 1, 1, 1}, "log": {1, 1, 4, 10}, "sqrt": {1, 1, 4, 32}, "all": {1, 2, 16, 1024}} {
		s, err := ParseSpreading(name)
		if err != nil || s.String() != name {
			t.Errorf("%s reads as %v, %v", name, s, err)
		}
		for k, n := range []int{1, 2, 16, 1024} {
			if got := len(spreadBag(s, slotted(n, func(int) int32 { return 1 }), Bag{Tasks: 1 << 20})); got != want[k] {
				t.Errorf("%s of %d nodes is %d, want %d", name, n, got, want[k])
			}
		}
	}
	if _, err := ParseSpreading("2"); err == nil {
		t.Error("2 reads as a number of nodes")
	}
}

// slotted are n members with slots.
func slotted(n int, slots func(i int) int32) *Members {
	m := NewMembers()
	for i := range n {
		m.Set(filch.Member{Name: filch.NodeName(fmt.Sprintf("n%04d", i)), Incarnation: uint64(i + 1), Total: filch.Room{Slots: slots(i)}})
	}
	return m
}

// spreadBag spreads a bag of the first member until nobody has parts for others, and returns the
// tasks of each node.
func spreadBag(s Spreading, m *Members, b Bag) map[filch.NodeName]int64 {
	if b.Fits == nil {
		b.Fits = func(*filch.Member) bool { return true }
	}
	b.Self = m.At(0).Name
	has := map[filch.NodeName]int64{}
	type work struct {
		bag  Bag
		list []Branch
	}
	queue := []work{{b, s.Branches(m, &b, new(filch.Rand))}}
	for len(queue) > 0 {
		w := queue[0]
		queue = queue[1:]
		left := w.bag.Tasks
		for _, br := range w.list {
			left -= br.Tasks
			next := w.bag
			next.Self, next.Tasks = br.To, br.Tasks
			queue = append(queue, work{next, m.Branches(&next, br.Last)})
		}
		if left > 0 {
			has[w.bag.Self] += left
		}
	}
	return has
}

// A bag goes to all nodes in parts as their slots, to the task, where the instance is larger than
// the first news reaches and the bag does not fit on its node.
func TestBagIsSpreadBySlots(t *testing.T) {
	even := func(int) int32 { return 16 }
	for _, c := range []struct {
		name  string
		nodes int
		slots func(i int) int32
		bag   Bag
		want  func(i int) int64 // nil: nothing leaves the first node
	}{
		{"small instance", 17, even, Bag{Tasks: 5440}, nil},
		{"even", 18, even, Bag{Tasks: 5760}, func(int) int64 { return 320 }},
		{"many nodes", 1024, even, Bag{Tasks: 327680}, func(int) int64 { return 320 }},
		{"fits", 64, even, Bag{Tasks: 16, Free: 16}, nil},
		{"capped", 64, even, Bag{Tasks: 6400, Alone: true}, nil},
		{"uneven", 64, func(i int) int32 { return int32(1 + i%4) }, Bag{Tasks: 1600}, func(i int) int64 { return int64(10 * (1 + i%4)) }},
		{"unsuited", 64, even, Bag{Tasks: 3200, Fits: func(p *filch.Member) bool { return p.Incarnation%2 == 0 }}, func(i int) int64 { return int64(100 * (i % 2)) }},
		{"fewer tasks than nodes", 64, even, Bag{Tasks: 32}, func(int) int64 { return -1 }},
	} {
		m := slotted(c.nodes, c.slots)
		has, sum := spreadBag(spreadAuto, m, c.bag), int64(0)
		for i := range c.nodes {
			n := has[m.At(int32(i)).Name]
			sum += n
			switch {
			case c.want == nil && i > 0 && n > 0:
				t.Errorf("%s: node %d has %d tasks of a bag that stays", c.name, i, n)
			case c.want == nil:
			case c.want(i) < 0 && n > 1, c.want(i) >= 0 && n != c.want(i):
				t.Errorf("%s: node %d has %d tasks, want %d", c.name, i, n, c.want(i))
			}
		}
		if sum != c.bag.Tasks {
			t.Errorf("%s: the nodes have %d of %d tasks", c.name, sum, c.bag.Tasks)
		}
	}
}
