package launcher

import (
	"math"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/stealer"
)

// Peer takes in what the overlay says of a member. Of this node itself only
// that the others declared it dead counts: it ends all ranks here and all its
// jobs that run, and waits for [Node.Reborn].
func (n *Node) Peer(now time.Duration, p Peer, out *Outbox) {
	if p.Name == n.cfg.Name {
		if p.Standing == stealer.Dead {
			n.declaredDead(now, out)
			n.settle(now, out)
		}
		return
	}
	i, old, known := n.members.Set(p)
	n.storeMember(now, p)
	n.workMember(now, p)
	n.PeerChanged(now, i, old, known, out)
}

// PeerChanged is Peer for a list of members that several nodes share and that
// was changed already: the index, and what was known before.
func (n *Node) PeerChanged(now time.Duration, i int32, old Peer, known bool, out *Outbox) {
	p := *n.members.At(i)
	if p.Name == n.cfg.Name {
		return
	}
	n.keepOrHandOff(now)
	gone := p.Standing >= stealer.Dead
	was := !known || old.Standing >= stealer.Dead
	switch {
	case gone && !was:
		n.peerDead(now, p, out)
	case !gone && known && p.Incarnation != old.Incarnation:
		n.peerReborn(now, p, out)
	case !gone && was:
		n.inquire(now, p.Name, out)
	}
	if !gone && (was || p.Incarnation != old.Incarnation) {
		n.lostIsBack(now, p, old, known, out)
	}
	for _, j := range n.sortedJobs() {
		n.park(now, j, out)
		if j.gather == nil {
			continue
		}
		var moves stealer.Moves
		j.gather.Changed(now, i, old, known, &moves)
		n.move(j, moves, out)
		n.tryLaunch(now, j, out)
		n.wakeJob(j, j.deadline())
	}
	n.settle(now, out)
}

// inquire asks a node that was not known for the ranks of which it has not said
// since this launcher began that they are there. It hears of those of its jobs here: it
// may have been away when they turned up, and not know that it launched them.
func (n *Node) inquire(now time.Duration, name filch.NodeName, out *Outbox) {
	n.reportTo(now, name, out)
	for _, j := range n.sortedJobs() {
		if j.run == nil {
			continue
		}
		for i := range j.run.seats {
			if s := &j.run.seats[i]; s.back != filch.Never && j.run.launch.Nodes[i].Node == name {
				n.askSeat(j, i, out)
			}
		}
	}
}

// reportTo tells an origin where its parts here stand.
func (n *Node) reportTo(now time.Duration, origin filch.NodeName, out *Outbox) {
	for _, q := range n.sortedParts() {
		if q.launch.Origin == origin && !q.flags.orphan {
			n.report(now, q, out)
		}
	}
}

// park makes a job give back what it holds when it cannot fit any more, since
// nodes are gone: it would keep everybody else waiting for ever. It asks anew
// when there are enough again.
func (n *Node) park(now time.Duration, j *job, out *Outbox) {
	if j.run != nil || j.step != nil || j.lined || j.unclaimed() || j.kept.unborn || j.clock.fence != filch.Never {
		return
	}
	fits := n.neverFits(&j.need) == nil
	switch {
	case j.gather != nil && !fits:
		n.letGo(now, j, nil, out)
		n.wakeJob(j, j.deadline())
	case j.gather == nil && fits:
		n.again(now, j, out)
	}
}

// alive reports whether a node is a member that was not declared dead.
func (n *Node) alive(name filch.NodeName) bool {
	i := n.members.Find(name)
	return i >= 0 && n.members.At(i).Standing < stealer.Dead
}

func deadText(s stealer.Standing) string {
	if s == stealer.Left {
		return "it left"
	}
	return "no sign of life"
}

// peerDead ends what a dead node had a part in: its holds here, the ranks here
// of its jobs, and our jobs with ranks there.
func (n *Node) peerDead(now time.Duration, p Peer, out *Outbox) {
	n.ledger.Forget(now, p.Name, math.MaxUint64)
	for _, q := range n.sortedParts() {
		if q.launch.Origin != p.Name {
			continue
		}
		if q.inherits() || q.over() && q.handsOn() {
			// Over, too: nobody but this node may know how its ranks ended.
			q.again, q.pull, q.until = filch.Never, filch.Never, now+HeirWait
			n.wakePart(q, q.until)
			continue
		}
		q.flags.orphan = true
		q.again, q.until, q.pull = filch.Never, filch.Never, filch.Never
		if q.over() {
			n.partGone(now, q, out)
			continue
		}
		n.stop(q, sigTerm, min(FailGrace, q.launch.KillWait), "its origin "+string(p.Name)+" is lost", out)
	}
	for _, j := range n.sortedJobs() {
		n.seatsLost(now, j, p.Name, deadText(p.Standing), out)
	}
	n.guestsOf(now, p.Name, out)
}

