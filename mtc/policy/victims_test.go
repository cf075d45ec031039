package policy

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/filch-hpc/filch"
)

func TestVictimsAreDrawnAnew(t *testing.T) {
	m := NewMembers()
	for i := range 100 {
		p := filch.Member{Name: numbered(i), Incarnation: 1, Group: fmt.Sprint(i / 10)}
		if i == 50 {
			p.Standing = filch.Suspect
		}
		m.Set(p)
	}
	a, b := filch.Rand(1), filch.Rand(2)
	same, seen := 0, map[filch.NodeName]bool{}
	for range 200 {
		x, y := m.Choose(Random, Search{Self: "n1", Width: 10}, &a), m.Choose(Random, Search{Self: "n2", Width: 10}, &b)
		if len(x) != 10 || slices.Contains(x, "n1") || slices.Contains(x, "n51") {
			t.Fatalf("n1 asks %v", x)
		}
		sorted := slices.Clone(x)
		slices.Sort(sorted)
		if len(slices.Compact(sorted)) != 10 {
			t.Fatalf("n1 asks somebody twice: %v", x)
		}
		if slices.Equal(x, y) {
			same++
		}
		for _, n := range x {
			seen[n] = true
		}
	}
	if same > 0 || len(seen) != 98 {
		t.Errorf("two nodes chose the same %d times of 200, and one saw %d of 98 others", same, len(seen))
	}
	near := m.Choose(Hierarchical, Search{Self: "n15", Width: 5}, &a)
	for _, n := range near {
		if g := m.Get(n).Group; g != "1" {
			t.Errorf("n15 asks %s of group %s first", n, g)
		}
	}
}

func TestMeshIsThePapers(t *testing.T) {
	for _, c := range []struct{ nodes, d, z, x, f int }{{41, 4, 16, 12, 12}, {25, 3, 12, 8, 4}, {13, 2, 8, 4, 0}, {5, 1, 0, 4, 0}} {
		count := map[Class]int{}
		places := map[spot]bool{}
		d := spotOf(c.nodes - 1).hops(spot{})
		for i := range c.nodes {
			s := spotOf(i)
			places[s] = true
			count[s.class(d)]++
		}
		if d != c.d || len(places) != c.nodes || count[ClassZ] != c.z || count[ClassX] != c.x || count[ClassF] != c.f {
			t.Errorf("%d nodes: d %d, %d places, Z %d, X %d, F %d; want d %d, Z %d, X %d, F %d",
				c.nodes, d, len(places), count[ClassZ], count[ClassX], count[ClassF], c.d, c.z, c.x, c.f)
		}
	}
}

// TestMeshOfLiveNodes: each node lists the members in the order of its own acquaintance,
// itself first, and all nodes place them alike round the source, the leader of the job. X
// asks victims nearer to the source first, Z and F farther ones; nobody steals over more
// than two hops (DVS, definitions 1 and 2).
func TestMeshOfLiveNodes(t *testing.T) {
	const n, source = 41, 28
	place := func(i int) spot { return spotOf((i - source + n) % n) } // names are in the order of numbers
	name := func(i int) filch.NodeName { return filch.NodeName(fmt.Sprintf("n%02d", i)) }
	classes := map[Class]int{}
	for self := range n {
		m := NewMembers()
		for k := range n {
			m.Set(filch.Member{Name: name((self + 7*k) % n), Incarnation: 1})
		}
		me := place(self)
		class := me.class(4)
		classes[class]++
		list := m.Choose(Mesh, Search{Self: name(self), Source: name(source), Width: 6}, new(filch.Rand))
		want := 0
		for k := range n {
			s, h := place(k), me.hops(place(k))
			if h == 1 || h == 2 && (class == ClassZ && s.class(4) == ClassZ || class == ClassX && me.hops(spot{}) == 1 && s.class(4) == ClassX) {
				want++
			}
		}
		if len(list) != want {
			t.Errorf("node %d of class %d has %d victims, want %d: %v", self, class, len(list), want, list)
		}
		last := -1
		for _, v := range list {
			var i int
			if _, err := fmt.Sscanf(string(v), "n%d", &i); err != nil {
				t.Fatal(err)
			}
			if me.hops(place(i)) > 2 {
				t.Errorf("node %d steals over %d hops", self, me.hops(place(i)))
			}
			near := place(i).hops(spot{})
			if class == ClassF || class == ClassZ {
				near = 4 - near
			}
			if near < last {
				t.Errorf("node %d of class %d asks in the order %v", self, class, list)
			}
			last = near
		}
		if far := m.Choose(Mesh, Search{Self: name(self), Source: name(source), Width: 6, Failures: meshPatience}, new(filch.Rand)); len(far) != 6 {
			t.Errorf("after %d failures node %d asks %d nodes, want 6", meshPatience, self, len(far))
		}
	}
	if classes[Source] != 1 || classes[ClassX] != 12 || classes[ClassZ] != 16 || classes[ClassF] != 12 {
		t.Errorf("classes %v", classes)
	}
}

