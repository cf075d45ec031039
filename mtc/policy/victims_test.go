package policy

import (
	"fmt"
	"slices"
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
		x, y := m.Choose(Random, "n1", 10, 0, &a), m.Choose(Random, "n2", 10, 0, &b)
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
	near := m.Choose(Hierarchical, "n15", 5, 0, &a)
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
	m := NewMembers()
	for i := range 41 {
		m.Set(filch.Member{Name: numbered(i), Incarnation: 1})
	}
	for i := range 41 {
		for _, n := range m.Choose(Mesh, numbered(i), 41, 0, new(filch.Rand)) {
			if h := spotOf(i).hops(spotOf(int(m.Find(n)))); h > 2 {
				t.Errorf("node %d asks one at %d hops", i, h)
			}
		}
	}
}

func numbered(i int) filch.NodeName { return filch.NodeName(fmt.Sprint("n", i+1)) }
