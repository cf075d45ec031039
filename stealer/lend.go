package stealer

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// lendAfter is how long the gather insists before the held room is lent to tasks. Most jobs
// have their slots sooner, and a lent hold costs a round trip before the launch.
const lendAfter = time.Second

// Word tells a lender whether tasks may use the room held there, and when the job is
// expected to start. Of two words, or a word and an [Ask], the higher round counts.
type Word struct {
	To     filch.NodeName
	Lease  filch.LeaseID
	Round  uint32
	Lends  bool
	Starts time.Duration // from now; 0: not known
}

// firm reports whether the last report of a candidate tells how much can be launched there:
// the candidate does not lend the room, and knows that.
func (c *cell) firm() bool { return !c.lends && !c.recalls }

// ranks is the number of ranks held at a candidate, with those in whose room tasks run.
func (c *cell) ranks() int32 { return min(c.last.Held+c.last.Lent, c.limit) }

// Word answers a lender that asks whether its hold is still wanted. A word with Round 0
// leaves the permission as it is.
func (g *Gather) Word(now time.Duration, from filch.NodeName) Word {
	w := Word{To: from}
	m := g.members.Find(from)
	if m < 0 || int(m) >= len(g.where) || g.where[m] == 0 || g.stage != Insist || g.policy.Kind != Accumulate {
		return w
	}
	c := &g.cells[g.where[m]-1]
	if w.Lease = c.last.Lease; c.recalls || g.sum >= int64(g.need.Ranks) {
		return w
	}
	g.round++
	c.lends = true
	w.Round, w.Lends = g.round, true
	if at := g.starts(); at > 0 {
		w.Starts = max(at-now, time.Millisecond)
	}
	return w
}

// lend lets the nodes with holds lend these, once the gather has insisted for a while.
func (g *Gather) lend(now time.Duration, out *Moves) {
	if g.lendAt > now || g.stage != Insist {
		return
	}
	g.lendAt = filch.Never
	for i := range g.cells {
		if c := &g.cells[i]; c.last.Held > 0 && g.usable(c) {
			if w := g.Word(now, g.name(i)); w.Round > 0 {
				out.Words = append(out.Words, w)
			}
		}
	}
}

// starts is when the missing ranks find room at the latest, as far as the lenders know; 0 if
// not known. What the lenders knew may have proved wrong: then the time is over.
func (g *Gather) starts() time.Duration {
	type part struct {
		at    time.Duration
		ranks int32
	}
	var parts []part
	for i := range g.cells {
		if c := &g.cells[i]; c.frees > 0 && c.last.Waiting && g.usable(c) {
			parts = append(parts, part{c.frees, c.limit - c.ranks()})
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.at, b.at) })
	sum := g.sum
	for _, p := range parts {
		if sum += int64(p.ranks); sum >= int64(g.need.Ranks) {
			return p.at
		}
	}
	return 0
}

// recall asks for the lent room back, as soon as the job could start with the room.
func (g *Gather) recall(now time.Duration, out *Moves) {
	if g.sum < int64(g.need.Ranks) || g.stage != Insist || mutantLateRecall {
		return
	}
	if _, ok := g.Ready(); ok {
		return
	}
	nodes, ok := g.need.nodes(g.offers((*cell).ranks), g.self)
	if !ok {
		return
	}
	g.round++
	for _, name := range nodes {
		i := int(g.where[g.members.Find(name)]) - 1
		if c := &g.cells[i]; c.lends {
			c.lends, c.recalls = false, true
			g.ask(now, i, c.limit, false, true, out)
		}
	}
}

// offers are what the usable candidates have for the job.
func (g *Gather) offers(ranks func(*cell) int32) []Offer {
	offers := make([]Offer, 0, 8)
	for i := range g.cells {
		c := &g.cells[i]
		if n := ranks(c); n > 0 && g.usable(c) {
			offers = append(offers, Offer{Node: g.name(i), Lease: c.last.Lease, Ranks: n, Word: c.last.Version})
		}
	}
	return offers
}

// launchable is the number of ranks that can be launched at a candidate.
func (c *cell) launchable() int32 {
	if !c.firm() {
		return 0
	}
	return min(c.last.Held, c.limit)
}

// Recalled names the nodes asked for lent room back that have not reported yet that no task has
// the room any more.
func (g *Gather) Recalled() (names []filch.NodeName) {
	for i := range g.cells {
		if c := &g.cells[i]; g.usable(c) && (c.recalls || !c.lends && c.last.Lent > 0) {
			names = append(names, g.name(i))
		}
	}
	return names
}

// Lent sums up the tasks in the held room: their number, and the job with most of them.
func (g *Gather) Lent(now time.Duration) (l Lent) {
	by := make(map[filch.JobID]int32)
	for i := range g.cells {
		if c := &g.cells[i]; c.last.Fills > 0 && g.usable(c) {
			l.Tasks += c.last.Fills
			by[c.last.Fill] += c.last.Fills
		}
	}
	most := int32(0)
	for job, n := range by { // in any order: the most win, and among equals the lowest id
		if n > most || n == most && job < l.Job {
			l.Job, most = job, n
		}
	}
	l.Jobs = len(by)
	if at := g.starts(); at > now {
		l.Starts = at - now
	}
	return l
}

// Lent describes the tasks that run in the room held for a job.
type Lent struct {
	Tasks  int32
	Job    filch.JobID // of most of the tasks
	Jobs   int
	Starts time.Duration // when the job is expected to start, from now; 0: not known
}
