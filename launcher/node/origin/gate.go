package origin

import (
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/ranks"
)

// The record of a job that was taken over may have been written just before the gate was
// opened. The new owner treats the gate as open, since ranks may have run, but opens the
// gate on no node until a node reports started ranks, or all nodes report prepared ranks.

// setGateOpen records an unsure gate as open: all nodes were ready once.
func (a *attempts) setGateOpen(t *local.Turn, j *job) {
	j.run.unsure = false
	a.origin.keep(t, j)
}

// decideGate decides whether an unsure gate was open, once each node has reported or is
// lost.
func (a *attempts) decideGate(t *local.Turn, j *job) {
	r, over := j.run, false
	for i := range r.participants {
		switch s := &r.participants[i]; {
		case s.done:
			over = true
		case s.phase < launcher.PhasePrepared:
			return
		}
	}
	switch {
	case !over:
		a.setGateOpen(t, j)
		a.sendProceed(t, j)
	case r.lost: // ranks may have started on the lost nodes only
		a.end(t, j, r.cause.Cause, launcher.SigTerm, min(ranks.FailGrace, j.req.Policy.KillWait))
	default:
		a.launchAgain(t, j, "a participant gave up behind the gate")
	}
}
