package node

import (
	"math"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/ranks"
	"github.com/filch-hpc/filch/stealer"
)

// Peer handles the overlay's description of a member. About this node itself only Dead
// counts: the others declared the node dead. Then the node ends all ranks here and all
// its running jobs, and waits for [Node.Reborn].
func (n *Node) Peer(now time.Duration, p local.Peer, out *launcher.Outbox) {
	t := n.self.Turn(now, out)
	if p.Name == n.self.Cfg.Name {
		if p.Standing == filch.Dead {
			n.onDeclaredDead(t)
			n.settle(t)
		}
		return
	}
	i, old, known := n.self.Members.Set(p)
	n.Records.OnMember(t, p)
	n.Ranks.WatchMajority(t)
	n.Tasks.OnMember(t, p)
	n.PeerChanged(now, i, old, known, out)
}

// ListPartial handles the overlay's news that the list of members is not whole, or is
// whole again. While the list is not whole, a job that does not fit on the known members
// waits for the list, and a node missing from the list counts as living.
func (n *Node) ListPartial(now time.Duration, partial bool, out *launcher.Outbox) {
	t := n.self.Turn(now, out)
	n.self.ListPartial = partial
	n.Records.OnList(t)
	n.settle(t)
}

// PeerChanged is Peer for an already changed list of members shared by several nodes: it
// receives the index, and the member as known before.
func (n *Node) PeerChanged(now time.Duration, i int32, old local.Peer, known bool, out *launcher.Outbox) {
	t := n.self.Turn(now, out)
	p := *n.self.Members.At(i)
	if p.Name == n.self.Cfg.Name {
		return
	}
	n.Records.KeepOrHandOff(t)
	gone := p.Standing >= filch.Dead
	was := !known || old.Standing >= filch.Dead
	switch {
	case gone && !was:
		n.onPeerDead(t, p)
	case !gone && known && p.Incarnation != old.Incarnation:
		n.onPeerReborn(t, p)
	case !gone && was:
		// The origin may have been away when its ranks were adopted here.
		n.Ranks.ReportTo(t, p.Name)
		n.origin.askBack(t, p.Name)
	}
	if !gone && (was || p.Incarnation != old.Incarnation) {
		n.origin.onLostNodeBack(t, p, old, known)
	}
	n.origin.onMemberChanged(t, i, old, known)
	n.settle(t)
}

// onMemberChanged passes a change in the list of members to the gathering jobs.
func (q *gatherqueue) onMemberChanged(t *local.Turn, i int32, old local.Peer, known bool) {
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

// askBack asks a node not known before for ranks not yet reported since this launcher
// began.
func (a *attempts) askBack(t *local.Turn, name filch.NodeName) {
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
	if j.run != nil || j.step != nil || j.lined || j.unclaimed() || j.kept.unrecorded || j.clock.lostUntil != filch.Never {
		return
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

// onPeerDead ends everything in which a dead node took part: its holds here, the ranks
// here of its jobs, and our jobs with ranks there.
func (n *Node) onPeerDead(t *local.Turn, p local.Peer) {
	n.self.Ledger.Forget(t.Now, p.Name, math.MaxUint64)
	n.Ranks.OnOriginDead(t, p.Name)
	n.origin.onPeerDead(t, p)
}

// onPeerDead gives up the ranks of this node's jobs on a dead node, and the steps
// started by the dead node in these jobs.
func (o *origin) onPeerDead(t *local.Turn, p local.Peer) {
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

// onPeerReborn handles the restart of a node's launcher. The node's holds here are void.
// Ranks of its jobs here go on if the new launcher remembers the jobs, and ranks there of
// our jobs go on if their keepers are adopted.
func (n *Node) onPeerReborn(t *local.Turn, p local.Peer) {
	n.self.Ledger.Forget(t.Now, p.Name, p.Incarnation)
	n.Ranks.ReportTo(t, p.Name)
	n.origin.onPeerReborn(t, p)
}

// onPeerReborn asks the new launcher of a node for the ranks of this node's jobs.
func (a *attempts) onPeerReborn(t *local.Turn, p local.Peer) {
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
				s.again, s.wait = min(s.again, t.Now+RepeatMin), RepeatMin
				j.run.at.again = min(j.run.at.again, s.back, s.again)
				a.askReport(t, j, i)
			}
		}
		a.wakeJob(j, j.deadline())
	}
}

// onDeclaredDead handles this node's death as declared by the others while the node was
// stopped: they ended the ranks of its jobs, and gave up the ranks here.
func (n *Node) onDeclaredDead(t *local.Turn) {
	t.Note(local.NoteWarn, 0, n.self.Cfg.Name, "the other nodes declared this one dead: ending all ranks here")
	n.self.Dead = true
	// A job begun here now would delay the next life for as long as the job runs.
	n.self.Ledger.Shut()
	n.Tasks.EndAll(t)
	n.Ranks.EndAll(t)
	n.origin.onDeclaredDead(t)
}

// onDeclaredDead ends the running jobs of this node, and makes its waiting jobs give back
// their holds: the others declared this node dead.
func (o *origin) onDeclaredDead(t *local.Turn) {
	for _, j := range o.sortedJobs() {
		if j.req.Detach && j.kept.seq > 0 {
			o.giveUp(t, j)
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
			o.attempts.regate(t, j, o.lostText())
			o.attempts.advance(t, j)
		} else if o.jobs[j.id] == j && j.run == r {
			c := launcher.Cause{Kind: launcher.CauseNodeLost, Rank: -1, Node: o.Cfg.Name, Text: o.lostText()}
			r.lost = true
			o.attempts.end(t, j, c, launcher.SigTerm, min(ranks.FailGrace, j.req.Policy.KillWait))
			o.attempts.advance(t, j)
		}
	}
}

// Reborn gives the node a new incarnation after the others declared it dead: its promises
// are void, and its waiting jobs ask again.
func (n *Node) Reborn(now time.Duration, incarnation uint64, out *launcher.Outbox) {
	t := n.self.Turn(now, out)
	n.self.Cfg.Incarnation, n.self.Dead = incarnation, false
	n.self.Ledger.Reborn(now, incarnation)
	if n.self.Opens == filch.Never {
		n.self.Ledger.Open(now)
	}
	if i := n.self.Members.Find(n.self.Cfg.Name); i >= 0 {
		p := n.self.Members.At(i)
		p.Incarnation, p.Standing = incarnation, filch.Up
	}
	n.Records.OnReborn(t)
	n.Ranks.WatchMajority(t)
	n.Records.Pump(t)
	n.Tasks.OnReborn(t)
	n.origin.onReborn(t)
	n.settle(t)
}

// onReborn makes the waiting jobs ask again, after this node was declared dead.
func (o *origin) onReborn(t *local.Turn) {
	for _, j := range o.sortedJobs() {
		// Unclaimed and unrecorded jobs, and jobs that wait for lost ranks, begin by
		// themselves.
		if j.run == nil && !j.unclaimed() && !j.kept.unrecorded && j.clock.lostUntil == filch.Never {
			o.gatherqueue.releaseHolds(t, j, nil)
			o.again(t, j)
		}
	}
}

func (o *origin) lostText() string {
	return string(o.Cfg.Name) + ", where the job was submitted, was declared dead"
}
