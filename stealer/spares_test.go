package stealer_test

import (
	"fmt"
	"testing"

	"github.com/filch-hpc/filch"
	. "github.com/filch-hpc/filch/stealer"
)

func TestPlaceWithSpareNodes(t *testing.T) {
	for _, c := range []struct {
		name, offers string
		need         Need
		want, spares string
	}{
		{"largest-left", "n1:4 n2:4 n3:4", Need{Ranks: 8, MinNodes: 1, Spare: 1}, "n1:4 n2:4", "n3:4"},
		{"of-the-share's-size", "n1:4 n2:4 n3:3", Need{Ranks: 6, MinNodes: 2, Spare: 1}, "n1:3 n2:3", "n3:3"},
		{"too-small", "n1:4 n2:4 n3:3", Need{Ranks: 8, MinNodes: 1, Spare: 1}, "", ""},
		{"smaller-nodes", "n1:8 n2:4 n3:4", Need{Ranks: 8, MinNodes: 1, Spare: 1}, "n1:4 n2:4", "n3:4"},
		{"two", "n1:2 n2:2 n3:2 n4:2", Need{Ranks: 4, MinNodes: 2, Spare: 2}, "n1:2 n2:2", "n3:2 n4:2"},
		{"none", "n1:2 n2:2", Need{Ranks: 4, MinNodes: 2}, "n1:2 n2:2", ""},
	} {
		shares, spares, ok := c.need.Place(offers(c.offers), "n1")
		if got, spare := sizes(shares), sizes(spares); got != c.want || spare != c.spares || ok != (c.want != "") {
			t.Errorf("%s: %s and the spare nodes %s, want %s and %s", c.name, got, spare, c.want, c.spares)
		}
	}
}

func sizes(shares []Share) (text string) {
	for i, s := range shares {
		if i > 0 {
			text += " "
		}
		text += fmt.Sprintf("%s:%d", s.Node, s.Ranks)
	}
	return text
}

func TestSpared(t *testing.T) {
	m := filch.NewMembers()
	for i, slots := range []int32{4, 4, 2, 4} {
		m.Set(filch.Member{Name: filch.NodeName(fmt.Sprint("n", i+1)), Standing: filch.Up, Total: filch.Room{Slots: slots}})
	}
	for _, c := range []struct {
		ranks, spare, want int32
		ok                 bool
	}{{8, 1, 1, true}, {8, 2, 1, true}, {4, 9, 2, true}, {12, 1, 0, true}, {14, 1, 0, true}, {15, 1, 0, false}} {
		n := Need{Ranks: c.ranks, Each: filch.Room{Slots: 1}, MinNodes: 1, Spare: c.spare}
		if got, ok := n.Spared(m); got != c.want || ok != c.ok {
			t.Errorf("%d ranks and %d spare nodes: %d, %t, want %d, %t", c.ranks, c.spare, got, ok, c.want, c.ok)
		}
	}
}
