package dht

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

// settler plays the rounds of evolve and admission on one store, without
// messages: every learner is ready at once.
type settler struct {
	s      *Store
	r      *roster
	rounds int
	moved  int // replicas that got a shard
}

func newSettler() *settler {
	s := NewStore(StoreConfig{Self: "n0", Incarnation: 1, Seed: 1})
	r := founding(s.self)
	s.roster, s.now = r, time.Hour
	return &settler{s: s, r: r}
}

func (x *settler) name(i int) filch.NodeName { return filch.NodeName(fmt.Sprintf("node-%d", i)) }

func (x *settler) set(i int, st PeerState) {
	p := x.s.peers.know(x.name(i))
	p.inc, p.sworn, p.listed, p.state = 1, 1, true, st
}

func (x *settler) settle(t testing.TB) {
	t.Helper()
	for range 200 {
		var asks []change
		for i, c := range x.r.shards {
			if c.learner != (Replica{}) {
				asks = append(asks, change{changeAdmit, x.r.shardAt(i), c.epoch, c.learner})
			}
		}
		n := x.s.evolve(x.r, asks)
		if n == nil {
			return
		}
		n.follows(x.r)
		if n.depth == x.r.depth {
			for i, c := range n.shards {
				for _, r := range c.replicas {
					if !x.r.shards[i].has(r) {
						x.moved++
					}
				}
			}
		}
		if n.sealed() {
			n = n.opened()
		}
		x.r, x.s.roster = n, n
		x.rounds++
	}
	t.Fatal("the placement does not come to rest")
}

// loads are the shards and homes of all members.
func (x *settler) loads() (shards, homes map[filch.NodeName]int) {
	shards, homes = map[filch.NodeName]int{}, map[filch.NodeName]int{}
	for _, m := range x.r.members {
		shards[m.Name], homes[m.Name] = 0, 0
	}
	for _, c := range x.r.shards {
		homes[c.primary().Name]++
		for _, r := range c.replicas {
			shards[r.Name]++
		}
	}
	return shards, homes
}

func checkBalance(t *testing.T, what string, loads map[filch.NodeName]int) {
	t.Helper()
	total, most := 0, 0
	for _, n := range loads {
		total += n
		most = max(most, n)
	}
	mean := float64(total) / float64(len(loads))
	t.Logf("%s of %d nodes: mean %.2f, most %d, ratio %.2f", what, len(loads), mean, most, float64(most)/mean)
	if mean >= 4 {
		if float64(most) > 1.3*mean {
			t.Errorf("%s: got %d on one node, mean %.2f", what, most, mean)
		}
	} else if most > (total+len(loads)-1)/len(loads)+1 {
		t.Errorf("%s: got %d on one node, mean %.2f", what, most, mean)
	}
}

func TestPlacementBalance(t *testing.T) {
	for _, n := range []int{64, 256, 2048} {
		t.Run(fmt.Sprintf("nodes-%d", n), func(t *testing.T) {
			x := newSettler()
			for i := 1; i < n; i++ {
				x.set(i, PeerUp)
				if i%(n/8) == 0 {
					x.settle(t) // they come in crowds
				}
			}
			x.settle(t)
			shards, homes := x.loads()
			checkBalance(t, "shards", shards)
			checkBalance(t, "homes", homes)
			if len(x.r.seats) != 5 {
				t.Errorf("got %d seats, want 5", len(x.r.seats))
			}

			x.set(n, PeerUp) // there are twice as many shards from here on, up to 4,096
			x.settle(t)
			x.moved = 0
			x.set(n+1, PeerUp)
			x.settle(t)
			mean := wantedReplicas * len(x.r.shards) / (n + 1)
			if x.moved > 2*mean {
				t.Errorf("one that joins moved %d shards, mean %d", x.moved, mean)
			}
			x.moved = 0
			was, _ := x.loads()
			x.set(5, PeerDead)
			x.settle(t)
			t.Logf("one that dies with %d shards moved %d", was[x.name(5)], x.moved)
			if x.moved > 2*was[x.name(5)]+mean {
				t.Errorf("one that dies with %d shards moved %d", was[x.name(5)], x.moved)
			}
			shards, homes = x.loads()
			checkBalance(t, "shards", shards)
			checkBalance(t, "homes", homes)
		})
	}
}

