package launcher

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/slots"
)

// A launcher that is started again takes back the ranks that it finds, and nobody
// may hear of that: their node may be cut off. So their lease is counted over the
// restart. Keepers are told how long it lasts, and tell the next launcher.

// leaseInTouch is the lease of ranks whose launcher is in touch with the others: who is
// not suspected may have been silent for as long as that takes.
const leaseInTouch = FenceTerm - suspectTime

// Lease is how long the ranks of an attempt may run on here where nothing more is
// heard of the other nodes, and whether such an attempt is known; 0: for ever.
func (n *Node) Lease(now time.Duration, i filch.Ident) (left time.Duration, known bool) {
	p := n.parts[slots.Key{Job: i.Job, Attempt: i.Attempt}]
	if p == nil {
		return 0, false
	}
	return n.lease(now, p), true
}

func (n *Node) lease(now time.Duration, p *part) time.Duration {
	end := p.until
	switch i := n.members.Find(p.launch.Origin); {
	case p.handsOn():
		if end = n.meta.fence.at; n.inTouch() || n.meta.fence.cut == filch.Never {
			return leaseInTouch
		} else if end == filch.Never {
			end = now // it was over, and the ranks were told to end
		}
	case n.mine(p):
		return 0
	case i >= 0 && n.members.At(i).Standing.Answers():
		return leaseInTouch
	}
	return min(max(end-now, 1), leaseInTouch)
}

// resume lets what is left of a lease go on after a restart; 0: the keeper was not told.
func (n *Node) resume(now time.Duration, p *part, left time.Duration) {
	if !n.mine(p) {
		p.until = n.birth.began + JobTerm // who waits for what was lost here counts from when it heard of this launcher
	}
	switch {
	case left <= 0:
	case !p.handsOn():
		p.until, p.pull = min(p.until, now+left), min(p.pull, now+PullEvery)
	default:
		f := &n.meta.fence
		if f.anew = true; !n.inTouch() {
			f.cut, f.at = min(f.cut, now), min(f.at, now+left)
		}
	}
}
