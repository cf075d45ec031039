package dht

import (
	"cmp"
	"slices"
)

// bound is the load that nobody is to exceed: a quarter above the mean, but
// room for everybody's share rounded up.
func bound(total, n int) int {
	if n == 0 {
		return 0
	}
	return max((total+n-1)/n, total*5/4/n)
}

// plan decides which shards grow and where to, and who is primary. Nearness
// recruits, the bounds keep the balance, and what need not move stays.
func (e *evolution) plan() {
	want := min(wantedReplicas, e.able)
	if want == 0 {
		return
	}
	e.measure()
	e.drop(want)
	most := bound(want*len(e.r.shards), e.able)
	for i, c := range e.r.shards {
		if !e.movable(i) {
			continue
		}
		stays := 0
		var unfit Replica
		for _, r := range c.replicas {
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

// fit reports whether a replica may hold shards for longer.
func (e *evolution) fit(r Replica) bool {
	i, ok := e.at(r)
	return ok && !e.r.members[i].leaving && !e.r.members[i].sick
}

// drop takes out of the configs who is not needed there: those who leave, the
// sick, and whoever is one too many.
func (e *evolution) drop(want int) {
	for i, c := range e.r.shards {
		stays := slices.DeleteFunc(slices.Clone(c.replicas), func(r Replica) bool { return !e.fit(r) })
		well := slices.DeleteFunc(slices.Clone(c.replicas), func(r Replica) bool {
			m, ok := e.at(r)
			return ok && e.r.members[m].sick
		})
		var rest []Replica
		switch {
		case c.learner != (Replica{}) && e.fit(c.learner):
		case c.learner != (Replica{}):
			e.set(i, c.next(c.replicas))
		case len(stays) > want:
			rest = e.lighter(stays, want)
		case len(stays) == want && len(stays) < len(c.replicas):
			rest = stays
		case len(well) < len(c.replicas):
			rest = well
		}
		if len(rest) > 0 && e.remains(rest) {
			e.set(i, c.next(rest))
		}
	}
}

// remains reports whether somebody among the rest of a config is known to live. Who
// is only silent may be dead, and who seems well may have died unnoticed: neither is
// left alone with what those give up who go. They wait for an answer.
func (e *evolution) remains(rest []Replica) bool {
	rest = slices.DeleteFunc(slices.Clone(rest), func(r Replica) bool {
		m, ok := e.at(r)
		return !ok || e.stand[m] != fine
	})
	if slices.ContainsFunc(rest, e.answered) {
		return true
	}
	e.await(rest)
	return false
}

// answered reports whether a node has answered since the last member went, or wished
// to go: it knows the roster that says so.
func (e *evolution) answered(r Replica) bool {
	p := e.s.peers.get(r.Name)
	return r == e.s.self || p != nil && p.inc == r.Incarnation && p.have >= e.base.epoch && slices.Equal(e.r.members, e.base.members)
}

// await notes that some nodes are to answer before more can change.
func (e *evolution) await(rs []Replica) {
	for _, r := range rs {
		if !slices.Contains(e.awaits, r.Name) {
			e.awaits = append(e.awaits, r.Name)
		}
	}
}

// lighter keeps want of the replicas, the primary among them.
func (e *evolution) lighter(rs []Replica, want int) []Replica {
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

// nearest is the member nearest to a shard of those who can hold one and are
// picked; -1 if there is none.
func (e *evolution) nearest(s Shard, pick func(m int) bool) int {
	best, at := -1, s.point()
	for m := range e.r.members {
		if e.stand[m] != fine || e.r.members[m].leaving || e.r.members[m].sick || !pick(m) {
			continue
		}
		if best < 0 || e.place[m]^at < e.place[best]^at {
			best = m
		}
	}
	return best
}

// suits reports whether a member can be recruited for shard i. One whose earlier
// life is still in the config can't yet: what it says as the learner must not be
// taken for the word of the replica that it was.
func (e *evolution) suits(i, m int) bool {
	who := e.r.members[m].Replica
	return !e.r.shards[i].names(who.Name) && !e.s.stew.soured(e.r.shardAt(i), who, e.s.now)
}

// recruit plans a learner for shard i.
func (e *evolution) recruit(i, most int, retire Replica) {
	s := e.r.shardAt(i)
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

// invite plans member m as a learner of shard i. The epoch stays: the plan is
// no part of the config.
func (e *evolution) invite(i, m int, retire Replica) {
	c := *e.r.shards[i]
	c.learner, c.retire = e.r.members[m].Replica, retire
	e.set(i, &c)
}

// level moves shards from who has too many to who has too few.
func (e *evolution) level(want, most int) {
	mean := want * len(e.r.shards) / e.able
	least := mean * 3 / 4
	for m := range e.r.members {
		if e.load[m] > most {
			e.give(m, most)
		}
	}
	for m := range e.r.members {
		if e.stand[m] != fine || e.r.members[m].leaving || e.r.members[m].sick {
			continue
		}
		for e.load[m] < least && e.pull(m, mean) {
		}
	}
}

// movable reports whether a shard stands still, so that a move can begin, and
// whether this change may touch it; see [evolution.set].
func (e *evolution) movable(i int) bool {
	c := e.r.shards[i]
	return c.learner == (Replica{}) && !e.lost[i] && e.may(i, c)
}

// give plans to move shards away from a member that has too many, the
// farthest first.
func (e *evolution) give(from, most int) {
	who := e.r.members[from].Replica
	var mine []int
	for i := range e.r.shards {
		if e.movable(i) && slices.Contains(e.who[i], from) {
			mine = append(mine, i)
		}
	}
	far := func(i int) point { return e.place[from] ^ e.r.shardAt(i).point() }
	slices.SortFunc(mine, func(a, b int) int { return cmp.Compare(far(b), far(a)) })
	for _, i := range mine {
		if e.load[from] <= most {
			return
		}
		s := e.r.shardAt(i)
		to := e.nearest(s, func(m int) bool {
			return e.load[m]+1 < e.load[from] && e.load[m] < most && e.suits(i, m)
		})
		if to >= 0 {
			e.invite(i, to, who)
		}
	}
}

// pull plans to move one shard to a member, from one that has more than the
// mean.
func (e *evolution) pull(to, mean int) bool {
	bestShard, bestFrom, bestNear := -1, -1, point(0)
	for i := range e.r.shards {
		near := e.place[to] ^ e.r.shardAt(i).point()
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
	e.invite(bestShard, to, e.r.members[bestFrom].Replica)
	return true
}

// levelHomes makes others primaries where one member has too many, or should
// have none. Only replicas of a shard can be its primary.
func (e *evolution) levelHomes() {
	most := bound(len(e.r.shards), e.able)
	if len(e.r.shards) < 4*e.able {
		most = (len(e.r.shards)+e.able-1)/e.able + 1 // so few that a perfect match may not exist
	}
	byHome := make([][]int, len(e.r.members))
	for i := range e.r.shards {
		if m := e.who[i][0]; m >= 0 && e.movable(i) {
			byHome[m] = append(byHome[m], i)
		}
	}
	for m := range e.r.members {
		limit := most
		if e.r.members[m].leaving || e.r.members[m].sick {
			limit = 0
		}
		for e.homes[m] > limit && e.passHome(m, most, byHome) {
		}
	}
}

// passHome takes one primary off a member: to one with room, or along a chain
// of members that each pass one on.
func (e *evolution) passHome(from, most int, byHome [][]int) bool {
	type step struct{ member, shard, back int }
	steps := []step{{from, -1, -1}}
	seen := make([]bool, len(e.r.members))
	seen[from] = true
	for at := 0; at < len(steps); at++ {
		for _, i := range byHome[steps[at].member] {
			for j, m := range e.who[i] {
				r := e.r.shards[i].replicas[j]
				if m < 0 || seen[m] || !e.fit(r) || e.stand[m] != fine || !e.was(i).has(r) {
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
func (e *evolution) crown(i, m int, byHome [][]int) {
	c := e.r.shards[i]
	if old := e.who[i][0]; old >= 0 {
		byHome[old] = slices.DeleteFunc(byHome[old], func(x int) bool { return x == i })
	}
	byHome[m] = append(byHome[m], i)
	who := e.r.members[m].Replica
	e.set(i, c.next(slices.Insert(without(c.replicas, who), 0, who)))
}
