package origin

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/ranks"
	"github.com/filch-hpc/filch/stealer"
)

// OnMemberChanged passes a change in the list of members to the gathering jobs.
func (q *gatherqueue) OnMemberChanged(t *local.Turn, i int32, old local.Peer, known bool) {
	q.spares.onGone(*q.Members.At(i))
	for _, j := range q.sortedJobs() {
		q.park(t, j)
		if j.gather == nil {
			continue
		}
		var moves stealer.Moves
		j.gather.Changed(t.Now, i, old, known, &moves)
		q.move(t, j, moves)
		q.tryLaunch(t, j)
		q.wakeJob(j, j.deadline())
	}
}

// OnPeerBack renews the leases with a node that answers again, and asks the node for ranks
// not yet reported since this launcher began.
func (a *attempts) OnPeerBack(t *local.Turn, name filch.NodeName) {
	a.renew(t, name)
	for _, j := range a.sortedJobs() {
		if j.run == nil {
			continue
		}
		for i := range j.run.participants {
			if s := &j.run.participants[i]; s.back != filch.Never && j.run.launch.Nodes[i].Node == name {
				a.askReport(t, j, i)
			}
		}
	}
}

// park makes a job give back its holds when the job no longer fits because nodes are
// gone: otherwise the job would block all other jobs forever. The job asks again when
// there are enough nodes.
func (q *gatherqueue) park(t *local.Turn, j *job) {
	if j.run != nil || j.step != nil || j.lined || j.unclaimed() || j.kept.unrecorded || j.clock.lostUntil != filch.Never || j.req.HeldBy != "" || j.wait != nil {
		return
	}
	before := j.need.Spare
	q.spares.fewer(j)
	if j.gather != nil && j.need.Spare < before {
		q.releaseHolds(t, j, nil)
	}
	fits := q.NeverFits(&j.need) == nil
	switch {
	case j.gather != nil && !fits:
		q.releaseHolds(t, j, nil)
		q.wakeJob(j, j.deadline())
	case j.gather == nil && fits:
		q.origin.again(t, j)
	}
}

func deadText(s filch.Standing) string {
	if s == filch.Left {
		return "it left"
	}
	return "no sign of life"
}

// OnPeerDead gives up the ranks of this node's jobs on a dead node, and the steps
// started by the dead node in these jobs.
func (o *Origin) OnPeerDead(t *local.Turn, p local.Peer) {
	for _, j := range o.sortedJobs() {
		o.attempts.onParticipantsLost(t, j, p.Name, deadText(p.Standing))
	}
	o.parents.onGuestsLost(t, p.Name)
}

func (a *attempts) onParticipantsLost(t *local.Turn, j *job, name filch.NodeName, why string) {
	if j.run == nil {
		return
	}
	r, hit := j.run, false
	if r.unsent != nil {
		a.onUnsentLost(t, j, name)
		return
	}
	for i := range r.participants {
		if r.launch.Nodes[i].Node == name && !r.participants[i].done {
			hit = true
			a.onParticipantLost(t, j, i, why)
		}
	}
	if hit && a.jobs[j.id] == j && j.run == r {
		a.advance(t, j)
	}
}

// onUnsentLost takes back a launch waiting for its record when a needed node has lost its
// holds for the launch.
func (a *attempts) onUnsentLost(t *local.Turn, j *job, name filch.NodeName) {
	if slices.ContainsFunc(j.run.launch.Nodes, func(at launcher.NodeRanks) bool { return at.Node == name }) {
		a.unlaunch(t, j)
		a.origin.again(t, j)
	}
}

// OnPeerReborn asks the new launcher of a node for the ranks of this node's jobs.
func (a *attempts) OnPeerReborn(t *local.Turn, p local.Peer) {
	for _, j := range a.sortedJobs() {
		if j.run == nil {
			continue
		}
		a.parents.remindGuests(t, j, p.Name)
		if j.run.unsent != nil {
			a.onUnsentLost(t, j, p.Name)
			continue
		}
		for i := range j.run.participants {
			if s := &j.run.participants[i]; j.run.launch.Nodes[i].Node == p.Name && !s.done {
				s.back = t.Now + ReadoptWait
				s.again, s.wait = min(s.again, t.Now+repeatMin), repeatMin
				j.run.at.again = min(j.run.at.again, s.back, s.again)
				a.askReport(t, j, i)
			}
		}
		a.wakeJob(j, j.deadline())
	}
}

// OnDeclaredDead ends the running jobs of this node, and makes its waiting jobs give back
// their holds: the others declared this node dead.
func (o *Origin) OnDeclaredDead(t *local.Turn) {
	for _, j := range o.sortedJobs() {
		if j.req.Detach && j.kept.seq > 0 {
			o.handOver(t, j)
			o.abandon(t, j) // another node has the job, or will
			continue
		}
		if j.run == nil {
			o.gatherqueue.releaseHolds(t, j, nil)
			continue
		}
		r := j.run
		for i := range r.participants {
			if r.launch.Nodes[i].Node != o.Cfg.Name {
				o.attempts.onParticipantLost(t, j, i, o.lostText())
			}
		}
		if o.jobs[j.id] == j && j.run == r && !r.going {
			// No rank ran: the attempt can begin again.
			o.attempts.launchAgain(t, j, o.lostText())
			o.attempts.advance(t, j)
		} else if o.jobs[j.id] == j && j.run == r {
			c := launcher.Cause{Kind: launcher.CauseNodeLost, Rank: -1, Node: o.Cfg.Name, Text: o.lostText()}
			r.lost = true
			o.attempts.end(t, j, c, launcher.SigTerm, min(ranks.FailGrace, j.req.Policy.KillWait))
			o.attempts.advance(t, j)
		}
	}
}

// OnReborn makes the waiting jobs ask again, after this node was declared dead.
func (o *Origin) OnReborn(t *local.Turn) {
	for _, j := range o.sortedJobs() {
		if j.reserving = unreserved; j.run != nil { // the core of the new life knows no reservation
			o.mustReserve(t, j)
		}
		// Unclaimed and unrecorded jobs, and jobs that wait for lost ranks, begin by
		// themselves.
		if j.run == nil && !j.unclaimed() && !j.kept.unrecorded && j.clock.lostUntil == filch.Never {
			o.gatherqueue.releaseHolds(t, j, nil)
			o.again(t, j)
		}
	}
}

func (o *Origin) lostText() string {
	return string(o.Cfg.Name) + ", where the job was submitted, was declared dead"
}
