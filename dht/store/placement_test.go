package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
)

// settler plays the rounds of changes and admission on one store, without
// messages: every learner is ready at once.
type settler struct {
	s      *Store
	r      *roster.Roster
	rounds int
	moved  int // replicas that got a shard
}

func newSettler() *settler {
	s := New(Config{Self: "n0", Incarnation: 1, Seed: 1})
	r := roster.New(s.self)
	s.view.roster, s.now = r, time.Hour
	return &settler{s: s, r: r}
}

func (x *settler) name(i int) filch.NodeName { return filch.NodeName(fmt.Sprintf("node-%d", i)) }

func (x *settler) set(i int, st dht.PeerState) {
	p := x.s.peers.know(x.name(i))
	p.inc, p.confirmed, p.listed, p.state = 1, 1, true, st
}

func (x *settler) settle(t testing.TB) {
	t.Helper()
	for range 200 {
		var asks []roster.Change
		for i, c := range x.r.Shards {
			if c.Learner != (dht.Replica{}) {
				asks = append(asks, roster.Change{What: roster.ChangeAdmit, Shard: x.r.ShardAt(i), Epoch: c.Epoch, Who: c.Learner})
			}
		}
		n := x.s.proposer.next(x.r, asks)
		if n == nil {
			return
		}
		n.Follows(x.r)
		if n.Depth == x.r.Depth {
			for i, c := range n.Shards {
				for _, r := range c.Replicas {
					if !x.r.Shards[i].Has(r) {
						x.moved++
					}
				}
			}
		}
		if n.Sealed() {
			n = n.Opened()
		}
		x.r, x.s.view.roster = n, n
		x.rounds++
	}
	t.Fatal("the placement does not come to rest")
}

// loads are the shards and homes of all members.
func (x *settler) loads() (shards, homes map[filch.NodeName]int) {
	shards, homes = map[filch.NodeName]int{}, map[filch.NodeName]int{}
	for _, m := range x.r.Members {
		shards[m.Name], homes[m.Name] = 0, 0
	}
	for _, c := range x.r.Shards {
		homes[c.Primary().Name]++
		for _, r := range c.Replicas {
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
				x.set(i, dht.PeerUp)
				if i%(n/8) == 0 {
					x.settle(t) // they come in crowds
				}
			}
			x.settle(t)
			shards, homes := x.loads()
			checkBalance(t, "shards", shards)
			checkBalance(t, "homes", homes)
			if len(x.r.Acceptors) != 5 {
				t.Errorf("got %d acceptors, want 5", len(x.r.Acceptors))
			}

			x.set(n, dht.PeerUp) // there are twice as many shards from here on, up to 4,096
			x.settle(t)
			x.moved = 0
			x.set(n+1, dht.PeerUp)
			x.settle(t)
			mean := roster.Replicas * len(x.r.Shards) / (n + 1)
			if x.moved > 2*mean {
				t.Errorf("one that joins moved %d shards, mean %d", x.moved, mean)
			}
			x.moved = 0
			was, _ := x.loads()
			x.set(5, dht.PeerDead)
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
			x.set(i, dht.PeerUp)
			x.settle(t)
		}
		for i, c := range x.r.Shards {
			if len(c.Replicas) != min(3, n) {
				t.Fatalf("%d nodes: shard %d has %d replicas", n, i, len(c.Replicas))
			}
		}
		want := 1
		if n >= 16 {
			want = 5
		} else if n >= 3 {
			want = 3
		}
		if len(x.r.Acceptors) != want {
			t.Errorf("%d nodes: got %d acceptors, want %d", n, len(x.r.Acceptors), want)
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
		x.set(i, dht.PeerUp)
	}
	x.settle(t)
	near := 0
	for i, c := range x.r.Shards {
		at := x.r.ShardAt(i).Point()
		names := make([]filch.NodeName, 0, 64)
		for _, m := range x.r.Members {
			names = append(names, m.Name)
		}
		slices.SortFunc(names, func(a, b filch.NodeName) int {
			if dht.PlaceOf(a)^at < dht.PlaceOf(b)^at {
				return -1
			}
			return 1
		})
		for _, r := range c.Replicas {
			if slices.Index(names, r.Name) < 16 {
				near++
			}
		}
	}
	if share := float64(near) / float64(3*len(x.r.Shards)); share < 0.5 {
		t.Errorf("%.0f %% of the replicas are among the nearest quarter", 100*share)
	}
}

func TestShardNumbers(t *testing.T) {
	for _, k := range []dht.Key{"a", "b", "job/1"} {
		for depth := uint(dht.ShardBitsMin); depth < dht.ShardBitsMax; depth++ {
			s, child := dht.PointOf(k).Shard(depth), dht.PointOf(k).Shard(depth+1)
			if s.Depth() != depth || child>>1 != s || !s.Holds(dht.PointOf(k)) || !s.Holds(s.Point()) {
				t.Errorf("%q at depth %d: shard %d, then %d", k, depth, s, child)
			}
		}
		if got := dht.ShardOf(k, 64); got != dht.PointOf(k).Shard(6) {
			t.Errorf("got shard %d of 64", got)
		}
	}
}

// TestPlacementWaitsForTheLifeBefore recruits nobody for a shard whose config
// still has an earlier life of that node: while its other replica is silent, that
// life cannot be dropped yet.
func TestPlacementWaitsForTheLifeBefore(t *testing.T) {
	x := newSettler()
	x.set(1, dht.PeerUp)
	x.set(2, dht.PeerUp)
	x.settle(t)
	base := x.r.Copy()
	for i, c := range base.Shards {
		base.Shards[i] = c.Next([]dht.Replica{{Name: x.name(1), Incarnation: 1}, {Name: x.name(2), Incarnation: 1}})
	}
	x.set(1, dht.PeerSuspect)
	p := x.s.peers.know(x.name(2))
	p.inc, p.confirmed = 2, 2
	next := x.s.proposer.next(base, nil)
	learners := 0
	for i, c := range next.Shards {
		if c.Learner.Name == x.name(2) {
			t.Fatalf("shard %d of %v is to be learnt by %v", i, c.Replicas, c.Learner)
		}
		if c.Learner != (dht.Replica{}) {
			learners++
		}
	}
	if learners == 0 {
		t.Error("nobody is recruited")
	}
}

// TestPlacementNamesNobodyTwice lets a proposer change a roster in which a node is in
// a later life than its member list knows: the earlier one is not a member too.
func TestPlacementNamesNobodyTwice(t *testing.T) {
	x := newSettler()
	for i := 1; i < 4; i++ {
		x.set(i, dht.PeerUp)
	}
	x.settle(t)
	x.s.view.since = x.s.now
	base := x.r.Copy()
	for i := range base.Members {
		if base.Members[i].Name == x.name(2) {
			base.Members[i].Incarnation = 2
		}
	}
	for range 2 {
		if next := x.s.proposer.next(base, nil); next != nil {
			next.CheckMembers()
			base = next
		}
	}
	if m := base.Member(x.name(2)); m == nil || m.Incarnation != 2 {
		t.Errorf("%s is a member as %v, want its later life", x.name(2), m)
	}
}
