package roster

import (
	"cmp"
	"slices"

	"github.com/filch-hpc/filch/dht"
)

// bound returns the highest load of a member: a quarter above the mean, but at least an
// equal share rounded up.
func bound(total, n int) int {
	if n == 0 {
		return 0
	}
	return max((total+n-1)/n, total*5/4/n)
}

// plan decides which shards grow and where to, and which replicas are primaries. Nearness
// recruits, the bounds keep the balance, and a replica moves only if necessary.
func (e *reconfig) plan() {
	want := min(Replicas, e.able)
	if want == 0 {
		return
	}
	e.measure()
	e.drop(want)
	most := bound(want*len(e.r.Shards), e.able)
	for i, c := range e.r.Shards {
		if !e.movable(i) {
			continue
		}
		stays := 0
		var unfit dht.Replica
		for _, r := range c.Replicas {
			if e.fit(r) {
				stays++
			} else {
				unfit = r
			}
		}
		if stays < want {
			e.recruit(i, most, unfit)
		}
	}
	e.level(want, most)
	e.levelHomes()
}

// fit reports whether a replica may go on holding shards.
func (e *reconfig) fit(r dht.Replica) bool {
	i, ok := e.at(r)
	return ok && !e.r.Members[i].Leaving && !e.r.Members[i].Sick
}

// drop removes from the configs the replicas that are not needed: leaving, sick and
// surplus replicas.
func (e *reconfig) drop(want int) {
	for i, c := range e.r.Shards {
		stays := slices.DeleteFunc(slices.Clone(c.Replicas), func(r dht.Replica) bool { return !e.fit(r) })
		well := slices.DeleteFunc(slices.Clone(c.Replicas), func(r dht.Replica) bool {
			m, ok := e.at(r)
			return ok && e.r.Members[m].Sick
		})
		var rest []dht.Replica
		switch {
		case c.Learner != (dht.Replica{}) && e.fit(c.Learner):
		case c.Learner != (dht.Replica{}):
			e.set(i, c.Next(c.Replicas))
		case len(stays) > want:
			rest = e.lighter(stays, want)
		case len(stays) == want && len(stays) < len(c.Replicas):
			rest = stays
		case len(well) < len(c.Replicas):
			rest = well
		}
		if len(rest) > 0 && e.remains(rest) {
			e.set(i, c.Next(rest))
		}
	}
}

// remains reports whether at least one replica of the rest of a config is known to live.
// A silent replica may be dead, and a replica that seems well may have died unnoticed: a
// config is not reduced to such replicas alone. The change waits for an answer.
func (e *reconfig) remains(rest []dht.Replica) bool {
	rest = slices.DeleteFunc(slices.Clone(rest), func(r dht.Replica) bool {
		m, ok := e.at(r)
		return !ok || e.stand[m] != Fine
	})
	if slices.ContainsFunc(rest, e.answered) {
		return true
	}
	e.await(rest)
	return false
}

// answered reports whether a node has answered since the last member left, or wished to
// leave: the node knows the roster with that change.
func (e *reconfig) answered(r dht.Replica) bool {
	return r == e.self || e.view.Knows(r, e.base.Epoch) && slices.Equal(e.r.Members, e.base.Members)
}

// await notes nodes that must answer before the roster can change further.
func (e *reconfig) await(rs []dht.Replica) {
	for _, r := range rs {
		if !slices.Contains(e.awaits, r.Name) {
			e.awaits = append(e.awaits, r.Name)
		}
	}
}

// lighter keeps want of the replicas, including the primary.
func (e *reconfig) lighter(rs []dht.Replica, want int) []dht.Replica {
	rs = slices.Clone(rs)
	for len(rs) > want {
		worst := 1
		for i := 2; i < len(rs); i++ {
			a, _ := e.at(rs[i])
			b, _ := e.at(rs[worst])
			if e.load[a] > e.load[b] {
				worst = i
			}
		}
		rs = slices.Delete(rs, worst, worst+1)
	}
	return rs
}

// nearest returns the member nearest to a shard, of the picked members that can hold
// shards; -1 if there is none.
func (e *reconfig) nearest(s dht.Shard, pick func(m int) bool) int {
	best, at := -1, s.Point()
	for m := range e.r.Members {
		if e.stand[m] != Fine || e.r.Members[m].Leaving || e.r.Members[m].Sick || !pick(m) {
			continue
		}
		if best < 0 || e.place[m]^at < e.place[best]^at {
			best = m
		}
	}
	return best
}

// suits reports whether a member can be recruited for shard i. A member with an earlier
// incarnation still in the config must wait: the messages of the learner must not be
// mistaken for messages of the former replica.
func (e *reconfig) suits(i, m int) bool {
	who := e.r.Members[m].Replica
	return !e.r.Shards[i].names(who.Name) && !e.view.Excluded(e.r.ShardAt(i), who)
}

// recruit plans a learner for shard i.
func (e *reconfig) recruit(i, most int, retire dht.Replica) {
	s := e.r.ShardAt(i)
	may := func(m int) bool { return e.suits(i, m) }
	m := e.nearest(s, func(m int) bool { return may(m) && e.load[m] < most })
	if m < 0 {
		least := -1
		e.nearest(s, func(m int) bool {
			if may(m) && (least < 0 || e.load[m] < least) {
				least = e.load[m]
			}
			return false
		})
		m = e.nearest(s, func(m int) bool { return may(m) && e.load[m] == least })
	}
	if m >= 0 {
		e.invite(i, m, retire)
	}
}

