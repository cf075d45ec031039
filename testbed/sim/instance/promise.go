package instance

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node"
)

// The checkers here read the messages only. A lender must not have promised
// more than it has, counting the last word that it said to each; an origin must
// launch on what the newest word that reached it says.

// promises is what a lender's last words amount to.
type promises map[claimKey]promise

type claimKey struct {
	job     filch.JobID
	attempt filch.Attempt
}

type promise struct {
	slots  int32
	origin int32
}

// promised takes in a Grant that a host sends.
func (w *World) promised(h *host, to *host, m *launcher.Grant) {
	k := claimKey{m.Job, m.Attempt}
	j := w.byID[m.Job]
	if m.Held == 0 || j == nil {
		delete(h.promises, k)
		return
	}
	if a := w.attempts[filch.Ident{Instance: "sim", Job: m.Job, Attempt: m.Attempt}]; a != nil && a.hasKeeper(h) {
		return // launched: its keeper has the cores
	}
	room := m.Held * j.request.Shape.PerRank.Slots
	if j.request.Shape.Exclusive {
		room = int32(len(h.cores))
	}
	h.promises[k] = promise{room, to.Index}
}

// hasKeeper reports whether the attempt was ever started on h.
func (a *attempt) hasKeeper(h *host) bool {
	for i, at := range a.launch.Nodes {
		if at.Node == h.Name {
			return a.taken[i]
		}
	}
	return false
}

// unpromise takes in an input that may end a promise. What a lender keeps
// although it was given back, checkQuiet finds.
func (h *host) unpromise(in *input) {
	switch m := in.body.(type) {
	case *launcher.Release:
		delete(h.promises, claimKey{m.Job, m.Attempt})
	case *launcher.Renew:
		for _, l := range m.Leases {
			k := claimKey{l.Job, l.Attempt}
			if p, has := h.promises[k]; has && l.Keep > 0 { // the hold shrinks
				j := h.w.byID[l.Job]
				if p.slots = min(p.slots, l.Keep*j.request.Shape.PerRank.Slots); !j.request.Shape.Exclusive {
					h.promises[k] = p
				}
			}
		}
	case *launcher.Halt:
		delete(h.promises, claimKey{m.Job, m.Attempt})
	case node.Peer:
		for k, p := range h.promises { // in any order: each is dropped or not
			if p.origin == in.from.Index {
				delete(h.promises, k)
			}
		}
	}
}

// checkPromises: what a host promised and what its keepers have fit on it.
func (w *World) checkPromises(h *host) {
	var sum int32
	for _, p := range h.promises { // in any order: a sum
		sum += p.slots
	}
	if sum == 0 {
		return
	}
	var busy int32
	for _, k := range h.cores {
		if k != nil {
			busy++
		}
	}
	if sum+busy > int32(len(h.cores)) {
		w.Fail("overpromised", "%s has %d slots, %d in use and %d promised to %d jobs", h.Name, len(h.cores), busy, sum, len(h.promises))
	}
}

// heardKey is a node as an origin of an attempt knows it. An attempt has two origins
// while the one before does not know yet that its job was taken over.
type heardKey struct {
	claimKey
	origin, node filch.NodeName
}

// hear notes the newest word of each lender that reached an origin.
func (w *World) hear(origin, from *host, m *launcher.Grant) {
	k := heardKey{claimKey{m.Job, m.Attempt}, origin.Name, from.Name}
	old := w.heard[k]
	if old == nil || m.Lease.Incarnation > old.Lease.Incarnation ||
		m.Lease.Incarnation == old.Lease.Incarnation && m.Version > old.Version {
		w.heard[k] = m
	}
}

// heardOf is the newest word about a lease, of whichever attempt.
func (w *World) heardOf(origin filch.NodeName, at launcher.NodeRanks) (newest *launcher.Grant) {
	for k, g := range w.heard { // in any order: versions differ
		if k.origin == origin && k.node == at.Node && g.Lease == at.Lease && (newest == nil || g.Version > newest.Version) {
			newest = g
		}
	}
	return newest
}

// checkDispatch: a launch uses what the newest word of each lender grants.
func (w *World) checkDispatch(h *host, m *launcher.Dispatch) {
	l := &m.Launch
	if m.Direct || l.Origin != h.Name || l.Parent != 0 || w.judged[l.Ident] {
		return
	}
	w.judged[l.Ident] = true
	for _, at := range l.Nodes {
		if at.Node == h.Name {
			continue // what a node says to itself is not heard here
		}
		g := w.heard[heardKey{claimKey{l.Ident.Job, l.Ident.Attempt}, h.Name, at.Node}]
		var ranks int32
		for _, s := range at.Ranks {
			ranks += s.Count
		}
		if l.Keep && (g == nil || g.Lease != at.Lease) {
			g = w.heardOf(h.Name, at) // kept from an earlier attempt
		}
		if g == nil {
			w.Fail("stale-launch", "%s launches %d ranks of %s on %s, which has said nothing", h.Name, ranks, l.Ident, at.Node)
			return
		}
		if g.Lease != at.Lease || g.Held < ranks {
			w.Fail("stale-launch", "%s launches %d ranks of %s on %s, whose newest word is %s", h.Name, ranks, l.Ident, at.Node, show(g))
			return
		}
	}
}
