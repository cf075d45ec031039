package origin

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/ranks"
	"github.com/filch-hpc/filch/slots"
)

// A job that lost ranks is started again when no lost rank can still run: when the rank's
// node reports that no rank of the job is left, or else when the lease is over. The
// return of the node alone proves nothing. The node may not know that the origin gave its
// ranks up, and a restarted launcher adopts the ranks it finds.

const (
	// lostWait is how long ranks may still run after their node was declared dead: the
	// rest of the lease, and some more for the different rates of two clocks.
	lostWait = ranks.JobTerm - 4*time.Second
	// askLost is the time between two requests to the node of lost ranks.
	askLost = time.Second
)

// lostranks handles the jobs that lost ranks, and the jobs with ranks unknown to their
// origin. No attempt of a job begins while the job's list of lost participants is not
// empty and their leases are not over.
type lostranks struct {
	*joblist
	origin restarter
	ranks  ownRanks
	line   *gatherqueue
}

// restarter starts a job again after the last lost rank is gone.
type restarter interface {
	again(t *local.Turn, j *job)
	keep(t *local.Turn, j *job)
}

// mayRunFor returns how long ranks lost now may run on while their node is silent. Heard
// is whether the node has answered since this node owns the job.
func (f *lostranks) mayRunFor(j *job, node filch.NodeName, heard bool) time.Duration {
	i := f.Members.Find(node)
	switch dead := i >= 0 && f.Members.At(i).Standing >= filch.Dead; {
	case dead && heard:
		return lostWait // the lease began before the node fell silent
	case !dead && j.kept.hop > 0:
		return ranks.HeirWait // the node is in touch with others and waits for the new owner
	}
	return ranks.JobTerm
}

// lostParticipants returns the lost participants of a run whose node has not reported
// since then that no rank is left, and how long their ranks may run.
func (r *run) lostParticipants() (all []launcher.LostParticipant, wait time.Duration) {
	for i := range r.participants {
		if s := &r.participants[i]; s.lost && !s.swept {
			all = append(all, r.launch.Participant(i))
			wait = max(wait, s.runsFor)
		}
	}
	return all, wait
}

// requeue restarts a job that lost nodes, once no rank of the job can run there any more.
func (f *lostranks) requeue(t *local.Turn, j *job) {
	lost, wait := j.run.lostParticipants()
	if len(lost) == 0 || mutantNoFenceOff {
		f.origin.again(t, j)
		return
	}
	j.pastAttempt(t, f.Cfg.Name)
	gone := j.participantRecords()
	j.pastNodes()
	j.run, j.state = nil, filch.Waiting
	j.kept.lost = lost
	f.waitForLost(t, j, wait)
	f.origin.keep(t, j)
	t.Record(gone...)
}

// waitForLost makes a job wait for lost ranks, for as long as the ranks may run from now
// on.
func (f *lostranks) waitForLost(t *local.Turn, j *job, wait time.Duration) {
	wait += j.req.Policy.KillWait
	end := t.Now + wait + wait/100
	if j.clock.lostUntil != filch.Never {
		end = max(end, j.clock.lostUntil)
	}
	j.clock.lostUntil = end
	if j.kept.hop > 0 { // only now: a TakeOver renews the lease of its receiver
		for _, l := range j.kept.lost {
			t.Send(l.Node, &launcher.TakeOver{Job: j.id, Attempt: l.Attempt, Index: l.Index, Lease: l.Lease, Hop: j.kept.hop})
		}
	}
	f.askLost(t, j)
}

// waitForLostAgain restarts the wait of a job for lost ranks: how long the job has waited
// before a restart of the launcher, or on another node, is not known.
func (f *lostranks) waitForLostAgain(t *local.Turn, j *job, lost []launcher.LostParticipant) {
	j.kept.lost = slices.Clone(lost)
	var wait time.Duration
	for i := range lost {
		l := &j.kept.lost[i]
		l.Attempt = cmp.Or(l.Attempt, j.attempt) // older launchers did not write the attempt
		wait = max(wait, f.mayRunFor(j, l.Node, false))
	}
	f.waitForLost(t, j, wait)
	f.origin.keep(t, j)
}

// askLost orders the nodes of lost ranks to end the ranks, and to report when no rank is
// left. A dead node receives the order when the node is back.
func (f *lostranks) askLost(t *local.Turn, j *job) {
	if mutantEarlyFence {
		j.kept.lost = slices.DeleteFunc(j.kept.lost, func(l launcher.LostParticipant) bool { return f.Alive(l.Node) })
		f.startIfNoneLost(t, j)
	}
	j.clock.ask = filch.Never
	for _, l := range j.kept.lost {
		if f.Alive(l.Node) {
			f.endLost(t, j, l)
			j.clock.ask = t.Now + askLost
		}
	}
	f.wakeJob(j, j.deadline())
}

// endLost orders a lost participant to end its ranks.
func (f *lostranks) endLost(t *local.Turn, j *job, l launcher.LostParticipant) {
	t.Send(l.Node, &launcher.Halt{
		Job: j.id, Attempt: l.Attempt, Index: l.Index, Lease: l.Lease, Level: 1 << 30,
		Signal: launcher.SigTerm, Grace: ranks.FailGrace, Reason: "the ranks were given up", ListAll: l.Alone,
	})
}