func TestPlacementOfFew(t *testing.T) {
	for n := 1; n <= 20; n++ {
		x := newSettler()
		for i := 1; i < n; i++ {
			x.set(i, PeerUp)
			x.settle(t)
		}
		for i, c := range x.r.shards {
			if len(c.replicas) != min(3, n) {
				t.Fatalf("%d nodes: shard %d has %d replicas", n, i, len(c.replicas))
			}
		}
		want := 1
		if n >= 16 {
			want = 5
		} else if n >= 3 {
			want = 3
		}
		if len(x.r.seats) != want {
			t.Errorf("%d nodes: got %d seats, want %d", n, len(x.r.seats), want)
		}
		shards, homes := x.loads()
		if n > 3 {
			checkBalance(t, "shards", shards)
		}
		checkBalance(t, "homes", homes)
	}
}

func TestPlacementNear(t *testing.T) {
	x := newSettler()
	for i := 1; i < 64; i++ {
		x.set(i, PeerUp)
	}
	x.settle(t)
	near := 0
	for i, c := range x.r.shards {
		at := x.r.shardAt(i).point()
		names := make([]filch.NodeName, 0, 64)
		for _, m := range x.r.members {
			names = append(names, m.Name)
		}
		slices.SortFunc(names, func(a, b filch.NodeName) int {
			if placeOf(a)^at < placeOf(b)^at {
				return -1
			}
			return 1
		})
		for _, r := range c.replicas {
			if slices.Index(names, r.Name) < 16 {
				near++
			}
		}
	}
	if share := float64(near) / float64(3*len(x.r.shards)); share < 0.5 {
		t.Errorf("%.0f %% of the replicas are among the nearest quarter", 100*share)
	}
}

func TestShardNumbers(t *testing.T) {
	for _, k := range []Key{"a", "b", "job/1"} {
		for depth := uint(shardBitsMin); depth < shardBitsMax; depth++ {
			s, child := pointOf(k).shard(depth), pointOf(k).shard(depth+1)
			if s.depth() != depth || child>>1 != s || !s.holds(pointOf(k)) || !s.holds(s.point()) {
				t.Errorf("%q at depth %d: shard %d, then %d", k, depth, s, child)
			}
		}
		if got := ShardOf(k, 64); got != pointOf(k).shard(6) {
			t.Errorf("got shard %d of 64", got)
		}
	}
}

// TestPlacementWaitsForTheLifeBefore recruits nobody for a shard whose config
// still has an earlier life of that node: while its other replica is silent, that
// life cannot be dropped yet.
func TestPlacementWaitsForTheLifeBefore(t *testing.T) {
	x := newSettler()
	x.set(1, PeerUp)
	x.set(2, PeerUp)
	x.settle(t)
	base := x.r.copy()
	for i, c := range base.shards {
		base.shards[i] = c.next([]Replica{{x.name(1), 1}, {x.name(2), 1}})
	}
	x.set(1, PeerSuspect)
	p := x.s.peers.know(x.name(2))
	p.inc, p.sworn = 2, 2
	next := x.s.evolve(base, nil)
	learners := 0
	for i, c := range next.shards {
		if c.learner.Name == x.name(2) {
			t.Fatalf("shard %d of %v is to be learnt by %v", i, c.replicas, c.learner)
		}
		if c.learner != (Replica{}) {
			learners++
		}
	}
	if learners == 0 {
		t.Error("nobody is recruited")
	}
}

// TestPlacementNamesNobodyTwice lets a steward evolve a roster in which a node is in
// a later life than its member list knows: the earlier one is not a member too.
func TestPlacementNamesNobodyTwice(t *testing.T) {
	x := newSettler()
	for i := 1; i < 4; i++ {
		x.set(i, PeerUp)
	}
	x.settle(t)
	x.s.stew.since = x.s.now
	base := x.r.copy()
	for i := range base.members {
		if base.members[i].Name == x.name(2) {
			base.members[i].Incarnation = 2
		}
	}
	for range 2 {
		if next := x.s.evolve(base, nil); next != nil {
			next.checkMembers()
			base = next
		}
	}
	if m := base.member(x.name(2)); m == nil || m.Incarnation != 2 {
		t.Errorf("%s is a member as %v, want its later life", x.name(2), m)
	}
}