// TestOrderedSurvey: in DVS the first victim in the order that has work is taken, not the
// most loaded (definition 2).
func TestOrderedSurvey(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		var s Survey
		s.Begin([]filch.NodeName{"a", "b", "c"}, ordered && Mesh.Ordered())
		s.Answer("c", 1, 9, 0)
		s.Answer("b", 1, 2, 0)
		s.Answer("a", 1, 0, 0)
		if want := map[bool]filch.NodeName{false: "c", true: "b"}[ordered]; s.Best != want {
			t.Errorf("ordered %v: takes %s, want %s", ordered, s.Best, want)
		}
	}
}

// TestSequentialVictims: the next nodes in the order of names, and after each failure the
// nodes behind these.
func TestSequentialVictims(t *testing.T) {
	m := NewMembers()
	for _, n := range []filch.NodeName{"c", "a", "e", "b", "d"} {
		m.Set(filch.Member{Name: n, Incarnation: 1})
	}
	for failures, want := range [][]filch.NodeName{{"d", "e"}, {"a", "b"}} {
		s := Search{Self: "c", Width: 2, Failures: failures}
		if got := m.Choose(Sequential, s, new(filch.Rand)); !slices.Equal(got, want) {
			t.Errorf("after %d failures c asks %v, want %v", failures, got, want)
		}
	}
}

func numbered(i int) filch.NodeName { return filch.NodeName(fmt.Sprint("n", i+1)) }

// TestLifelines: a cyclic hypercube of base 4 (GLB): by an independent count in digits, each
// node has at most one edge a digit, to a place that differs in this digit alone, and news
// reaches all nodes over reverse edges in at most three steps a digit.
func TestLifelines(t *testing.T) {
	for _, n := range []int{1, 2, 4, 5, 17, 64, 100, 1024} {
		m := NewMembers()
		for i := range n {
			m.Set(filch.Member{Name: filch.NodeName(fmt.Sprintf("n%04d", i)), Incarnation: 1})
		}
		digits := 0
		for p := 1; p < n; p *= 4 {
			digits++
		}
		name := func(i int) filch.NodeName { return filch.NodeName(fmt.Sprintf("n%04d", i)) }
		fed := make([][]int, n)
		for i := range n {
			list := m.Choose(Lifeline, Search{Self: name(i), Width: 9, Failures: 1}, new(filch.Rand))
			if len(list) > digits {
				t.Errorf("%d nodes: %d has %d lifelines, want at most %d", n, i, len(list), digits)
			}
			for _, v := range list {
				var to int
				if _, err := fmt.Sscanf(string(v), "n%d", &to); err != nil || to == i {
					t.Fatalf("%d nodes: %d has a lifeline to %q: %v", n, i, v, err)
				}
				if d := differ(i, to); d != 1 {
					t.Errorf("%d nodes: the lifeline of %d to %d differs in %d digits", n, i, to, d)
				}
				fed[to] = append(fed[to], i)
			}
		}
		told, now, steps := map[int]bool{0: true}, []int{0}, 0
		for ; len(now) > 0; steps++ {
			var next []int
			for _, i := range now {
				for _, k := range fed[i] {
					if !told[k] {
						told[k], next = true, append(next, k)
					}
				}
			}
			now = next
		}
		if len(told) != n || steps-1 > 3*digits {
			t.Errorf("%d nodes: news reaches %d over lifelines, in %d steps", n, len(told), steps-1)
		}
		if n == 1 || n == 4 || n == 64 || n == 1024 { // whole cubes: the reverse edges are the edges
			for i := range n {
				list := m.fed(News{Self: name(i), First: true, Victims: Lifeline})
				for _, v := range list {
					if k, _ := strconv.Atoi(string(v[1:])); !slices.Contains(fed[i], k) {
						t.Errorf("%d nodes: %d tells %s, which has no lifeline to it", n, i, v)
					}
				}
				if len(list) != digits {
					t.Errorf("%d nodes: %d tells %v first, want %d nodes", n, i, list, digits)
				}
			}
		}
	}
}