// OnLostNodeBack asks a node that is back for the ranks lost there. A new launcher may have
// adopted the ranks, and keeps adopted ranks for a whole lease.
func (f *lostranks) OnLostNodeBack(t *local.Turn, p, old local.Peer, known bool) {
	for _, j := range f.sortedJobs() {
		i := slices.IndexFunc(j.kept.lost, func(l launcher.LostParticipant) bool { return l.Node == p.Name })
		if i < 0 {
			continue
		}
		since := j.kept.lost[i].Lease.Incarnation
		if known {
			since = old.Incarnation
		}
		if p.Incarnation > since {
			f.waitForLost(t, j, ranks.JobTerm)
		} else {
			f.askLost(t, j)
		}
	}
}

// onNoneLeft handles the report of a participant that is over: no rank runs there.
func (f *lostranks) onNoneLeft(t *local.Turn, from filch.NodeName, m *launcher.Progress) {
	j := f.jobs[m.Job]
	if j == nil || m.Phase < launcher.PhaseDone {
		return
	}
	if r := j.run; r != nil {
		if i := int(m.Index); j.attempt == m.Attempt && i >= 0 && i < len(r.participants) && r.launch.Nodes[i].Node == from {
			r.participants[i].swept = true
		}
		return
	}
	f.onOthersNamed(t, j, from, m)
	j.kept.lost = slices.DeleteFunc(j.kept.lost, func(l launcher.LostParticipant) bool { return l.IsOf(from, m) && !l.Alone })
	f.startIfNoneLost(t, j)
}

// remains handles a report about an attempt that this node does not know, of a restored
// job that waits. A launcher whose disk failed to write forgets its launches. The next
// launcher learns of such a launch from the remaining ranks: from its own keepers, or
// from a node that noticed the restart. The origin ends the ranks, and starts no other
// attempt before the ranks are gone. The reporting participant knows the other
// participants of the launch, which may be silent as yet.
func (f *lostranks) onUnknownAttempt(t *local.Turn, j *job, from filch.NodeName, m *launcher.Progress) {
	if j == nil || !j.kept.restored || j.run != nil || j.step != nil || m.Phase >= launcher.PhaseDone {
		return
	}
	if from == f.Cfg.Name {
		if l := f.ranks.LaunchOf(slots.Key{Job: m.Job, Attempt: m.Attempt}); l != nil {
			f.waitFor(t, j, l.Participants())
			return
		}
	}
	l := launcher.LostParticipant{Node: from, Attempt: m.Attempt, Index: m.Index, Lease: m.Lease}
	// A single participant of the attempt is asked for the others.
	l.Alone = !slices.ContainsFunc(j.kept.lost, func(o launcher.LostParticipant) bool { return o.Attempt == l.Attempt })
	f.waitFor(t, j, []launcher.LostParticipant{l})
}

// others handles the participants of a forgotten launch, as named by the participant that
// was asked. If the asked participant is over and names no others, the job waits for as
// long as a lease.
func (f *lostranks) onOthersNamed(t *local.Turn, j *job, from filch.NodeName, m *launcher.Progress) {
	if l := f.alone(from, m); l != nil && len(m.Participants) > 0 {
		l.Alone = false
		f.waitFor(t, j, m.Participants)
	}
}

// alone returns the lost participant that sent m if the participant is to name the others
// of its launch, else nil.
func (f *lostranks) alone(from filch.NodeName, m *launcher.Progress) *launcher.LostParticipant {
	j := f.jobs[m.Job]
	if j == nil || j.run != nil {
		return nil
	}
	i := slices.IndexFunc(j.kept.lost, func(l launcher.LostParticipant) bool { return l.IsOf(from, m) && l.Alone })
	if i < 0 {
		return nil
	}
	return &j.kept.lost[i]
}

// waitFor makes a job wait for the remaining ranks of a forgotten launch.
func (f *lostranks) waitFor(t *local.Turn, j *job, more []launcher.LostParticipant) {
	lost := slices.Clip(j.kept.lost)
	for _, s := range more {
		if !slices.ContainsFunc(lost, func(l launcher.LostParticipant) bool { l.Alone = s.Alone; return l == s }) {
			lost = append(lost, s)
		}
	}
	if len(lost) == len(j.kept.lost) {
		return
	}
	f.line.releaseHolds(t, j, nil)
	j.lined = false
	j.unlaunched, j.launched = 0, true // an attempt that seemed idle had ranks
	j.kept.lost = lost
	f.waitForLost(t, j, ranks.JobTerm)
	f.origin.keep(t, j)
}

// startIfNoneLost starts a job again that waited for lost ranks, when the list of lost
// participants is empty. A job that waits without such a list waits for keepers of an
// earlier launcher, and starts when all keepers have turned up.
func (f *lostranks) startIfNoneLost(t *local.Turn, j *job) {
	if j.clock.lostUntil != filch.Never && len(j.kept.lost) == 0 {
		f.stopWaiting(t, j)
	}
}

func (f *lostranks) stopWaiting(t *local.Turn, j *job) {
	j.clock.lostUntil, j.clock.ask, j.kept.lost = filch.Never, filch.Never, nil
	f.origin.again(t, j)
}
