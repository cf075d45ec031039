package launcher

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/slots"
)

// Keeper takes in what a keeper of this node says: KeeperReady, RanksStarted,
// RanksEnded, KeeperDone, KeeperGone or Adopted. What concerns no attempt that
// is known is answered with a stop where ranks may run.
func (n *Node) Keeper(now time.Duration, ev any, out *Outbox) {
	switch ev := ev.(type) {
	case KeeperReady:
		if p := n.partFor(ev.Ident, out); p != nil {
			n.keeperReady(now, p, ev, out)
		}
	case RanksStarted:
		if p := n.partFor(ev.Ident, out); p != nil && !p.over() {
			n.setPhase(now, p, PhaseStarted, out)
		}
	case RanksEnded:
		if p := n.partFor(ev.Ident, out); p != nil && !p.over() {
			n.ranksEnded(now, p, ev.Ends, out)
		}
	case KeeperDone:
		if p := n.partFor(ev.Ident, out); p != nil && !p.over() {
			p.fault.left = ev.Left
			if p.abandoned() {
				p.fault.cause = CauseNodeLost
				p.fault.err = *filch.Errorf(filch.NodeLost, "the launcher of %s stood still, and the keeper ended its ranks", n.cfg.Name)
			}
			n.partOver(now, p, PhaseDone, out)
		}
	case KeeperGone:
		if p := n.parts[keyOf(ev.Ident)]; p != nil && !p.over() {
			p.fault = fault{cause: CauseOurs, err: *filch.Errorf(filch.Internal, "the keeper of job %d on %s is gone: %s", p.key.Job, n.cfg.Name, ev.Text)}
			n.partOver(now, p, PhaseDone, out)
		}
	case Adopted:
		n.adopted(now, ev, out)
	default:
		panic(fmt.Sprintf("launcher: keeper event %T", ev))
	}
	n.settle(now, out)
}

// abandoned reports whether a keeper ended its ranks of its own accord: it does
// that when its launcher is silent for too long.
func (p *part) abandoned() bool {
	if p.level > 0 || p.flags.killed || p.fault.cause != CauseNone {
		return false
	}
	return slices.ContainsFunc(p.ends, func(e RankEnd) bool { return e.Told && e.Kind == CauseSignal && e.Code == sigKill })
}

func keyOf(i filch.Ident) slots.Key { return slots.Key{Job: i.Job, Attempt: i.Attempt} }

// partFor finds the part that a keeper speaks of; a keeper of none is told to
// end its ranks.
func (n *Node) partFor(i filch.Ident, out *Outbox) *part {
	p := n.parts[keyOf(i)]
	if p == nil {
		out.Deeds = append(out.Deeds, Deed{Ident: i, Kind: DeedStop, Signal: sigKill, Reason: "the job is over"},
			Deed{Ident: i, Kind: DeedForget})
	}
	return p
}

func (n *Node) keeperReady(now time.Duration, p *part, ev KeeperReady, out *Outbox) {
	switch {
	case p.phase != PhasePreparing:
	case ev.Err != nil:
		p.fault = fault{cause: ev.Cause, err: *ev.Err}
		if p.fault.cause == CauseNone {
			p.fault.cause = CauseOurs
		}
		n.partOver(now, p, PhaseRefused, out)
	case p.flags.open && p.level == 0:
		// Started without a gate, or the gate was opened early.
		p.phase = PhasePrepared
		if len(p.launch.Nodes) > 1 {
			n.goAhead(p, out)
		}
	default:
		n.setPhase(now, p, PhasePrepared, out)
	}
}

func (n *Node) setPhase(now time.Duration, p *part, ph Phase, out *Outbox) {
	if ph > p.phase {
		p.phase = ph
		n.report(now, p, out)
	}
}

// ranksEnded takes in ends. Bad ones are told at once; good ones, and those that
// we caused, wait for a moment: the others and the keeper's own end follow.
func (n *Node) ranksEnded(now time.Duration, p *part, ends []RankEnd, out *Outbox) {
	if most := count(p.launch.Nodes[p.index].Ranks); p.flags.adopted || len(p.ends)+len(ends) > int(most) {
		ends = slices.DeleteFunc(slices.Clone(ends), func(e RankEnd) bool {
			return slices.ContainsFunc(p.ends, func(o RankEnd) bool { return o.Rank == e.Rank })
		})
		ends = ends[:min(len(ends), max(int(most)-len(p.ends), 0))]
	}
	p.ends = append(p.ends, ends...)
	bad := false
	for i := range ends {
		bad = bad || ends[i].Kind != CauseNone && !ends[i].Told
	}
	switch {
	case bad:
		n.report(now, p, out)
	case p.again == filch.Never:
		p.again = now + TellPause
		n.wakePart(p, p.again)
	}
}

// partOver ends a part: its slots are free at once, and the origin is told
// until it knows.
func (n *Node) partOver(now time.Duration, p *part, ph Phase, out *Outbox) {
	p.phase = ph
	p.until, p.pull = now+GiveUp, filch.Never
	n.wakePart(p, p.until)
	n.freePart(now, p)
	if p.fault.left > 0 {
		note(out, noteError, p.key.Job, n.cfg.Name, "%d processes cannot be killed: their slots stay out of service", p.fault.left)
	}
	if p.launch.Parent == 0 {
		n.stopSteps(p.key.Job, FailGrace, "the job that it is a step of ended", out)
	}
	if p.flags.orphan {
		n.partGone(now, p, out)
		return
	}
	n.report(now, p, out)
}

// graves remembers the last attempts that are over here.
type graves struct {
	in   map[slots.Key]bool
	ring []slots.Key
	at   int
}

func (g *graves) has(k slots.Key) bool { return g.in[k] }

func (g *graves) dig(k slots.Key) {
	if g.in[k] {
		return
	}
	if g.in == nil {
		g.in = make(map[slots.Key]bool)
	}
	if len(g.ring) < MaxGraves {
		g.ring = append(g.ring, k)
	} else {
		delete(g.in, g.ring[g.at])
		g.ring[g.at] = k
		g.at = (g.at + 1) % MaxGraves
	}
	g.in[k] = true
}