// differ is the number of digits of base 4 in which two places differ.
func differ(a, b int) (n int) {
	for ; a > 0 || b > 0; a, b = a/4, b/4 {
		if a%4 != b%4 {
			n++
		}
	}
	return n
}

// TestLifelineSpell: a node without work asks the node that sent news and three drawn nodes,
// then its lifelines, and then is silent until the rest is over.
func TestLifelineSpell(t *testing.T) {
	m := NewMembers()
	for i := range 256 {
		m.Set(filch.Member{Name: numbered(i), Incarnation: 1})
	}
	var r filch.Rand
	first := m.Choose(Lifeline, Search{Self: "n1", Teller: "n9", Width: 16}, &r)
	rest := m.Choose(Lifeline, Search{Self: "n1", Teller: "n9", Width: 16, Failures: 1}, &r)
	if len(first) != 4 || first[0] != "n9" || slices.Contains(first[1:], "n9") || len(rest) != 4 {
		t.Errorf("n1 asks %v, then %v; want n9 and three more, then 4 lifelines", first, rest)
	}
	var p Poll
	p.Told(1)
	p.Asked(1, len(first))
	if wait, _ := p.Failed(Lifeline, 255, PollMax); wait > PollMax {
		t.Errorf("after the drawn nodes the thief waits %v before it asks its lifelines", wait)
	}
	p.Asked(2, len(rest))
	if wait, _ := p.Failed(Lifeline, 255, PollMax); wait != PollRest {
		t.Errorf("after its lifelines the thief waits %v, want %v", wait, PollRest)
	}
}

// TestLeapfrog: a thief asks the node that last stole from it; when that node has no work
// either, or is gone, drawn nodes.
func TestLeapfrog(t *testing.T) {
	m := NewMembers()
	for i := range 20 {
		m.Set(filch.Member{Name: numbered(i), Incarnation: 1})
	}
	var r filch.Rand
	ask := func(failures int) []filch.NodeName {
		return m.Choose(Leapfrog, Search{Self: "n1", Thief: "n7", Width: 5, Failures: failures}, &r)
	}
	if got := ask(0); !slices.Equal(got, []filch.NodeName{"n7"}) {
		t.Errorf("n1 asks %v, want the thief n7", got)
	}
	if got := ask(1); len(got) != 5 {
		t.Errorf("after a failure n1 asks %v, want 5 nodes", got)
	}
	m.Set(filch.Member{Name: "n7", Incarnation: 1, Standing: filch.Dead})
	if got := ask(0); len(got) != 5 || slices.Contains(got, "n7") {
		t.Errorf("after the death of n7 n1 asks %v, want 5 other nodes", got)
	}
}

// TestFixedVictims: the same sqrt(N) nodes after each failure, also where a thief would ask more;
// with no stealing, none.
func TestFixedVictims(t *testing.T) {
	m := NewMembers()
	for _, n := range []filch.NodeName{"c", "a", "e", "b", "d", "g", "f", "i", "h"} {
		m.Set(filch.Member{Name: n, Incarnation: 1})
	}
	for failures := range 12 {
		s := Search{Self: "h", Width: 3 + 2*(failures/widenAt), Failures: failures}
		if got := m.Choose(Fixed, s, new(filch.Rand)); !slices.Equal(got, []filch.NodeName{"i", "a", "b"}) {
			t.Errorf("after %d failures h asks %v, want i, a and b", failures, got)
		}
		if got := m.Choose(NoStealing, s, new(filch.Rand)); len(got) != 0 {
			t.Errorf("a node that does not steal asks %v", got)
		}
	}
}
