package launcher

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// A job that lost ranks is started again when none of them can run any more: when
// their node says that it has none, or else when their lease is over. That the node
// is back says nothing by itself. It may never have heard that it was given up, and a
// launcher that was started again takes the ranks back that it finds.

const (
	// FenceWait is how long after a node was declared dead its ranks may still
	// be there: the rest of their lease, and some of the rate of two clocks.
	FenceWait = JobTerm - 4*time.Second
	// AskLost is the time between two questions for what was lost.
	AskLost = time.Second
)

// LostSeat is a participant that was lost, or forgotten, where ranks may still run.
type LostSeat struct {
	Node    filch.NodeName
	Attempt filch.Attempt
	Index   int32
	Lease   filch.LeaseID
	Alone   bool // who else has a part in its launch is not known yet
}

// mayRunFor is how long ranks that are lost now may run on without a word of their
// node. Heard is whether the node has answered since this one decides about the job.
func (n *Node) mayRunFor(j *job, node filch.NodeName, heard bool) time.Duration {
	i := n.members.Find(node)
	switch dead := i >= 0 && n.members.At(i).Standing >= stealer.Dead; {
	case dead && heard:
		return FenceWait // the lease is of before it fell silent
	case !dead && j.kept.hop > 0:
		return HeirWait // it hears others, and waits for who takes the job over
	}
	return JobTerm
}

func (l *Launch) seat(i int) LostSeat {
	at := &l.Nodes[i]
	return LostSeat{Node: at.Node, Attempt: l.Ident.Attempt, Index: int32(i), Lease: at.Lease}
}

func (l *Launch) seats() (all []LostSeat) {
	for i := range l.Nodes {
		all = append(all, l.seat(i))
	}
	return all
}

// lostSeats is the participants of a run that were lost without a word of their node since,
// and how long their ranks may run.
func (r *run) lostSeats() (all []LostSeat, wait time.Duration) {
	for i := range r.seats {
		if s := &r.seats[i]; s.lost && !s.swept {
			all = append(all, r.launch.seat(i))
			wait = max(wait, s.runsFor)
		}
	}
	return all, wait
}

// requeue starts a job again that lost nodes, once nothing of it can run there any
// more.
func (n *Node) requeue(now time.Duration, j *job, out *Outbox) {
	lost, wait := j.run.lostSeats()
	if len(lost) == 0 || mutantNoFenceOff {
		n.again(now, j, out)
		return
	}
	gone := j.seatRecords()
	j.pastNodes()
	j.run, j.state = nil, filch.Waiting
	j.kept.lost = lost
	n.fenceJob(now, j, wait, out)
	n.keep(now, j, out)
	out.Records = append(out.Records, gone...)
}

// fenceJob lets a job wait for what was lost, for as long as that may run from now on.
func (n *Node) fenceJob(now time.Duration, j *job, wait time.Duration, out *Outbox) {
	wait += j.req.Policy.KillWait
	end := now + wait + wait/100
	if j.clock.fence != filch.Never {
		end = max(end, j.clock.fence)
	}
	j.clock.fence = end
	if j.kept.hop > 0 { // only now: it begins the lease anew of whom it reaches
		for _, l := range j.kept.lost {
			n.send(l.Node, &TakeOver{Job: j.id, Attempt: l.Attempt, Index: l.Index, Hop: j.kept.hop}, out)
		}
	}
	n.askLost(now, j, out)
}

// fenceAgain lets a job that waited for what was lost wait for it anew: how long
// it has waited before a launcher was restarted, or elsewhere, is not known.
func (n *Node) fenceAgain(now time.Duration, j *job, lost []LostSeat, out *Outbox) {
	j.kept.lost = slices.Clone(lost)
	var wait time.Duration
	for i := range lost {
		l := &j.kept.lost[i]
		l.Attempt = cmp.Or(l.Attempt, j.attempt) // a launcher of before that was known did not write it
		wait = max(wait, n.mayRunFor(j, l.Node, false))
	}
	n.fenceJob(now, j, wait, out)
	n.keep(now, j, out)
}

// askLost tells the nodes of what was lost to end it, and to say when nothing of it is
// left. Those that are dead are asked when they are back.
func (n *Node) askLost(now time.Duration, j *job, out *Outbox) {
	if mutantEarlyFence {
		j.kept.lost = slices.DeleteFunc(j.kept.lost, func(l LostSeat) bool { return n.alive(l.Node) })
		n.lostLess(now, j, out)
	}
	j.clock.ask = filch.Never
	for _, l := range j.kept.lost {
		if n.alive(l.Node) {
			n.giveUpSeat(j, l, out)
			j.clock.ask = now + AskLost
		}
	}
	n.wakeJob(j, j.deadline())
}

// giveUpSeat has a participant that was given up end its ranks.
func (n *Node) giveUpSeat(j *job, l LostSeat, out *Outbox) {
	n.send(l.Node, &Halt{
		Job: j.id, Attempt: l.Attempt, Index: l.Index, Lease: l.Lease, Level: 1 << 30,
		Signal: sigTerm, Grace: FailGrace, Reason: "they were given up", Who: l.Alone,
	}, out)
}

