package sim

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// promises follows what lenders say they hold for an attempt, on both ends of
// the wire. A launch that counts on more than its origin was last told, or that
// a lender refuses although it never said otherwise, heals by itself: the
// attempt is given up and the job gathers anew. It is a broken rule all the
// same, and nothing else would see it.
type promises struct {
	said  map[promise]*launcher.Grant // the latest sent
	heard map[promise]*launcher.Grant // the latest delivered
	void  map[promise]bool            // kept, given back, or stopped by the origin
	seen  map[attemptKey]*launcher.Launch
}

type promise struct {
	job     filch.JobID
	attempt filch.Attempt
	lender  filch.NodeName
}

type attemptKey struct {
	job     filch.JobID
	attempt filch.Attempt
}

func newPromises() *promises {
	return &promises{
		said: make(map[promise]*launcher.Grant), heard: make(map[promise]*launcher.Grant),
		void: make(map[promise]bool), seen: make(map[attemptKey]*launcher.Launch),
	}
}

func later(g, than *launcher.Grant) bool {
	if than == nil || g.Lease.Incarnation != than.Lease.Incarnation {
		return than == nil || g.Lease.Incarnation > than.Lease.Incarnation
	}
	return g.Version > than.Version
}

// sees takes in a message on its way.
func (p *promises) sees(w *World, from, to *host, m launcher.Message) {
	switch m := m.(type) {
	case *launcher.Grant:
		k := promise{m.Job, m.Attempt, from.name}
		if later(m, p.said[k]) {
			p.said[k] = m
		}
	case *launcher.Release:
		p.void[promise{m.Job, m.Attempt, to.name}] = true
	case *launcher.Halt:
		p.void[promise{m.Job, m.Attempt, to.name}] = true
	case *launcher.Dispatch:
		p.launched(w, &m.Launch)
	case *launcher.Progress:
		if m.Phase == launcher.PhaseRefused && m.Cause == launcher.CauseNone {
			p.refused(w, from, to, m)
		}
		p.void[promise{m.Job, m.Attempt, from.name}] = true // it took part: what comes late is refused
	}
}

// hears takes in a grant that reaches an origin.
func (p *promises) hears(from filch.NodeName, m *launcher.Grant) {
	k := promise{m.Job, m.Attempt, from}
	if later(m, p.heard[k]) {
		p.heard[k] = m
	}
}

// launched holds a launch against what its origin was last told.
func (p *promises) launched(w *World, l *launcher.Launch) {
	k := attemptKey{l.Ident.Job, l.Ident.Attempt}
	if l.Parent != 0 || p.seen[k] != nil {
		return
	}
	p.seen[k] = l
	for i := range l.Nodes {
		n := &l.Nodes[i]
		if n.Node == l.Origin {
			continue
		}
		g := p.heard[promise{l.Ident.Job, l.Ident.Attempt, n.Node}]
		if g == nil || g.Lease != n.Lease || g.Held < ranksOf(n) {
			w.fail("stale-grant", "%s counts on %d ranks of %s under lease %v; the latest word of it was %+v", l.Ident, ranksOf(n), n.Node, n.Lease, g)
			return
		}
	}
}

func ranksOf(n *launcher.NodeRanks) (k int32) {
	for _, s := range n.Ranks {
		k += s.Count
	}
	return k
}

// refused holds a refusal against what the lender last said. Where one of the
// two was in trouble, or the origin gave the lease back, it need not say so.
func (p *promises) refused(w *World, lender, origin *host, m *launcher.Progress) {
	k := promise{m.Job, m.Attempt, lender.name}
	g := p.said[k]
	if g == nil || p.void[k] || g.Lease != m.Lease || lender.trouble > -filch.Never || origin.trouble > -filch.Never {
		return
	}
	l := p.seen[attemptKey{m.Job, m.Attempt}]
	if l == nil {
		return
	}
	for i := range l.Nodes {
		if n := &l.Nodes[i]; n.Node == lender.name && g.Held >= ranksOf(n) {
			w.fail("broken-promise", "%s refuses %d ranks of %s although it said that it holds %d", lender.name, ranksOf(n), l.Ident, g.Held)
		}
	}
}