// invite plans member m as a learner of shard i. The epoch stays, as the plan is no part
// of the config.
func (e *reconfig) invite(i, m int, retire dht.Replica) {
	c := *e.r.Shards[i]
	c.Learner, c.retire = e.r.Members[m].Replica, retire
	e.set(i, &c)
}

// level moves shards from members with too many to members with too few.
func (e *reconfig) level(want, most int) {
	mean := want * len(e.r.Shards) / e.able
	least := mean * 3 / 4
	for m := range e.r.Members {
		if e.load[m] > most {
			e.give(m, most)
		}
	}
	for m := range e.r.Members {
		if e.stand[m] != Fine || e.r.Members[m].Leaving || e.r.Members[m].Sick {
			continue
		}
		for e.load[m] < least && e.pull(m, mean) {
		}
	}
}

// movable reports whether a shard has no move or loss under way, and whether this change
// may touch the shard; see [reconfig.set].
func (e *reconfig) movable(i int) bool {
	c := e.r.Shards[i]
	return c.Learner == (dht.Replica{}) && !e.lost[i] && e.may(i, c)
}

// give plans to move shards away from a member with too many, the farthest first.
func (e *reconfig) give(from, most int) {
	who := e.r.Members[from].Replica
	var mine []int
	for i := range e.r.Shards {
		if e.movable(i) && slices.Contains(e.who[i], from) {
			mine = append(mine, i)
		}
	}
	far := func(i int) dht.Point { return e.place[from] ^ e.r.ShardAt(i).Point() }
	slices.SortFunc(mine, func(a, b int) int { return cmp.Compare(far(b), far(a)) })
	for _, i := range mine {
		if e.load[from] <= most {
			return
		}
		s := e.r.ShardAt(i)
		to := e.nearest(s, func(m int) bool {
			return e.load[m]+1 < e.load[from] && e.load[m] < most && e.suits(i, m)
		})
		if to >= 0 {
			e.invite(i, to, who)
		}
	}
}

// pull plans to move one shard to a member, from a member above the mean.
func (e *reconfig) pull(to, mean int) bool {
	bestShard, bestFrom, bestNear := -1, -1, dht.Point(0)
	for i := range e.r.Shards {
		near := e.place[to] ^ e.r.ShardAt(i).Point()
		if bestShard >= 0 && near >= bestNear || !e.movable(i) || !e.suits(i, to) {
			continue
		}
		from := -1
		for _, m := range e.who[i] {
			if m >= 0 && e.load[m] > mean && (from < 0 || e.load[m] > e.load[from]) {
				from = m
			}
		}
		if from >= 0 {
			bestShard, bestFrom, bestNear = i, from, near
		}
	}
	if bestShard < 0 {
		return false
	}
	e.invite(bestShard, to, e.r.Members[bestFrom].Replica)
	return true
}

// levelHomes makes other replicas primaries where one member has too many primaries, or
// should have none. Only a replica of a shard can become its primary.
func (e *reconfig) levelHomes() {
	most := bound(len(e.r.Shards), e.able)
	if len(e.r.Shards) < 4*e.able {
		// With so few shards, a perfect match may not exist.
		most = (len(e.r.Shards)+e.able-1)/e.able + 1
	}
	byHome := make([][]int, len(e.r.Members))
	for i := range e.r.Shards {
		if m := e.who[i][0]; m >= 0 && e.movable(i) {
			byHome[m] = append(byHome[m], i)
		}
	}
	for m := range e.r.Members {
		limit := most
		if e.r.Members[m].Leaving || e.r.Members[m].Sick {
			limit = 0
		}
		for e.homes[m] > limit && e.passHome(m, most, byHome) {
		}
	}
}

// passHome moves one primary away from a member: to a member below the limit, or along a
// chain of members that each pass one primary on.
func (e *reconfig) passHome(from, most int, byHome [][]int) bool {
	type step struct{ member, shard, back int }
	steps := []step{{from, -1, -1}}
	seen := make([]bool, len(e.r.Members))
	seen[from] = true
	for at := 0; at < len(steps); at++ {
		for _, i := range byHome[steps[at].member] {
			for j, m := range e.who[i] {
				r := e.r.Shards[i].Replicas[j]
				if m < 0 || seen[m] || !e.fit(r) || e.stand[m] != Fine || !e.was(i).Has(r) {
					continue
				}
				seen[m] = true
				steps = append(steps, step{m, i, at})
				if e.homes[m] >= most {
					continue
				}
				for s := len(steps) - 1; steps[s].back >= 0; s = steps[s].back {
					e.crown(steps[s].shard, steps[s].member, byHome)
				}
				return true
			}
		}
	}
	return false
}

// crown makes member m the primary of shard i.
func (e *reconfig) crown(i, m int, byHome [][]int) {
	c := e.r.Shards[i]
	if old := e.who[i][0]; old >= 0 {
		byHome[old] = slices.DeleteFunc(byHome[old], func(x int) bool { return x == i })
	}
	byHome[m] = append(byHome[m], i)
	who := e.r.Members[m].Replica
	e.set(i, c.Next(slices.Insert(Without(c.Replicas, who), 0, who)))
}
