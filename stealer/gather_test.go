package stealer_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	. "github.com/filch-hpc/filch/stealer"
)

// cluster is n idle nodes of the same size, n1 to n<n>.
func cluster(n int, size int32) *filch.Members {
	m := filch.NewMembers()
	for i := range n {
		m.Set(filch.Member{Name: filch.NodeName(fmt.Sprintf("n%d", i+1)), Incarnation: 1, Total: filch.Room{Slots: size}})
	}
	return m
}

func need(ranks int32) Need { return Need{Ranks: ranks, MinNodes: 1, Each: filch.Room{Slots: 1}} }

// scene plays the victims of one Gather, each with a number of free slots.
type scene struct {
	t       *testing.T
	g       *Gather
	free    map[filch.NodeName]int32
	held    map[filch.NodeName]int32
	version uint64
	rounds  [][]Ask
	backs   []Back
	silent  map[filch.NodeName]bool
}

func newScene(t *testing.T, g *Gather, m *filch.Members, free int32) *scene {
	s := &scene{t: t, g: g, free: map[filch.NodeName]int32{}, held: map[filch.NodeName]int32{}, silent: map[filch.NodeName]bool{}}
	for i := range m.Len() {
		s.free[m.At(int32(i)).Name] = free
	}
	return s
}

// play answers all asks until none is left; each wave is a round.
func (s *scene) play(now time.Duration, moves Moves) {
	for len(moves.Asks) > 0 {
		s.rounds = append(s.rounds, moves.Asks)
		s.backs = append(s.backs, moves.Backs...)
		var next Moves
		for _, a := range moves.Asks {
			if s.silent[a.To] {
				continue
			}
			k := min(s.free[a.To], a.Want-s.held[a.To])
			if a.Half {
				k = min(k, Half(s.free[a.To]))
			}
			s.free[a.To] -= k
			s.held[a.To] += k
			s.version++
			s.g.Granted(now, a.To, Grant{
				Lease: filch.LeaseID{Incarnation: 1, Serial: 1}, Held: s.held[a.To], Version: s.version, Round: a.Round,
				Waiting: a.Wait && s.held[a.To] < a.Want,
			}, &next)
		}
		moves = next
	}
	s.backs = append(s.backs, moves.Backs...)
}

func (s *scene) begin() {
	var moves Moves
	s.g.Begin(0, &moves)
	s.play(0, moves)
}

// MATRIX 3.8 with 3.1.1: slots are stolen as tasks are, from the square root
// of the nodes, chosen at random, half from each. What is kept of it: the
// number of the first circle and the half.
func TestFirstCircleIsTheSquareRootOfTheNodes(t *testing.T) {
	m := cluster(64, 4)
	g := NewGather(need(8), m, "n1", Policy{}, 7)
	s := newScene(t, g, m, 4)
	s.begin()
	if own := s.rounds[0]; len(own) != 1 || own[0].To != "n1" || own[0].Half {
		t.Fatalf("began with %+v, want all that the own node has", own)
	}
	first := s.rounds[1]
	if len(first) != 8 {
		t.Errorf("asked %d neighbors first, want 8", len(first))
	}
	seen := map[filch.NodeName]bool{"n1": true}
	for _, a := range first {
		if !a.Half || a.Wait || a.Want != 4 || seen[a.To] {
			t.Errorf("asked %+v, want half of at most the 4 ranks that are missing, of a new node", a)
		}
		seen[a.To] = true
	}
	if _, ok := g.Ready(); !ok {
		t.Error("4 and 8 times 2 do not make 8")
	}
}