func (n *Node) seatsLost(now time.Duration, j *job, name filch.NodeName, why string, out *Outbox) {
	if j.run == nil {
		return
	}
	r, hit := j.run, false
	if r.unsent != nil {
		n.unsentLost(now, j, name, out)
		return
	}
	for i := range r.seats {
		if r.launch.Nodes[i].Node == name && !r.seats[i].done {
			hit = true
			n.seatLost(now, j, i, why, out)
		}
	}
	if hit && n.jobs[j.id] == j && j.run == r {
		n.advance(now, j, out)
	}
}

// unsentLost takes a launch that waits for its record back when a node that it needs
// has lost what it held for it.
func (n *Node) unsentLost(now time.Duration, j *job, name filch.NodeName, out *Outbox) {
	if slices.ContainsFunc(j.run.launch.Nodes, func(at NodeRanks) bool { return at.Node == name }) {
		n.unlaunch(now, j, out)
		n.again(now, j, out)
	}
}

// peerReborn takes in that a node's launcher was restarted. Its holds here are
// void. Ranks of its jobs here go on if it remembers them, and ranks there of
// our jobs if they turn up again.
func (n *Node) peerReborn(now time.Duration, p Peer, out *Outbox) {
	n.ledger.Forget(now, p.Name, p.Incarnation)
	n.reportTo(now, p.Name, out)
	for _, j := range n.sortedJobs() {
		if j.run == nil {
			continue
		}
		n.remindGuests(j, p.Name, out)
		if j.run.unsent != nil {
			n.unsentLost(now, j, p.Name, out)
			continue
		}
		for i := range j.run.seats {
			if s := &j.run.seats[i]; j.run.launch.Nodes[i].Node == p.Name && !s.done {
				s.back = now + ReadoptWait
				s.again, s.wait = min(s.again, now+RepeatMin), RepeatMin
				j.run.at.again = min(j.run.at.again, s.back, s.again)
				n.askSeat(j, i, out)
			}
		}
		n.wakeJob(j, j.deadline())
	}
}

// declaredDead takes in that the others wrote this node off while it was
// stopped: they ended the ranks of its jobs, and gave up those here.
func (n *Node) declaredDead(now time.Duration, out *Outbox) {
	note(out, noteWarn, 0, n.cfg.Name, "the other nodes declared this one dead: ending all ranks here")
	n.dead = true
	n.ledger.Shut() // what began here now would put off the next life for as long as it runs
	n.endTasks(now, out)
	for _, p := range n.sortedParts() {
		if !n.mine(p) {
			p.flags.orphan = true
			p.again, p.until, p.pull = filch.Never, filch.Never, filch.Never
			if p.over() {
				n.partGone(now, p, out)
				continue
			}
		}
		n.stop(p, sigTerm, min(FailGrace, p.launch.KillWait), "this node was declared dead", out)
	}
	for _, j := range n.sortedJobs() {
		if j.req.Detach && j.kept.seq > 0 {
			n.giveUp(now, j)
			n.abandon(now, j, out) // another node has it, or will
			continue
		}
		if j.run == nil {
			n.letGo(now, j, nil, out)
			continue
		}
		r := j.run
		for i := range r.seats {
			if r.launch.Nodes[i].Node != n.cfg.Name {
				n.seatLost(now, j, i, n.lostText(), out)
			}
		}
		if n.jobs[j.id] == j && j.run == r && !r.going {
			n.regate(now, j, n.lostText(), out) // no rank ran: it can begin anew
			n.advance(now, j, out)
		} else if n.jobs[j.id] == j && j.run == r {
			c := Cause{Kind: CauseNodeLost, Rank: -1, Node: n.cfg.Name, Text: n.lostText()}
			r.lost = true
			n.end(now, j, c, sigTerm, min(FailGrace, j.req.Policy.KillWait), out)
			n.advance(now, j, out)
		}
	}
}

// Reborn gives the node a new incarnation after it was declared dead: what it
// promised is void, and its jobs that wait ask again.
func (n *Node) Reborn(now time.Duration, incarnation uint64, out *Outbox) {
	n.cfg.Incarnation, n.dead = incarnation, false
	n.ledger.Reborn(now, incarnation)
	if n.birth.opens == filch.Never {
		n.ledger.Open(now)
	}
	if i := n.members.Find(n.cfg.Name); i >= 0 {
		p := n.members.At(i)
		p.Incarnation, p.Standing = incarnation, stealer.Up
	}
	n.rebornMeta(now, out)
	n.rebornWork(now, out)
	for _, j := range n.sortedJobs() {
		if j.run == nil && !j.unclaimed() && !j.kept.unborn && j.clock.fence == filch.Never { // those begin by themselves
			n.letGo(now, j, nil, out)
			n.again(now, j, out)
		}
	}
	n.settle(now, out)
}

func (n *Node) lostText() string {
	return string(n.cfg.Name) + ", where the job was submitted, was declared dead"
}
