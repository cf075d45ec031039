package stealer

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Ready reports whether the grants suffice for the job, and the share of each
// chosen node.
func (g *Gather) Ready() ([]Share, bool) {
	shares, _, ok := g.Placed()
	return shares, ok
}

// Placed is Ready, with the spare nodes.
func (g *Gather) Placed() (shares, spares []Share, ok bool) {
	if g.sum < int64(g.need.Ranks) || g.settling() {
		return nil, nil, false
	}
	return g.need.Place(g.offers((*cell).launchable), g.self)
}

// settling reports whether a node that lends a part of its room has not answered yet to the ask
// for the rest.
func (g *Gather) settling() bool {
	return g.settle != filch.Never && slices.ContainsFunc(g.cells, func(c cell) bool {
		return c.open && c.insists && c.ranks() > 0 && c.ranks() < c.limit
	})
}

// Rest lists the room to give back once the shares were launched: other leases,
// places on wait lists, and asks possibly still under way.
func (g *Gather) Rest(used []Share) []Back {
	in := make(map[filch.NodeName]bool, len(used))
	for _, s := range used {
		in[s.Node] = true
	}
	var out []Back
	for i := range g.cells {
		c := &g.cells[i]
		if c.asked == 0 || in[g.name(i)] || g.members.At(c.member).Standing >= filch.Dead {
			continue
		}
		if c.open || c.last.Held+c.last.Lent > 0 || c.last.Waiting {
			out = append(out, Back{To: g.name(i), Round: c.asked})
		}
	}
	return out
}

// Stage is the current stage of g.
func (g *Gather) Stage() Stage { return g.stage }

// Held is the ranks with room held, and the number of nodes asked.
func (g *Gather) Held() (ranks int64, asked int32) {
	for i := range g.cells {
		if g.cells[i].asked > 0 {
			asked++
		}
	}
	return g.sum, asked
}

// Has reports whether the lease is among the current grants.
func (g *Gather) Has(node filch.NodeName, lease filch.LeaseID) bool {
	m := g.members.Find(node)
	return m >= 0 && int(m) < len(g.where) && g.where[m] > 0 && g.cells[g.where[m]-1].last.Lease == lease
}

// Seat is the known state of a candidate, for an explanation.
type Seat struct {
	Node  filch.NodeName
	Limit int32
	Last  Grant
	Old   bool // no lender confirmed lately what this one named: see [Gather.Refresh]
}

// Full reports whether all usable room of the candidate is held.
func (s *Seat) Full() bool { return s.Last.Held+s.Last.Lent >= s.Limit }

// Seats lists up to k of the candidates already asked, in the order of asking: the
// own node first, then the circles.
func (g *Gather) Seats(k int) []Seat {
	var out []Seat
	confirmed := g.confirmed()
	for i := range g.cells {
		c := &g.cells[i]
		if len(out) == k {
			break
		}
		if c.asked > 0 {
			out = append(out, Seat{Node: g.name(i), Limit: c.limit, Last: c.last, Old: !confirmed[c.blame()]})
		}
	}
	return out
}

// blame is what a lender names as the reason for missing room.
type blame struct {
	holder filch.JobID
	lacks  string
}

func (c *cell) blame() blame { return blame{c.last.Holder, c.last.Lacks} }

// confirmed are the reasons that a lender gave since the last Refresh, or since the one before
// while an ask of the last is not answered.
func (g *Gather) confirmed() map[blame]bool {
	last, open := make(map[blame]uint32), make(map[blame]bool)
	for i := range g.cells {
		if c := &g.cells[i]; c.asked > 0 {
			b := c.blame()
			last[b], open[b] = max(last[b], c.heard), open[b] || c.open
		}
	}
	all := make(map[blame]bool, len(last))
	for b, heard := range last { // in any order: a set
		all[b] = heard == g.refreshes || heard+1 == g.refreshes && open[b]
	}
	return all
}

// Refresh asks up to k of the nodes still short again, so an explanation is up to date: for each
// job that lenders named, most slots first, one of these lenders, since the ranks of a job
// mostly end together. Then the lenders that were silent for longest.
func (g *Gather) Refresh(now time.Duration, k int, out *Moves) {
	if g.stage != Insist {
		return
	}
	g.round++
	g.refreshes++
	for _, i := range g.toRefresh(k) {
		g.ask(now, i, g.cells[i].limit, false, true, out)
	}
}

// toRefresh are the candidates for a Refresh, in the order of asking.
func (g *Gather) toRefresh(k int) []int {
	var short []int
	holds := make(map[blame]int64)
	for i := range g.cells {
		if c := &g.cells[i]; c.ranks() < c.limit && g.members.At(c.member).Standing == filch.Up {
			short = append(short, i)
			holds[c.blame()] += int64(c.last.Holds)
		}
	}
	if len(short) <= k {
		return short
	}
	slices.SortStableFunc(short, func(a, b int) int { return cmp.Compare(g.cells[a].heard, g.cells[b].heard) })
	var first, rest []int
	for _, i := range short {
		if b := g.cells[i].blame(); b != (blame{}) && holds[b] >= 0 {
			first = append(first, i)
			holds[b] = -1 - holds[b]
		} else {
			rest = append(rest, i)
		}
	}
	slices.SortStableFunc(first, func(a, b int) int { return cmp.Compare(holds[g.cells[a].blame()], holds[g.cells[b].blame()]) })
	short = append(first, rest...)[:k]
	slices.Sort(short)
	return short
}