// A job that asks for several nodes gets even parts, as from srun, where the nodes have room; and
// else what they have.
func TestSeveralNodesGetEvenParts(t *testing.T) {
	for _, c := range []struct {
		name string
		need Need
		free string // of n1 to n4
		want string
	}{
		{"four-on-two", Need{Ranks: 4, MinNodes: 2, MaxNodes: 2}, "4 4 4 4", "[2 2]"},
		{"five-on-two", Need{Ranks: 5, MinNodes: 2, MaxNodes: 2}, "4 4 4 4", "[3 2]"},
		{"six-on-two", Need{Ranks: 6, MinNodes: 2, MaxNodes: 2}, "4 4 4 4", "[3 3]"},
		{"four-on-three", Need{Ranks: 4, MinNodes: 3, MaxNodes: 3}, "4 4 4 4", "[2 1 1]"},
		{"all-on-two", Need{Ranks: 8, MinNodes: 2, MaxNodes: 2}, "4 4 4 4", "[4 4]"},
		{"at-least-two", Need{Ranks: 4, MinNodes: 2}, "4 4 4 4", "[2 2]"},
		{"two-that-are-named", Need{Ranks: 4, MinNodes: 2, Nodes: filch.Nodes{Only: []filch.NodeName{"n1", "n2"}}}, "4 4 4 4", "[2 2]"},
		{"planes-of-two", Need{Ranks: 4, MinNodes: 2, MaxNodes: 2, Layout: LayoutPlane, Plane: 2}, "4 4 4 4", "[2 2]"},
		{"planes-of-four", Need{Ranks: 6, MinNodes: 2, MaxNodes: 2, Layout: LayoutPlane, Plane: 4}, "4 4 4 4", "[4 2]"},
		{"packed", Need{Ranks: 5, MinNodes: 2, MaxNodes: 2, Layout: LayoutPlane, Plane: 1 << 30}, "4 4 4 4", "[4 1]"},
		{"a-busy-neighbor", Need{Ranks: 4, MinNodes: 2, MaxNodes: 2}, "4 1 0 0", "[3 1]"},
		{"the-own-node-is-busy", Need{Ranks: 4, MinNodes: 2, MaxNodes: 2}, "1 4 0 0", "[1 3]"},
		{"any-number-of-nodes", Need{Ranks: 5, MinNodes: 1}, "4 4 4 4", "[4 1]"},
	} {
		c.need.Each = filch.Room{Slots: 1}
		m := cluster(4, 4)
		g := NewGather(c.need, m, "n1", Policy{}, 7)
		s := newScene(t, g, m, 0)
		for i, k := range strings.Fields(c.free) {
			n, err := strconv.Atoi(k)
			if err != nil {
				t.Fatal(err)
			}
			s.free[m.At(int32(i)).Name] = int32(n)
		}
		s.begin()
		shares, ok := g.Ready()
		var got []int32
		for _, share := range shares {
			got = append(got, share.Ranks)
		}
		if text := fmt.Sprint(got); text != c.want || !ok {
			t.Errorf("%s: got %s, ready: %v, want %s", c.name, text, ok, c.want)
		}
	}
}

func TestFirstCircleIsTwiceTheNodesNeeded(t *testing.T) {
	m := cluster(64, 4)
	g := NewGather(need(4+4*16), m, "n1", Policy{}, 7)
	s := newScene(t, g, m, 4)
	s.begin()
	if len(s.rounds[1]) != 32 {
		t.Errorf("asked %d neighbors first for 16 nodes' room, want 32", len(s.rounds[1]))
	}
}

// A departure from MATRIX 3.8, which "releases all the locked slots" when the
// sum is short: holds are kept and the circle doubles.
func TestCirclesDoubleAndHoldsAccumulate(t *testing.T) {
	m := cluster(100, 4)
	g := NewGather(need(60), m, "n1", Policy{}, 7)
	s := newScene(t, g, m, 1)
	s.begin()
	var sizes []int
	for _, r := range s.rounds[1:] {
		sizes = append(sizes, len(r))
	}
	if fmt.Sprint(sizes) != "[30 60]" {
		t.Errorf("circles of %v, want 30 and twice as many", sizes)
	}
	if held, asked := g.Held(); held != 91 || asked != 91 || len(s.backs) != 0 {
		t.Errorf("%d ranks held of %d nodes, %d given back; want all kept", held, asked, len(s.backs))
	}
}

// A second departure: half is no cap. A job of all slots starts on an idle
// cluster; with half of what is free no job above half of it ever could.
func TestInsistGetsTheRest(t *testing.T) {
	m := cluster(16, 4)
	g := NewGather(need(64), m, "n1", Policy{}, 7)
	s := newScene(t, g, m, 4)
	s.begin()
	last := s.rounds[len(s.rounds)-1]
	if len(last) != 15 || !last[0].Wait || last[0].Half || last[0].Want != 4 {
		t.Errorf("last asked %d times, first %+v; want all four ranks of each of the 15 others, to be waited for", len(last), last[0])
	}
	shares, ok := g.Ready()
	if !ok || len(shares) != 16 {
		t.Errorf("got %d nodes %t, want all 16", len(shares), ok)
	}
}

