package ranks

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/slots"
)

// The times of ranks whose origin is silent.
const (
	// HeirWait is how long ranks of a detached job whose origin is dead wait for a node
	// to take the job over.
	HeirWait = 30 * time.Second
	// CutoffTerm is how long a node goes on with the ranks of detached jobs after its last
	// contact with most of the other nodes. The other nodes wait equally long before they
	// start again ranks possibly still running here.
	CutoffTerm = JobTerm
	// suspectTime is how long a node is silent before the other nodes suspect the node.
	suspectTime = 2 * time.Second
)

// OnTakeOver handles a TakeOver at a participant: the node with the highest hop becomes
// the origin.
func (h *Ranks) OnTakeOver(t *local.Turn, from filch.NodeName, m *launcher.TakeOver) {
	k := slots.Key{Job: m.Job, Attempt: m.Attempt}
	p := h.participants[k]
	if p == nil {
		if t.Now < h.Began+AdoptGrace {
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
		p.have, p.level, p.sigs, p.flags.sigsFrom = 0, 0, 0, 0
	}
	h.renewLease(t, p)
	h.report(t, p)
	h.setTimer(p, min(p.until, p.again, p.pull))
}

// acceptsFrom reports whether a participant accepts the messages of a node.
func (p *participant) acceptsFrom(from filch.NodeName) bool {
	return p.flags.hop == 0 || from == p.launch.Origin || mutantHopless
}

// waitsForHeir reports whether a participant is kept for the node that takes the job over.
func (p *participant) waitsForHeir() bool { return p.hasHeir() && !p.over() }

// hasHeir reports whether another node takes the job of a participant over when the
// origin is dead.
func (p *participant) hasHeir() bool { return p.launch.Detach }

// inTouch reports whether this node sees most of the other nodes. A node restarted under
// ranks of detached jobs must also know the roster.
func (h *Ranks) inTouch() bool {
	return h.store.SawMajority() && (!h.cutoff.restarted || h.store.KnowsRoster())
}

// cutoff is the time since which this node is cut off from most of the other nodes.
type cutoff struct {
	cut, at   time.Duration
	restarted bool // under ranks of detached jobs
}

// WatchMajority records when this node loses sight of most of the other nodes, and when
// this node sees most again.
func (h *Ranks) WatchMajority(t *local.Turn) {
	f := &h.cutoff
	switch {
	case h.inTouch():
		f.cut, f.at = filch.Never, filch.Never
	case f.cut == filch.Never:
		f.cut, f.at = t.Now, t.Now+leaseInTouch
	}
}

// TickCutoff ends ranks when this node was cut off for too long.
func (h *Ranks) TickCutoff(t *local.Turn) {
	if h.cutoff.at <= t.Now {
		h.endCutOff(t)
	}
}

// endCutOff ends the ranks here of detached jobs. The other nodes wait until this moment
// before they start the jobs again or report the ranks lost.
func (h *Ranks) endCutOff(t *local.Turn) {
	h.cutoff.at = filch.Never
	if h.inTouch() || mutantNoFenceOff {
		h.cutoff.cut = filch.Never
		return
	}
	for _, p := range h.sorted() {
		if p.waitsForHeir() && p.level == 0 {
			t.Note(local.NoteWarn, p.key.Job, h.Cfg.Name, "cut off from most nodes for %s: ending the ranks here", CutoffTerm)
			p.fault = fault{cause: launcher.CauseNodeLost, err: *filch.Errorf(filch.NodeLost, "%s was cut off from most nodes for %s", h.Cfg.Name, CutoffTerm)}
			h.stop(t, p, launcher.SigTerm, p.launch.KillWait, "this node is cut off from most others")
		}
	}
}

// originMayReturn reports whether the ranks of a detached job go on although their origin
// was silent for longer than its lease: the origin is there, or a new owner will be.
func (h *Ranks) originMayReturn(p *participant) bool { return h.Alive(p.launch.Origin) }

// AwaitHeir makes this node's ranks of a job wait for a message of the new owner, after
// another node took the job over from this node.
func (h *Ranks) AwaitHeir(t *local.Turn, id filch.JobID) {
	for _, p := range h.sorted() {
		if p.key.Job == id && h.mine(p) && !p.over() {
			p.until, p.pull = t.Now+JobTerm, filch.Never
			h.setTimer(p, p.until)
		}
	}
}

// ReportTo reports to an origin the state of its participants here.
func (h *Ranks) ReportTo(t *local.Turn, origin filch.NodeName) {
	for _, q := range h.sorted() {
		if q.launch.Origin == origin && !q.flags.orphan {
			h.report(t, q)
		}
	}
}

// OnOriginDead leaves the ranks here of a dead node's jobs to the node taking the job over,
// and ends the ranks of jobs without an heir.
func (h *Ranks) OnOriginDead(t *local.Turn, name filch.NodeName) {
	for _, q := range h.sorted() {
		if q.launch.Origin != name {
			continue
		}
		if q.waitsForHeir() || q.over() && q.hasHeir() {
			// A finished participant waits too: only this node may know how its ranks
			// ended.
			q.again, q.pull, q.until = filch.Never, filch.Never, t.Now+HeirWait
			h.setTimer(q, q.until)
			continue
		}
		q.flags.orphan = true
		q.again, q.until, q.pull = filch.Never, filch.Never, filch.Never
		if q.over() {
			h.forget(t, q)
			continue
		}
		h.stop(t, q, launcher.SigTerm, min(FailGrace, q.launch.KillWait), "its origin "+string(name)+" is lost")
	}
}

// EndAll ends all ranks here: the others declared this node dead.
func (h *Ranks) EndAll(t *local.Turn) {
	for _, p := range h.sorted() {
		if !h.mine(p) {
			p.flags.orphan = true
			p.again, p.until, p.pull = filch.Never, filch.Never, filch.Never
			if p.over() {
				h.forget(t, p)
				continue
			}
		}
		h.stop(t, p, launcher.SigTerm, min(FailGrace, p.launch.KillWait), "this node was declared dead")
	}
}
