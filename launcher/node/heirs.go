package node

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/slots"
)

// onTakeOver handles a TakeOver at a participant: the node with the highest hop becomes
// the origin.
func (h *ranks) onTakeOver(t *Turn, from filch.NodeName, m *launcher.TakeOver) {
	k := slots.Key{Job: m.Job, Attempt: m.Attempt}
	p := h.parts[k]
	if p == nil {
		if t.Now < h.began+AdoptGrace {
			return // a keeper may still turn up
		}
		t.Send(from, h.noRanks(&launcher.Progress{Job: m.Job, Attempt: m.Attempt, Index: m.Index, Lease: m.Lease}))
		return
	}
	if m.Hop < p.flags.hop || m.Hop == p.flags.hop && from != p.launch.Origin {
		return
	}
	if m.Hop > p.flags.hop {
		l := *p.launch
		l.Origin, l.Hop = from, m.Hop
		p.launch, p.flags.hop, p.flags.orphan = &l, m.Hop, false
		p.have, p.level, p.sigs, p.flags.voice = 0, 0, 0, 0
	}
	h.heard(t, p)
	h.report(t, p)
	h.wakePart(p, min(p.until, p.again, p.pull))
}

// acceptsFrom reports whether a part accepts the messages of a node.
func (p *part) acceptsFrom(from filch.NodeName) bool {
	return p.flags.hop == 0 || from == p.launch.Origin || mutantHopless
}

// inherits reports whether a part is kept for the node that takes the job over.
func (p *part) inherits() bool { return p.handsOn() && !p.over() }

// handsOn reports whether another node takes the job of a part over when the origin is
// dead.
func (p *part) handsOn() bool { return p.launch.Detach }

// inTouch reports whether this node sees most of the other nodes. A node restarted under
// ranks of detached jobs must also know the roster.
func (h *ranks) inTouch() bool {
	return h.records.SawMajority() && (!h.fence.anew || h.records.StoreStatus().Known)
}

// fence is the time since which this node is cut off from most of the other nodes.
type fence struct {
	cut, at time.Duration
	anew    bool // restarted under ranks of detached jobs
}

// watchMajority records when this node loses sight of most of the other nodes, and when
// this node sees most again.
func (h *ranks) watchMajority(t *Turn) {
	f := &h.fence
	switch {
	case h.inTouch():
		f.cut, f.at = filch.Never, filch.Never
	case f.cut == filch.Never:
		f.cut, f.at = t.Now, t.Now+leaseInTouch
	}
}

// fenceOff ends the ranks here of detached jobs. The other nodes wait until this moment
// before they start the jobs again or report the ranks lost.
func (h *ranks) fenceOff(t *Turn) {
	h.fence.at = filch.Never
	if h.inTouch() || mutantNoFenceOff {
		h.fence.cut = filch.Never
		return
	}
	for _, p := range h.sortedParts() {
		if p.inherits() && p.level == 0 {
			t.Note(noteWarn, p.key.Job, h.cfg.Name, "cut off from most nodes for %s: ending the ranks here", FenceTerm)
			p.fault = fault{cause: launcher.CauseNodeLost, err: *filch.Errorf(filch.NodeLost, "%s was cut off from most nodes for %s", h.cfg.Name, FenceTerm)}
			h.stop(t, p, sigTerm, p.launch.KillWait, "this node is cut off from most others")
		}
	}
}

// originMayReturn reports whether the ranks of a detached job go on although their origin
// was silent for longer than its lease: the origin is there, or a new owner will be.
func (h *ranks) originMayReturn(p *part) bool { return h.alive(p.launch.Origin) }

// awaitHeir makes this node's ranks of a job wait for a message of the new owner, after
// another node took the job over from this node.
func (h *ranks) awaitHeir(t *Turn, id filch.JobID) {
	for _, p := range h.sortedParts() {
		if p.key.Job == id && h.mine(p) && !p.over() {
			p.until, p.pull = t.Now+JobTerm, filch.Never
			h.wakePart(p, p.until)
		}
	}
}
