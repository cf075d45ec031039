package launcher

import "time"

// Who takes a job over has a record of it that may be of just before the gate was
// opened. It takes the gate for open, since ranks may have run, and opens it for nobody:
// until a node says that its ranks have begun, or all say that theirs are ready.

// gateWasOpen takes in that ranks have begun: all nodes were ready once.
func (n *Node) gateWasOpen(now time.Duration, j *job, out *Outbox) {
	j.run.unsure = false
	n.keep(now, j, out)
}

// judgeGate decides about a gate of which it is not known whether it was open, once
// each node has said where it stands, or is lost.
func (n *Node) judgeGate(now time.Duration, j *job, out *Outbox) {
	r, over := j.run, false
	for i := range r.seats {
		switch s := &r.seats[i]; {
		case s.done:
			over = true
		case s.phase < PhasePrepared:
			return
		}
	}
	switch {
	case !over:
		n.gateWasOpen(now, j, out)
		n.sendProceed(now, j, out)
	case r.lost: // ranks may have begun there, and nowhere else
		n.end(now, j, r.cause.Cause, sigTerm, min(FailGrace, j.req.Policy.KillWait), out)
	default:
		n.regate(now, j, "a participant gave up behind the gate", out)
	}
}