// The papers' own policy, to be compared with: half from everybody, and all of
// it back when the sum is short.
func TestReleaseAllGivesEverythingBackAndNeverStartsABigJob(t *testing.T) {
	m := cluster(16, 4)
	g := NewGather(need(48), m, "n1", Policy{Kind: ReleaseAll}, 7)
	s := newScene(t, g, m, 4)
	var moves Moves
	g.Begin(0, &moves)
	s.play(0, moves)
	now := time.Duration(0)
	var waits []time.Duration
	for range 6 {
		for _, b := range s.backs {
			s.free[b.To] += s.held[b.To]
			s.held[b.To] = 0
		}
		if len(s.backs) != 16 {
			t.Fatalf("gave back %d holds, want 16", len(s.backs))
		}
		s.backs = nil
		d := g.Deadline()
		waits = append(waits, d-now)
		now = d
		moves = Moves{}
		g.Tick(now, &moves)
		s.play(now, moves)
	}
	if fmt.Sprint(waits) != "[1ms 2ms 4ms 8ms 16ms 32ms]" {
		t.Errorf("waited %v, want twice as long each time", waits)
	}
	if _, ok := g.Ready(); ok {
		t.Error("a job of three quarters started on halves")
	}
}

func TestStaleGrantsDoNotCount(t *testing.T) {
	m := cluster(4, 4)
	g := NewGather(need(8), m, "n1", Policy{}, 7)
	var moves Moves
	g.Begin(0, &moves)
	lease := filch.LeaseID{Incarnation: 1, Serial: 3}
	if !g.Granted(0, "n1", Grant{Lease: lease, Held: 4, Version: 9, Round: 1}, &moves) {
		t.Error("a first grant is no news")
	}
	if g.Granted(0, "n1", Grant{Lease: lease, Held: 2, Version: 8, Round: 1}, &moves) {
		t.Error("an earlier version is news")
	}
	if g.Granted(0, "n1", Grant{Lease: lease, Held: 4, Version: 9, Round: 1}, &moves) {
		t.Error("the same version is news")
	}
	if held, _ := g.Held(); held != 4 {
		t.Errorf("%d ranks held, want 4", held)
	}
	g.Granted(0, "n1", Grant{Lease: lease, Held: 1, Version: 10, Waiting: true}, &moves)
	if held, _ := g.Held(); held != 1 {
		t.Errorf("%d ranks held after a wound, want 1", held)
	}
	if !g.Granted(0, "n1", Grant{Lease: filch.LeaseID{Incarnation: 2, Serial: 1}, Held: 3, Version: 1}, &moves) {
		t.Error("a grant of a new incarnation is no news")
	}
}

func TestUnansweredAsksAreRepeatedUnderTheSameRound(t *testing.T) {
	m := cluster(2, 4)
	g := NewGather(need(8), m, "n1", Policy{}, 7)
	s := newScene(t, g, m, 4)
	s.silent["n2"] = true
	s.begin()
	asks := map[uint32]int{}
	for now := g.Deadline(); now < 3*time.Second; now = g.Deadline() {
		var moves Moves
		g.Tick(now, &moves)
		for _, a := range moves.Asks {
			asks[a.Round]++
		}
	}
	last := s.rounds[len(s.rounds)-1][0]
	if asks[last.Round+1] < 2 {
		t.Errorf("asks by round %v, want the insisting one repeated under one round", asks)
	}
	s.silent["n2"] = false
	var moves Moves
	g.Granted(3*time.Second, "n2", Grant{Lease: filch.LeaseID{Incarnation: 1, Serial: 1}, Held: 4, Version: 100, Round: last.Round + 1}, &moves)
	// Meanwhile tasks may use the slots of n1, and n1 hears that they may no more.
	if len(moves.Asks) != 1 || moves.Asks[0].To != "n1" || moves.Asks[0].Lends {
		t.Errorf("asked %+v, want the slots of n1", moves.Asks)
	}
	g.Granted(3*time.Second, "n1", Grant{Lease: filch.LeaseID{Incarnation: 1, Serial: 1}, Held: 4, Version: 101, Round: moves.Asks[0].Round}, &moves)
	moves = Moves{}
	if _, ok := g.Ready(); !ok {
		t.Error("not ready with all eight")
	}
	g.Tick(g.Deadline(), &moves)
	if g.Deadline() != filch.Never || len(moves.Asks) > 0 {
		t.Errorf("deadline %v, asks %+v; want it at rest", g.Deadline(), moves.Asks)
	}
}

