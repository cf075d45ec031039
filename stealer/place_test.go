package stealer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	. "github.com/filch-hpc/filch/stealer"
)

// offers reads "n1:4 n2:2".
func offers(text string) []Offer {
	var out []Offer
	for f := range strings.FieldsSeq(text) {
		name, ranks, _ := strings.Cut(f, ":")
		o := Offer{Node: filch.NodeName(name)}
		fmt.Sscan(ranks, &o.Ranks)
		out = append(out, o)
	}
	return out
}

func names(offers []Offer) string {
	var out []string
	for _, o := range offers {
		out = append(out, string(o.Node))
	}
	return strings.Join(out, " ")
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name   string
		need   Need
		offers string
		want   string // "" cannot
	}{
		{"fewest-nodes", Need{Ranks: 8, MinNodes: 1}, "n1:2 n2:4 n3:4 n4:1", "n1 n2 n3"},
		{"own-node-first", Need{Ranks: 4, MinNodes: 1}, "n2:4 n1:1 n3:4", "n1 n2"},
		{"short", Need{Ranks: 9, MinNodes: 1}, "n1:4 n2:4", ""},
		{"at-least-three", Need{Ranks: 4, MinNodes: 3}, "n1:4 n2:4 n3:1 n4:1", "n1 n2 n3"},
		{"not-three", Need{Ranks: 4, MinNodes: 3}, "n1:4 n2:4", ""},
		{"exactly-two", Need{Ranks: 4, MinNodes: 2, MaxNodes: 2}, "n1:1 n2:1 n3:3", "n1 n3"},
		{"own-node-gives-way", Need{Ranks: 6, MinNodes: 2, MaxNodes: 2}, "n1:1 n2:3 n3:3", "n2 n3"},
		{"two-are-not-enough", Need{Ranks: 7, MinNodes: 2, MaxNodes: 2}, "n1:1 n2:3 n3:3", ""},
		{"range-takes-what-there-is", Need{Ranks: 4, MinNodes: 1, MaxNodes: 4}, "n1:4 n2:4 n3:4", "n1 n2 n3"},
		{"range-takes-no-more-than-ranks", Need{Ranks: 2, MinNodes: 1, MaxNodes: 4}, "n1:4 n2:4 n3:4", "n1 n2"},
		{"nothing-offered", Need{Ranks: 1, MinNodes: 1}, "n1:0", ""},
	} {
		got, ok := c.need.Choose(offers(c.offers), "n1")
		if names(got) != c.want || ok != (c.want != "") {
			t.Errorf("%s: chose %q, want %q", c.name, names(got), c.want)
		}
	}
}

func layout(shares []Share) string {
	var out []string
	for _, s := range shares {
		var spans []string
		for _, p := range s.Spans {
			if p.Count == 1 {
				spans = append(spans, fmt.Sprint(p.First))
			} else {
				spans = append(spans, fmt.Sprintf("%d-%d", p.First, int32(p.First)+p.Count-1))
			}
		}
		out = append(out, fmt.Sprintf("%s=%s", s.Node, strings.Join(spans, ",")))
	}
	return strings.Join(out, " ")
}

