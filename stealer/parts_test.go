package stealer_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	. "github.com/filch-hpc/filch/stealer"
)

// Where all nodes are equally free and one of them gets a smaller part, the answer that comes last
// does not make the part small: the last node in order gets it, as from srun and as a plan says. A
// node that does not answer is not waited for.
func TestPartsDoNotFollowTheOrderOfAnswers(t *testing.T) {
	for _, order := range [][]filch.NodeName{{"n2", "n3", "n4"}, {"n4", "n3", "n2"}, {"n4", "n2", "n3"}} {
		for _, answers := range []int{3, 2} {
			g := NewGather(need(7), cluster(4, 2), "n1", Policy{}, 3)
			version := uint64(0)
			held := func(n filch.NodeName, k int32, round uint32) (asks []Ask) {
				version++
				var moves Moves
				g.Granted(0, n, Grant{Lease: filch.LeaseID{Incarnation: 1, Serial: 1}, Held: k, Version: version, Round: round}, &moves)
				return moves.Asks
			}
			var moves Moves
			g.Begin(0, &moves)
			asks := held("n1", 2, moves.Asks[0].Round)
			for _, a := range asks {
				if !a.Half {
					t.Fatalf("asked %+v, want half", a)
				}
				asks = held(a.To, 1, a.Round)
			}
			for _, n := range order[:answers] {
				held(n, 2, asks[0].Round)
				if _, ok := g.Ready(); ok && n != order[2] {
					t.Fatalf("%v: ready before %s has answered", order, order[2])
				}
			}
			want := "2 2 2 1"
			if answers < 3 {
				g.Tick(g.Deadline(), &moves)
				want = map[filch.NodeName]string{"n2": "2 1 2 2", "n3": "2 2 1 2", "n4": "2 2 2 1"}[order[2]]
			}
			shares, ok := g.Ready()
			var got strings.Builder
			for i, s := range shares {
				if s.Node != filch.NodeName("n"+strconv.Itoa(i+1)) {
					t.Errorf("%v: node %d is %s", order, i+1, s.Node)
				}
				got.WriteString(" " + strconv.Itoa(int(s.Ranks)))
			}
			if strings.TrimSpace(got.String()) != want || !ok {
				t.Errorf("%v, %d answers: parts%s, %v, want %s", order, answers, got.String(), ok, want)
			}
		}
	}
}