func TestMembersComeAndGo(t *testing.T) {
	m := cluster(2, 4)
	g := NewGather(need(8), m, "n1", Policy{}, 7)
	s := newScene(t, g, m, 4)
	s.free["n2"] = 0
	s.begin()
	if _, ok := g.Ready(); ok {
		t.Fatal("ready on four slots")
	}
	change := func(p filch.Member) (moves Moves) {
		i, old, known := m.Set(p)
		g.Changed(0, i, old, known, &moves)
		return moves
	}
	s.free["n3"] = 4
	moves := change(filch.Member{Name: "n3", Incarnation: 1, Total: filch.Room{Slots: 4}})
	if len(moves.Asks) != 1 || moves.Asks[0].To != "n3" || !moves.Asks[0].Wait {
		t.Fatalf("asked %+v, want the new node for all it has", moves.Asks)
	}
	s.play(0, moves)
	if _, ok := g.Ready(); !ok {
		t.Fatal("not ready with a third node")
	}
	change(filch.Member{Name: "n3", Incarnation: 1, Standing: filch.Suspect, Total: filch.Room{Slots: 4}})
	if _, ok := g.Ready(); ok {
		t.Error("ready on slots of a suspect")
	}
	change(filch.Member{Name: "n3", Incarnation: 1, Total: filch.Room{Slots: 4}})
	if _, ok := g.Ready(); !ok {
		t.Error("not ready though the suspicion is over")
	}
	change(filch.Member{Name: "n3", Incarnation: 1, Standing: filch.Dead, Total: filch.Room{Slots: 4}})
	if held, _ := g.Held(); held != 4 {
		t.Errorf("%d ranks held, want 4 without the dead node's", held)
	}
	moves = change(filch.Member{Name: "n3", Incarnation: 2, Total: filch.Room{Slots: 4}})
	if len(moves.Asks) != 1 {
		t.Errorf("asked %+v, want the node asked again that came back", moves.Asks)
	}
}

func TestGatherIsTheSameForTheSameSeed(t *testing.T) {
	run := func(seed uint64) string {
		m := cluster(200, 4)
		s := newScene(t, NewGather(need(100), m, "n1", Policy{}, seed), m, 1)
		s.begin()
		return fmt.Sprint(s.rounds)
	}
	once := run(3)
	if run(3) != once {
		t.Error("two runs of one seed differ")
	}
	if run(4) == once {
		t.Error("two seeds ask the same nodes in the same order")
	}
}

func TestRestGivesBackWhatIsNotUsed(t *testing.T) {
	m := cluster(9, 4)
	g := NewGather(need(8), m, "n1", Policy{}, 7)
	s := newScene(t, g, m, 4)
	s.begin()
	shares, ok := g.Ready()
	if !ok {
		t.Fatal("not ready")
	}
	used := map[filch.NodeName]bool{}
	for _, h := range shares {
		used[h.Node] = true
	}
	for _, b := range g.Rest(shares) {
		if used[b.To] {
			t.Errorf("gives back %s, which it uses", b.To)
		}
		used[b.To] = true
	}
	for name, k := range s.held {
		if k > 0 && !used[name] {
			t.Errorf("keeps the hold of %s", name)
		}
	}
}

