package ranks

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/slots"
)

// OnAsk is the victim's side of an Ask. If the Ask is late, or if the origin forgot
// launching the attempt (see isOf), this node already has a participant of the attempt,
// and reports the participant to the origin. A grant for the second launch would be
// wrong: the participant would be ready for the second launch, and run with the ranks and
// nodes of the first.
func (h *Ranks) OnAsk(t *local.Turn, from filch.NodeName, m *launcher.Ask) {
	a := slots.Ask{
		Key: slots.Key{Job: m.Job, Attempt: m.Attempt}, Of: m.Of, Ticket: m.Ticket, Origin: from, Incarnation: m.Incarnation,
		Base: m.Base, Each: m.Each, Exclusive: m.Exclusive, Wait: m.Wait, Want: m.Want, Round: m.Round,
		Takes: m.Takes, Ends: m.Takes > 0 && h.Cfg.Walltime.Fits(t.Now, m.Takes),
	}
	if a.Want <= 0 || a.Want > launcher.MaxRanks || !sane(a.Base, a.Each) {
		return
	}
	if p := h.participants[a.Key]; p != nil && p.launch.Origin == from {
		h.report(t, p)
		return
	}
	s := local.Lend(h.Ledger, t.Now, a, m.Half)
	h.Ledger.Backfill.Permit(t.Now, a.Key, s.Lease, m.Round, m.Lends, 0)
	t.Send(from, h.grant(t.Now, s))
}

// sane reports whether ranks may take these amounts: nothing is negative, and there is at
// least one slot.
func sane(base, each filch.Room) bool {
	if base.Named.Check() != nil || each.Named.Check() != nil {
		return false
	}
	return base.Slots >= 0 && base.MemBytes >= 0 && base.GPUs >= 0 &&
		each.Slots >= 0 && each.MemBytes >= 0 && each.GPUs >= 0 && (base.Slots > 0 || each.Slots > 0)
}

// grant returns the message for the origin of a claim.
func (h *Ranks) grant(now time.Duration, s slots.Status) *launcher.Grant {
	g := &launcher.Grant{
		Job: s.Key.Job, Attempt: s.Key.Attempt, Lease: s.Lease, Held: s.Held, Version: s.Version,
		Round: s.Round, Waiting: s.Waiting, Refused: s.Refused, Older: s.Older, Free: h.Ledger.Free().Slots, Lent: s.Lent,
	}
	if s.Lent > 0 {
		g.Fill, g.Fills = h.fills.In(s.Key)
	}
	if s.Waiting || s.Held+s.Lent == 0 {
		g.Holder, g.Holds, g.Lacks = h.Ledger.InTheWay(s.Key)
		switch job, held := h.tasks.InTheWay(g.Lacks); {
		case g.Lacks == "" && held > int64(g.Holds):
			g.Holder, g.Holds = job, int32(held)
		case g.Lacks != "" && g.Holder == 0:
			g.Holder = job
		}
		if at := h.Ledger.Backfill.Frees(now, s.Key, h.fills.Occupants()); at > 0 {
			g.Frees = at - now
		}
	}
	return g
}

// SendGrants sends the changes in the ledger to the origins of the claims, and reports
// whether there was any change.
func (h *Ranks) SendGrants(t *local.Turn) bool {
	h.changed = h.Ledger.Changed(h.changed[:0])
	for _, s := range h.changed {
		t.Send(s.Origin, h.grant(t.Now, s))
	}
	return len(h.changed) > 0
}

// until is the end of a time from now; 0 if the time is not known.
func until(now, left time.Duration) time.Duration {
	if left <= 0 {
		return 0
	}
	return now + left
}

// OnRenew handles the list of leases still wanted by an origin. For a launched job
// unknown here, the node answers with a Progress saying the ranks are gone.
func (h *Ranks) OnRenew(t *local.Turn, from filch.NodeName, m *launcher.Renew) {
	for _, r := range m.Leases {
		k := slots.Key{Job: r.Job, Attempt: r.Attempt}
		if r.Index < 0 {
			if r.Keep > 0 && !h.Ledger.Spares.Keep(t.Now, k, r.Lease, r.Keep) {
				t.Send(from, h.grant(t.Now, h.Ledger.Status(k)))
				continue
			}
			if h.Ledger.Renew(t.Now, k, r.Lease) && r.Round > 0 {
				h.Ledger.Backfill.Permit(t.Now, k, r.Lease, r.Round, r.Lends, until(t.Now, r.Starts))
			}
			continue
		}
		if p := h.participants[k]; p != nil {
			if p.acceptsFrom(from) {
				h.renewLease(t, p)
			}
			continue
		}
		if r.Lease.Incarnation < h.Cfg.Incarnation && t.Now < h.Began+AdoptGrace {
			continue // a keeper may still be adopted
		}
		t.Send(from, h.noRanks(&launcher.Progress{Job: r.Job, Attempt: r.Attempt, Index: r.Index, Lease: r.Lease}))
	}
}
