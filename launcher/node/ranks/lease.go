package ranks

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/slots"
)

// A restarted launcher takes back the ranks of running keepers. The other nodes may not
// learn of the restart, because the node may be cut off. So the lease of the ranks is
// counted across the restart: the launcher sends the remaining time to the keepers, and
// the keepers return it to the next launcher.

// leaseInTouch is the lease of ranks whose launcher is in touch with the other nodes: a
// node can be silent for suspectTime before the others suspect the node.
const leaseInTouch = CutoffTerm - suspectTime

// Lease returns how long the ranks of an attempt may run on here while the other nodes
// stay silent, and whether such an attempt is known; 0 means forever.
func (h *Ranks) Lease(now time.Duration, i filch.Ident) (left time.Duration, known bool) {
	p := h.participants[slots.Key{Job: i.Job, Attempt: i.Attempt}]
	if p == nil {
		return 0, false
	}
	return h.lease(now, p), true
}

func (h *Ranks) lease(now time.Duration, p *participant) time.Duration {
	if p.gang() {
		return min(h.leaseOf(now, p), GangTerm)
	}
	return h.leaseOf(now, p)
}

func (h *Ranks) leaseOf(now time.Duration, p *participant) time.Duration {
	end := p.until
	switch i := h.Members.Find(p.launch.Origin); {
	case p.hasHeir():
		if end = h.cutoff.at; h.inTouch() || h.cutoff.cut == filch.Never {
			return leaseInTouch
		} else if end == filch.Never {
			end = now // the lease was over, and the ranks were told to end
		}
	case h.mine(p):
		return 0
	case i >= 0 && h.Members.At(i).Standing.Answers():
		return leaseInTouch
	}
	return min(max(end-now, 1), leaseInTouch)
}

// resume continues the rest of a lease after a restart; 0: the keeper did not
// receive a lease.
func (h *Ranks) resume(t *local.Turn, p *participant, left time.Duration) {
	if !h.mine(p) {
		// A node waiting for ranks lost here counts from the moment when it learned of
		// this launcher.
		term, _, _ := p.terms()
		p.until = h.Began + term
	}
	switch {
	case left <= 0:
	case !p.hasHeir():
		_, _, every := p.terms()
		p.until, p.pull = min(p.until, t.Now+left), min(p.pull, t.Now+every)
	default:
		f := &h.cutoff
		if f.restarted = true; !h.inTouch() {
			f.cut, f.at = min(f.cut, t.Now), min(f.at, t.Now+left)
		}
	}
}