// The expected layouts are those that srun of Debian 12 prints for the same
// numbers of CPUs and tasks.
func TestAssignAsSrunDoes(t *testing.T) {
	for _, c := range []struct {
		name   string
		need   Need
		offers string
		want   string
	}{
		{"block", Need{Ranks: 8, Layout: LayoutBlock}, "n1:4 n2:4", "n1=0-3 n2=4-7"},
		{"block-spreads-evenly", Need{Ranks: 4, Layout: LayoutBlock}, "n1:4 n2:4", "n1=0-1 n2=2-3"},
		{"block-odd", Need{Ranks: 5, Layout: LayoutBlock}, "n1:4 n2:4", "n1=0-2 n2=3-4"},
		{"block-uneven", Need{Ranks: 7, Layout: LayoutBlock}, "n1:4 n2:2 n3:2", "n1=0-2 n2=3-4 n3=5-6"},
		{"cyclic", Need{Ranks: 6, Layout: LayoutCyclic}, "n1:4 n2:4", "n1=0,2,4 n2=1,3,5"},
		{"cyclic-uneven", Need{Ranks: 6, Layout: LayoutCyclic}, "n1:4 n2:2", "n1=0,2,4-5 n2=1,3"},
		{"plane", Need{Ranks: 8, Layout: LayoutPlane, Plane: 2}, "n1:4 n2:4", "n1=0-1,4-5 n2=2-3,6-7"},
		// As srun places them on nodes of four CPUs: a node of the job is never empty.
		{"plane-last", Need{Ranks: 7, Layout: LayoutPlane, Plane: 3}, "n1:4 n2:4 n3:4", "n1=0-2 n2=3-5 n3=6"},
		{"plane-leaves-one", Need{Ranks: 9, Layout: LayoutPlane, Plane: 4}, "n1:4 n2:4 n3:4 n4:4", "n1=0-3 n2=4-6 n3=7 n4=8"},
		{"plane-short", Need{Ranks: 5, Layout: LayoutPlane, Plane: 2}, "n1:4 n2:4 n3:4 n4:4", "n1=0-1 n2=2 n3=3 n4=4"},
		{"plane-wraps", Need{Ranks: 8, Layout: LayoutPlane, Plane: 3}, "n1:4 n2:4", "n1=0-2,6 n2=3-5,7"},
		{"plane-of-a-node", Need{Ranks: 12, Layout: LayoutPlane, Plane: 3}, "n1:4 n2:4 n3:4", "n1=0-2,9 n2=3-5,10 n3=6-8,11"},
		{"pack", Need{Ranks: 7, Layout: LayoutPlane, Plane: 1 << 20}, "n1:4 n2:4 n3:4", "n1=0-3 n2=4-5 n3=6"},
		{"plane-uneven", Need{Ranks: 7, Layout: LayoutPlane, Plane: 3}, "n1:4 n2:4", "n1=0-2,6 n2=3-5"},
		{"auto-few", Need{Ranks: 2}, "n1:4 n2:4", "n1=0 n2=1"},
		{"auto-many", Need{Ranks: 6}, "n1:4 n2:4", "n1=0-2 n2=3-5"},
		{"names-in-order", Need{Ranks: 4}, "n10:1 n9:1 n2:1 n1:1", "n1=0 n2=1 n9=2 n10=3"},
	} {
		if got := layout(c.need.Assign(offers(c.offers), "n1")); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestCeiling(t *testing.T) {
	m := filch.NewMembers()
	for i, s := range []filch.Standing{filch.Up, filch.Up, filch.Suspect, filch.Draining, filch.Dead, filch.Left} {
		m.Set(filch.Member{Name: filch.NodeName(fmt.Sprintf("n%d", i+1)), Standing: s, Total: filch.Room{Slots: 4, MemBytes: 8 << 30}})
	}
	one := filch.Room{Slots: 1}
	for _, c := range []struct {
		name  string
		need  Need
		ranks int64
		nodes int32
	}{
		{"all-live", Need{Ranks: 1, Each: one}, 16, 4},
		{"two-nodes", Need{Ranks: 1, Each: one, MaxNodes: 2}, 8, 4},
		{"per-node", Need{Ranks: 1, Each: one, PerNode: 3}, 12, 4},
		{"memory", Need{Ranks: 1, Each: filch.Room{Slots: 1, MemBytes: 5 << 30}}, 4, 4},
		{"three-slots", Need{Ranks: 1, Each: filch.Room{Slots: 3}}, 4, 4},
		{"named", Need{Ranks: 1, Each: one, Nodes: filch.Nodes{Only: []filch.NodeName{"n1", "n5"}}}, 4, 1},
		{"excluded", Need{Ranks: 1, Each: one, Nodes: filch.Nodes{Exclude: []filch.NodeName{"n1", "n2"}}}, 8, 2},
		{"gpus", Need{Ranks: 1, Each: filch.Room{Slots: 1, GPUs: filch.GPU}}, 0, 0},
	} {
		if ranks, nodes := c.need.Ceiling(m); ranks != c.ranks || nodes != c.nodes {
			t.Errorf("%s: %d ranks on %d nodes, want %d on %d", c.name, ranks, nodes, c.ranks, c.nodes)
		}
	}
}

func TestEven(t *testing.T) {
	for _, c := range []struct {
		ranks  int32
		offers string
		want   int32
	}{
		{4, "n1:4 n2:4", 2},
		{5, "n1:4 n2:4", 3},
		{4, "n1:3 n2:1", 3},
		{6, "n1:4 n2:4 n3:1", 3},
		{5, "n1:4 n2:4 n3:1", 2},
		{9, "n1:4 n2:4", 0},
	} {
		need := Need{Ranks: c.ranks, MinNodes: 1}
		need.Even(func() bool {
			sum := int32(0)
			for _, o := range offers(c.offers) {
				sum += min(o.Ranks, need.PerNode)
			}
			return sum >= c.ranks
		})
		if need.PerNode != c.want {
			t.Errorf("%d ranks on %s: %d on a node, want %d", c.ranks, c.offers, need.PerNode, c.want)
		}
	}
}

func TestNatural(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"n2", "n10", -1}, {"n10", "n2", 1}, {"n02", "n2", -1}, {"a", "b", -1}, {"n1", "n1", 0}, {"n1", "n1a", -1}, {"r1n9", "r1n10", -1}, {"", "x", -1},
	} {
		if got := Natural(c.a, c.b); (got < 0) != (c.want < 0) || (got > 0) != (c.want > 0) {
			t.Errorf("Natural(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
