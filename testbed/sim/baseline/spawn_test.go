package baseline

import (
	"slices"
	"testing"
)

func TestQueensHasAllWork(t *testing.T) {
	whole, _ := Queens(8, 0).Total()
	split, tasks := Queens(8, 2).Total()
	if leaves := 42; tasks != 1+8+leaves {
		t.Errorf("%d tasks, want 1, 8 and %d", tasks, leaves)
	}
	if split > whole || split < whole*9/10 {
		t.Errorf("the tasks work for %v, the search for %v", split, whole)
	}
}

// TestVictimsOfDVS: definitions 1 and 2 (DVS, 3.1) on a diamond of 13 cores, which has d of 2: X is
// next to the source, Z two hops away.
func TestVictimsOfDVS(t *testing.T) {
	a := Allotment(5, 5, 12, 13)
	at := func(x, y int) int { return slices.Index(a, Core{x, y}) }
	for _, x := range []struct {
		self  Core
		first int // the victims that come first, in any order
		want  []Core
	}{
		{Core{2, 1}, 1, []Core{{2, 2}, {2, 0}, {1, 1}, {3, 1}, {1, 2}, {3, 2}, {2, 3}}}, // X, the source first
		{Core{1, 1}, 0, []Core{{1, 2}, {2, 1}}},                                         // Z, d = 2: neighbors only
		{Core{2, 0}, 0, []Core{{2, 1}}},
	} {
		got := Victims(a, at(x.self.X, x.self.Y))
		var want []int
		for _, c := range x.want {
			want = append(want, at(c.X, c.Y))
		}
		for _, v := range want[:x.first] {
			if got[0] != v {
				t.Errorf("%v asks %v first, want %v", x.self, a[got[0]], a[v])
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%v has the victims %v, want %v", x.self, got, want)
		}
	}
}

// TestWool: DVS, figure 6 has DVS up to 55 % faster than leapfrogging with nQueens, and 9 % slower with
// Sort. Here leapfrogging uses all cores, so that no rule can be much faster, and DVS starves
// the outer cores.
func TestWool(t *testing.T) {
	for _, x := range []struct {
		name string
		tree *Tree
	}{{"nQueens", Queens(11, 3)}, {"Sort", Sort(1<<20, 2048)}} {
		for _, n := range []int{5, 20} {
			a := Allotment(8, 4, 12, n)
			lf, err := WoolLF.Run(x.tree, a, 1)
			dvs, err2 := WoolDVS.Run(x.tree, a, 1)
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			t.Logf("figure: %s, %d cores: speed-up %.1f with leapfrogging, %.1f with DVS", x.name, n, lf.Speedup, dvs.Speedup)
			if lf.Speedup < 0.85*float64(n) {
				t.Errorf("%s, %d cores: speed-up %.1f with leapfrogging", x.name, n, lf.Speedup)
			}
			if again, _ := WoolLF.Run(x.tree, a, 1); again != lf {
				t.Errorf("%s, %d cores: two runs of a seed took %v and %v", x.name, n, lf, again)
			}
		}
	}
}