// A node that was suspected when everybody was asked to wait is asked when it is
// back, as is one that drained for a while: else nobody would tell of it when it
// comes free.
func TestWhoWasAwayWhenAllWereAskedToWaitIsAskedLater(t *testing.T) {
	for _, away := range []filch.Standing{filch.Suspect, filch.Draining} {
		m := cluster(3, 4)
		g := NewGather(need(12), m, "n1", Policy{}, 7)
		s := newScene(t, g, m, 0)
		stand := func(st filch.Standing) {
			var moves Moves
			p := *m.At(2)
			p.Standing = st
			i, old, known := m.Set(p)
			g.Changed(0, i, old, known, &moves)
			s.play(0, moves)
		}
		var moves Moves
		if away == filch.Suspect {
			g.Begin(0, &moves)
			// The answers to the circle are in but one when it is suspected.
			var half Moves
			for len(moves.Asks) > 0 && g.Stage() < Halves {
				a := moves.Asks[0]
				moves = Moves{}
				g.Granted(0, a.To, Grant{Lease: filch.LeaseID{Incarnation: 1, Serial: 1}, Version: 1, Round: a.Round}, &moves)
			}
			half, moves = moves, Moves{}
			for _, a := range half.Asks {
				if a.To == "n3" {
					g.Granted(0, a.To, Grant{Lease: filch.LeaseID{Incarnation: 1}, Version: 1, Round: a.Round}, &moves)
				}
			}
			stand(away)
			for _, a := range half.Asks {
				if a.To != "n3" {
					g.Granted(0, a.To, Grant{Lease: filch.LeaseID{Incarnation: 1}, Version: 1, Round: a.Round}, &moves)
				}
			}
			s.version = 10
			s.play(0, moves)
		} else {
			s.begin()
			stand(away) // and what it said of that was lost
		}
		if g.Stage() != Insist {
			t.Fatalf("%v: the stage is %v", away, g.Stage())
		}
		s.rounds = nil
		stand(filch.Up)
		asked := false
		for _, wave := range s.rounds {
			for _, a := range wave {
				asked = asked || a.To == "n3" && a.Wait
			}
		}
		if !asked {
			t.Errorf("%v: n3 was not asked to wait: %+v", away, s.rounds)
		}
	}
}

// A refresh asks few of many lenders. The explanation then names only jobs that a lender still
// names: one lender of each job is asked, and the job is dropped for all lenders if that
// lender names another.
func TestRefreshKeepsNoEndedJob(t *testing.T) {
	const nodes, asked = 40, 4
	m := cluster(nodes, 4)
	g := NewGather(need(4*nodes), m, "n1", Policy{}, 7)
	s := newScene(t, g, m, 0)
	s.begin()
	holder := func(n filch.NodeName) filch.JobID { return filch.JobID(len(n)) } // n1 to n9: 2, the others: 3
	answer := func(asks []Ask) {
		for _, a := range asks {
			s.version++
			g.Granted(0, a.To, Grant{Lease: theLease, Version: s.version, Round: a.Round, Waiting: true, Holder: holder(a.To), Holds: 4}, &Moves{})
		}
	}
	named := func() map[filch.JobID]int {
		n := make(map[filch.JobID]int)
		for _, seat := range g.Seats(nodes) {
			if !seat.Old {
				n[seat.Last.Holder]++
			}
		}
		return n
	}
	var all []Ask
	for _, wave := range s.rounds {
		all = append(all, wave...)
	}
	answer(all)
	refresh := func(at time.Duration) {
		var moves Moves
		g.Refresh(at, asked, &moves)
		if len(moves.Asks) != asked {
			t.Fatalf("a refresh asks %d lenders, want %d", len(moves.Asks), asked)
		}
		if len(named()) == 0 {
			t.Errorf("while a refresh is not answered, no job is named")
		}
		answer(moves.Asks)
	}
	for i := range 20 {
		refresh(time.Duration(i+1) * 30 * time.Second)
		if n := named(); n[2] != 9 || n[3] != nodes-9 {
			t.Errorf("after refresh %d the jobs are named by %v lenders, want 9 and %d", i, n, nodes-9)
		}
	}
	holder = func(filch.NodeName) filch.JobID { return 5 }
	refresh(700 * time.Second)
	if n := named(); n[2]+n[3] > 0 || n[5] != asked {
		t.Errorf("after both jobs ended the jobs are named by %v lenders, want only job 5 by %d", n, asked)
	}
	for i := range nodes / (asked - 1) { // beside one lender of job 5, those silent for longest
		refresh(time.Duration(i+24) * 30 * time.Second)
	}
	if n := named(); n[5] != nodes {
		t.Errorf("in the end the jobs are named by %v lenders, want job 5 by all", n)
	}
}