// lostIsBack asks a node that is back for what was lost there. A new launcher may have
// taken it back, and keeps it for a whole lease.
func (n *Node) lostIsBack(now time.Duration, p, old Peer, known bool, out *Outbox) {
	for _, j := range n.sortedJobs() {
		i := slices.IndexFunc(j.kept.lost, func(l LostSeat) bool { return l.Node == p.Name })
		if i < 0 {
			continue
		}
		since := j.kept.lost[i].Lease.Incarnation
		if known {
			since = old.Incarnation
		}
		if p.Incarnation > since {
			n.fenceJob(now, j, JobTerm, out)
		} else {
			n.askLost(now, j, out)
		}
	}
}

// noneLeft takes in what a node says of a participant that is over: nothing runs there.
func (n *Node) noneLeft(now time.Duration, from filch.NodeName, m *Progress, out *Outbox) {
	j := n.jobs[m.Job]
	if j == nil || m.Phase < PhaseDone {
		return
	}
	if r := j.run; r != nil {
		if i := int(m.Index); j.attempt == m.Attempt && i >= 0 && i < len(r.seats) && r.launch.Nodes[i].Node == from {
			r.seats[i].swept = true
		}
		return
	}
	n.others(now, j, from, m, out)
	j.kept.lost = slices.DeleteFunc(j.kept.lost, func(l LostSeat) bool { return l.isOf(from, m) && !l.Alone })
	n.lostLess(now, j, out)
}

func (l *LostSeat) isOf(from filch.NodeName, m *Progress) bool {
	return l.Node == from && l.Attempt == m.Attempt && l.Index == m.Index
}

// remains takes in that something is left of an attempt that this node does not know, of
// a restored job that waits. A launcher whose disk took nothing forgets that it launched
// it, and the next one hears of it from what is left: from its own keepers, or from a node
// that hears of the restart. That ends, and no other attempt begins before it is gone.
// Whoever speaks knows who else has a part in the launch: those may be silent as yet.
func (n *Node) remains(now time.Duration, j *job, from filch.NodeName, m *Progress, out *Outbox) {
	if j == nil || !j.kept.restored || j.run != nil || j.step != nil || m.Phase >= PhaseDone {
		return
	}
	if p := n.parts[slots.Key{Job: m.Job, Attempt: m.Attempt}]; p != nil && from == n.cfg.Name {
		n.waitFor(now, j, p.launch.seats(), out)
		return
	}
	l := LostSeat{Node: from, Attempt: m.Attempt, Index: m.Index, Lease: m.Lease}
	l.Alone = !slices.ContainsFunc(j.kept.lost, func(o LostSeat) bool { return o.Attempt == l.Attempt }) // one is asked
	n.waitFor(now, j, []LostSeat{l}, out)
}

// others takes in who else has a part in a launch that was forgotten, from one that was
// asked. One that is over without saying so leaves that open for as long as a lease.
func (n *Node) others(now time.Duration, j *job, from filch.NodeName, m *Progress, out *Outbox) {
	if l := n.alone(from, m); l != nil && len(m.Seats) > 0 {
		l.Alone = false
		n.waitFor(now, j, m.Seats, out)
	}
}

// alone is the lost participant that speaks, if it is to say who else has a part in its
// launch.
func (n *Node) alone(from filch.NodeName, m *Progress) *LostSeat {
	j := n.jobs[m.Job]
	if j == nil || j.run != nil {
		return nil
	}
	i := slices.IndexFunc(j.kept.lost, func(l LostSeat) bool { return l.isOf(from, m) && l.Alone })
	if i < 0 {
		return nil
	}
	return &j.kept.lost[i]
}

// waitFor lets a job wait for what is left of a launch that was forgotten.
func (n *Node) waitFor(now time.Duration, j *job, seats []LostSeat, out *Outbox) {
	lost := slices.Clip(j.kept.lost)
	for _, s := range seats {
		if !slices.ContainsFunc(lost, func(l LostSeat) bool { l.Alone = s.Alone; return l == s }) {
			lost = append(lost, s)
		}
	}
	if len(lost) == len(j.kept.lost) {
		return
	}
	n.letGo(now, j, nil, out)
	j.lined = false
	j.kept.lost = lost
	n.fenceJob(now, j, JobTerm, out)
	n.keep(now, j, out)
}

// lostLess starts a job again when nothing of it is left that was waited for, or all
// keepers have turned up that may be its.
func (n *Node) lostLess(now time.Duration, j *job, out *Outbox) {
	if j.clock.fence != filch.Never && len(j.kept.lost) == 0 {
		n.unfence(now, j, out)
	}
}

func (n *Node) unfence(now time.Duration, j *job, out *Outbox) {
	j.clock.fence, j.clock.ask, j.kept.lost = filch.Never, filch.Never, nil
	n.again(now, j, out)
}
