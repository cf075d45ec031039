package stealer

import (
	"time"

	"github.com/filch-hpc/filch"
)

// Ready reports whether what is held makes the job, and of which nodes.
func (g *Gather) Ready() ([]Share, bool) {
	if g.sum < int64(g.need.Ranks) {
		return nil, false
	}
	offers := make([]Offer, 0, 8)
	for i := range g.cells {
		if c := &g.cells[i]; c.last.Held > 0 && g.usable(c) {
			offers = append(offers, Offer{Node: g.name(i), Lease: c.last.Lease, Ranks: min(c.last.Held, c.limit), Word: c.last.Version})
		}
	}
	chosen, ok := g.need.Choose(offers, g.self)
	if !ok {
		return nil, false
	}
	return g.need.Assign(chosen, g.self), true
}

// Rest lists what is to be given back once the shares were launched: other
// leases, places on wait lists, and asks that may still be under way.
func (g *Gather) Rest(used []Share) []Back {
	in := make(map[filch.NodeName]bool, len(used))
	for _, s := range used {
		in[s.Node] = true
	}
	var out []Back
	for i := range g.cells {
		c := &g.cells[i]
		if c.asked == 0 || in[g.name(i)] || g.members.At(c.member).Standing >= Dead {
			continue
		}
		if c.open || c.last.Held > 0 || c.last.Waiting {
			out = append(out, Back{To: g.name(i), Round: c.asked})
		}
	}
	return out
}

// Stage is how far it has come.
func (g *Gather) Stage() Stage { return g.stage }

// Held is the ranks that room is held for, and how many nodes were asked.
func (g *Gather) Held() (ranks int64, asked int32) {
	for i := range g.cells {
		if g.cells[i].asked > 0 {
			asked++
		}
	}
	return g.sum, asked
}

// Has reports whether that lease is one that is counted on.
func (g *Gather) Has(node filch.NodeName, lease filch.LeaseID) bool {
	m := g.members.Find(node)
	return m >= 0 && int(m) < len(g.where) && g.where[m] > 0 && g.cells[g.where[m]-1].last.Lease == lease
}

// Seat is what is known of one candidate, for an explanation.
type Seat struct {
	Node  filch.NodeName
	Limit int32
	Last  Grant
}

// Seats lists candidates that were asked and are short, at most k of them,
// those with the most slots in another job's hands first come by order of
// asking: the own node, then the nearest circles.
func (g *Gather) Seats(k int) []Seat {
	var out []Seat
	for i := range g.cells {
		c := &g.cells[i]
		if len(out) == k {
			break
		}
		if c.asked > 0 {
			out = append(out, Seat{Node: g.name(i), Limit: c.limit, Last: c.last})
		}
	}
	return out
}

// Refresh asks k nodes again that it waits for, so that an explanation is of
// now.
func (g *Gather) Refresh(now time.Duration, k int, out *Moves) {
	if g.stage != Insist {
		return
	}
	g.round++
	for i := range g.cells {
		c := &g.cells[i]
		if k == 0 {
			return
		}
		if c.last.Held < c.limit && g.members.At(c.member).Standing == Up {
			g.ask(now, i, c.limit, false, true, out)
			k--
		}
	}
}
