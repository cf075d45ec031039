package ranks

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/slots"
)

// Keeper handles an event of a keeper of this node: KeeperReady, RanksStarted, RanksWired,
// RanksEnded, KeeperDone, KeeperGone or Adopted. If the attempt is unknown and ranks may
// run, the node orders the keeper to stop.
func (h *Ranks) Keeper(now time.Duration, ev any, out *launcher.Outbox) {
	t := h.Turn(now, out)
	switch ev := ev.(type) {
	case launcher.KeeperReady:
		if p := h.participantFor(t, ev.Ident); p != nil {
			h.onKeeperReady(t, p, ev)
		}
	case launcher.RanksStarted:
		if p := h.participantFor(t, ev.Ident); p != nil && !p.over() {
			tellStart(t, p)
			h.setPhase(t, p, launcher.PhaseStarted)
		}
	case launcher.RanksWired:
		if p := h.participantFor(t, ev.Ident); p != nil && !p.over() {
			t.Event(p.event(events.RanksWired, max(ev.Took.Microseconds(), 1)))
		}
	case launcher.RanksEnded:
		if p := h.participantFor(t, ev.Ident); p != nil && !p.over() {
			h.onRanksEnded(t, p, ev.Ends)
		}
	case launcher.KeeperDone:
		if p := h.participantFor(t, ev.Ident); p != nil && !p.over() {
			p.fault.left, p.flags.unsent = ev.Left, ev.Unsent
			if p.abandoned() {
				p.fault.cause = launcher.CauseNodeLost
				p.fault.err = *filch.Errorf(filch.NodeLost, "the launcher of %s stood still, and the keeper ended its ranks", h.Cfg.Name)
			}
			h.finish(t, p, launcher.PhaseDone)
		}
	case launcher.KeeperGone:
		if p := h.participants[keyOf(ev.Ident)]; p != nil && !p.over() {
			p.fault = fault{cause: launcher.CauseOurs, err: *filch.Errorf(filch.Internal, "the keeper of job %d on %s is gone: %s", p.key.Job, h.Cfg.Name, ev.Text)}
			h.finish(t, p, launcher.PhaseDone)
		}
	case launcher.Adopted:
		h.onAdopted(t, ev)
	default:
		panic(fmt.Sprintf("launcher: keeper event %T", ev))
	}
	t.End()
}

// abandoned reports whether a keeper ended its ranks without an order, as a keeper does
// when its launcher is silent for too long.
func (p *participant) abandoned() bool {
	if p.level > 0 || p.flags.killed || p.fault.cause != launcher.CauseNone {
		return false
	}
	return slices.ContainsFunc(p.ends, func(e launcher.RankEnd) bool {
		return e.Told && e.Kind == launcher.CauseSignal && e.Code == launcher.SigKill
	})
}

func keyOf(i filch.Ident) slots.Key { return slots.Key{Job: i.Job, Attempt: i.Attempt} }

// participantFor returns the participant of an attempt. A keeper of an unknown attempt is
// ordered to end its ranks.
func (h *Ranks) participantFor(t *local.Turn, i filch.Ident) *participant {
	p := h.participants[keyOf(i)]
	if p == nil {
		t.Out.Deeds = append(t.Out.Deeds, launcher.Deed{Ident: i, Kind: launcher.DeedStop, Signal: launcher.SigKill, Reason: "the job is over"},
			launcher.Deed{Ident: i, Kind: launcher.DeedForget})
	}
	return p
}

func (h *Ranks) onKeeperReady(t *local.Turn, p *participant, ev launcher.KeeperReady) {
	switch {
	case p.phase != launcher.PhasePreparing:
	case ev.Err != nil:
		p.fault = fault{cause: ev.Cause, err: *ev.Err}
		if p.fault.cause == launcher.CauseNone {
			p.fault.cause = launcher.CauseOurs
		}
		h.finish(t, p, launcher.PhaseRefused)
	case p.flags.open && p.level == 0:
		// Started without a gate, or the gate was opened early.
		p.phase = launcher.PhasePrepared
		if len(p.launch.Nodes) > 1 {
			h.startRanks(t, p)
		}
	default:
		h.setPhase(t, p, launcher.PhasePrepared)
	}
}

func (h *Ranks) setPhase(t *local.Turn, p *participant, ph launcher.Phase) {
	if ph > p.phase {
		p.phase = ph
		h.report(t, p)
	}
}

// onRanksEnded handles ends of ranks. Bad ends are reported at once. Good ends, and ends
// caused by filch, wait for TellPause: other ends and the keeper's own end follow.
func (h *Ranks) onRanksEnded(t *local.Turn, p *participant, ends []launcher.RankEnd) {
	if most := launcher.CountRanks(p.launch.Nodes[p.index].Ranks); p.flags.adopted || len(p.ends)+len(ends) > int(most) {
		ends = slices.DeleteFunc(slices.Clone(ends), func(e launcher.RankEnd) bool {
			return slices.ContainsFunc(p.ends, func(o launcher.RankEnd) bool { return o.Rank == e.Rank })
		})
		ends = ends[:min(len(ends), max(int(most)-len(p.ends), 0))]
	}
	p.ends = append(p.ends, ends...)
	tellEnds(t, p, ends)
	bad := false
	for i := range ends {
		bad = bad || ends[i].Kind != launcher.CauseNone && !ends[i].Told
	}
	switch {
	case bad:
		h.report(t, p)
	case p.again == filch.Never:
		p.again = t.Now + TellPause
		h.setTimer(p, p.again)
	}
}

// finish ends a participant: its slots are free at once, and the end is reported until the
// origin acknowledges the end.
func (h *Ranks) finish(t *local.Turn, p *participant, ph launcher.Phase) {
	p.phase = ph
	p.until, p.pull = t.Now+GiveUp, filch.Never
	h.setTimer(p, p.until)
	h.freeSlots(t, p)
	if p.fault.left > 0 {
		t.Note(local.NoteError, p.key.Job, h.Cfg.Name, "%d processes cannot be killed: their slots stay out of service", p.fault.left)
	}
	if p.launch.Parent == 0 {
		h.stopSteps(t, p.key.Job, FailGrace, "the job of this step ended")
	}
	if p.flags.orphan {
		h.forget(t, p)
		return
	}
	h.report(t, p)
}

// tombstones remembers the last attempts that are over on this node.
type tombstones struct {
	in   map[slots.Key]bool
	ring []slots.Key
	at   int
}

func (g *tombstones) has(k slots.Key) bool { return g.in[k] }

func (g *tombstones) add(k slots.Key) {
	if g.in[k] {
		return
	}
	if g.in == nil {
		g.in = make(map[slots.Key]bool)
	}
	if len(g.ring) < MaxTombstones {
		g.ring = append(g.ring, k)
	} else {
		delete(g.in, g.ring[g.at])
		g.ring[g.at] = k
		g.at = (g.at + 1) % MaxTombstones
	}
	g.in[k] = true
}
