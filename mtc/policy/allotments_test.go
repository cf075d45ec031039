package policy

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/filch-hpc/filch"
)

// machine is a mesh of cores, numbered by rows, on which a workload starts at a core.
type machine struct{ columns, rows, source int }

func (m machine) core(s spot) (core int, found bool) {
	x, y := m.source%m.columns+s.x, m.source/m.columns+s.y
	return y*m.columns + x, x >= 0 && x < m.columns && y >= 0 && y < m.rows
}

func (m machine) hops(a, b int) int {
	return abs(a%m.columns-b%m.columns) + abs(a/m.columns-b/m.columns)
}

// definitions are the paper's words on an allotment, without a look at places: the classes by
// 3.1, the victims by definition 1.
func (m machine) definitions(allotment []int, d int) (class map[int]Class, victims map[int][]int) {
	class, victims = map[int]Class{m.source: Source}, map[int][]int{}
	for _, a := range allotment {
		h, inner := m.hops(a, m.source), 0
		for _, b := range allotment {
			if m.hops(a, b) == 1 && m.hops(b, m.source) == h-1 {
				inner++
			}
		}
		switch {
		case h == 0:
		case h == d && d >= 2:
			class[a] = ClassZ
		case inner == 1:
			class[a] = ClassX
		default:
			class[a] = ClassF
		}
	}
	for _, a := range allotment {
		for _, b := range allotment {
			h := m.hops(a, b)
			far := h == 2 && class[a] == class[b] &&
				(class[a] == ClassZ && d > 2 || class[a] == ClassX && m.hops(a, m.source) == 1)
			if h == 1 || far {
				victims[a] = append(victims[a], b)
			}
		}
	}
	return class, victims
}

// TestAllotmentsOfThePaper: the allotments of DVS, section 4, are the cores within d hops of
// the source: 5, 12, 20, 27 on the mesh 8x4, and 5, 13, 24, 35 on 8x6 from core 28. Cores
// that the machine lacks are nodes that are gone. Classes, victims and their order are as by
// the definitions, and the classes of figure 4 are incomplete: all on 8x4, X and Z on 8x6.
func TestAllotmentsOfThePaper(t *testing.T) {
	for _, c := range []struct {
		machine
		d, nodes, x, z, f int
	}{
		{machine{8, 4, 20}, 1, 5, 4, 0, 0},
		{machine{8, 4, 20}, 2, 12, 4, 7, 0},
		{machine{8, 4, 20}, 3, 20, 7, 8, 4},
		{machine{8, 4, 20}, 4, 27, 9, 7, 10},
		{machine{8, 6, 28}, 1, 5, 4, 0, 0},
		{machine{8, 6, 28}, 2, 13, 4, 8, 0},
		{machine{8, 6, 28}, 3, 24, 8, 11, 4},
		{machine{8, 6, 28}, 4, 35, 11, 11, 12},
	} {
		t.Run(fmt.Sprintf("%dx%d-%d", c.columns, c.rows, c.nodes), func(t *testing.T) {
			places := 1 + 2*c.d*(c.d+1) // of the complete mesh
			const shift = 3             // the source is not the first by name
			name := func(place int) filch.NodeName {
				return filch.NodeName(fmt.Sprintf("n%02d", (place+shift)%places))
			}
			m, named, cores := NewMembers(), map[filch.NodeName]int{}, []int(nil)
			for place := range places {
				p := filch.Member{Name: name(place), Incarnation: 1}
				if core, found := c.core(spotOf(place)); found {
					named[p.Name] = core
					cores = append(cores, core)
				} else {
					p.Standing = filch.Gone
				}
				m.Set(p)
			}
			class, victims := c.definitions(cores, c.d)
			count := map[Class]int{}
			for place := range places {
				self := name(place)
				core, found := named[self]
				if !found {
					continue
				}
				me := spotOf(place).class(c.d)
				if count[me]++; me != class[core] {
					t.Errorf("core %d is of class %d, want %d", core, me, class[core])
				}
				var got []int
				for _, v := range m.Choose(Mesh, Search{Self: self, Source: name(0), Width: 6}, new(filch.Rand)) {
					got = append(got, named[v])
				}
				if !slices.IsSortedFunc(got, func(a, b int) int {
					n := cmp.Compare(c.hops(a, c.source), c.hops(b, c.source))
					if me == ClassZ || me == ClassF {
						return -n
					}
					return n
				}) {
					t.Errorf("core %d of class %d asks in the order %v", core, me, got)
				}
				slices.Sort(got)
				if slices.Sort(victims[core]); !slices.Equal(got, victims[core]) {
					t.Errorf("core %d of class %d asks %v, want %v", core, me, got, victims[core])
				}
			}
			if len(cores) != c.nodes || count[ClassX] != c.x || count[ClassZ] != c.z || count[ClassF] != c.f {
				t.Errorf("%d cores: X %d, Z %d, F %d; want %d cores: X %d, Z %d, F %d",
					len(cores), count[ClassX], count[ClassZ], count[ClassF], c.nodes, c.x, c.z, c.f)
			}
		})
	}
}
