package launcher

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// run is a launched attempt at its origin.
type run struct {
	launch Launch
	seats  []seat // by index in launch.Nodes
	stands
	going  bool    // the gate is open
	unsure bool    // whether it was, as the job was taken over: going is true
	unsent *unsent // not on its way yet
	told   bool    // the client knows that it started
	at     runClock
	halt   haltOrder
	cause  verdict // the first
	tally  tally
	sigs   []int32
	gate   bool          // failed behind the gate: to be launched again
	lost   bool          // a node was lost
	parts  []*PartRecord // of those that are done, for who takes the job over
}

// stands is how many seats have come how far.
type stands struct{ prepared, started, done int32 }

// unsent is a launch that waits for its record: with a loan, of this node alone.
type unsent struct {
	loan   *slots.Loan
	shares []stealer.Share
}

// runClock is the moments of a run.
type runClock struct {
	began   time.Duration // the gate opened
	prepare time.Duration // the keepers must be ready
	limit   time.Duration // --time
	warn    time.Duration // --signal
	first   time.Duration // -W
	again   time.Duration // no seat is due before
	armed   bool          // limit and warn were set
	waits   bool          // first was
	resumed bool          // began is of before this launcher
}

// haltOrder is what the participants are told to do to their ranks; Level 0
// is nothing.
type haltOrder struct {
	level  int32
	signal int32
	grace  time.Duration
	reason string
	user   bool // the user wants it ended: no further attempt
}

// seat is a participant as the origin sees it.
type seat struct {
	phase   Phase
	done    bool
	lost    bool
	swept   bool  // its node said that nothing of it is left
	kept    bool  // recorded as done
	owed    bool  // the acknowledgement that it is done waits for that
	have    int32 // ends received
	told    int32 // of these, ends that its launcher brought about
	sigs    int32 // signals delivered
	again   time.Duration
	wait    time.Duration
	back    time.Duration // its launcher was restarted: its ranks must turn up
	runsFor time.Duration // where it is lost: how long its ranks may run from then on
}

func (r *run) uses(node filch.NodeName, lease filch.LeaseID) bool {
	for i := range r.launch.Nodes {
		if r.launch.Nodes[i].Node == node && r.launch.Nodes[i].Lease == lease {
			return true
		}
	}
	return false
}

func (r *run) deadline() time.Duration {
	return min(r.at.prepare, r.at.limit, r.at.warn, r.at.first, r.at.again)
}

// launch starts an attempt on the shares. With a loan it is this node's alone
// and runs at once; one other node alone needs no gate either.
func (n *Node) launch(now time.Duration, j *job, shares []stealer.Share, loan *slots.Loan, out *Outbox) {
	nodes := make([]NodeRanks, len(shares))
	for i, s := range shares {
		nodes[i] = NodeRanks{Node: s.Node, Lease: s.Lease, Ranks: s.Spans}
	}
	r := n.newRun(j, nodes)
	j.run, j.state = r, filch.Ready
	j.clock.say, j.clock.refresh = filch.Never, filch.Never
	r.at.prepare = now + r.prepareWait()
	if single := len(nodes) == 1; single {
		n.openGate(now, j)
	}
	if !j.req.Detach || mutantEagerLaunch {
		n.keep(now, j, out)
		n.dispatch(now, j, loan, out)
		return
	}
	// A detached job may have been taken over from here, if this node was cut
	// off: nothing starts before the record says that it is still its owner.
	r.at.prepare = filch.Never
	r.unsent = &unsent{loan: loan, shares: slices.Clone(shares)}
	if loan == nil {
		n.line.unsent++
	}
	n.commit(now, j, func(now time.Duration, out *Outbox) {
		if n.jobs[j.id] == j && j.run == r && r.unsent != nil {
			if loan == nil {
				n.line.unsent--
			}
			r.unsent, r.at.prepare = nil, now+r.prepareWait()
			n.keep(now, j, out)
			n.dispatch(now, j, loan, out)
		}
	})
	n.wakeJob(j, j.deadline())
}

// unlaunch takes a launch back that was not on its way.
func (n *Node) unlaunch(now time.Duration, j *job, out *Outbox) {
	r := j.run
	j.run, j.state = nil, filch.Waiting
	if r.unsent.loan != nil {
		n.ledger.End(now, j.key(), r.unsent.loan.Lease, false)
		return
	}
	n.line.unsent--
	for _, at := range r.launch.Nodes {
		n.send(at.Node, &Release{Job: j.id, Attempt: j.attempt, Lease: at.Lease}, out)
	}
}

// wounded takes in a word of a node about a launch that waits for its record, and
// reports whether the launch has lost what it needs there. What is no news says
// nothing.
func (u *unsent) wounded(from filch.NodeName, m *Grant) bool {
	for i := range u.shares {
		s := &u.shares[i]
		if s.Node != from || mutantStaleLaunch {
			continue
		}
		if m.Lease.Incarnation != s.Lease.Incarnation {
			return m.Lease.Incarnation > s.Lease.Incarnation
		}
		if m.Version <= s.Word {
			return false
		}
		s.Word = m.Version
		return m.Lease != s.Lease || m.Held < count(s.Spans)
	}
	return false
}

// dispatch sends a launch on its way.
func (n *Node) dispatch(now time.Duration, j *job, loan *slots.Loan, out *Outbox) {
	r, nodes := j.run, j.run.launch.Nodes
	for i := range r.seats {
		r.seats[i].again = now + RepeatMin
	}
	r.at.again = now + RepeatMin
	if loan != nil {
		r.seats[0].again, r.at.again = filch.Never, filch.Never
		n.takePart(now, &r.launch, 0, *loan, true, out)
	} else {
		n.send(nodes[0].Node, &Dispatch{Launch: r.launch, Index: 0, Go: len(nodes) == 1}, out)
	}
	if n.remote(nodes) {
		n.renewAt = min(n.renewAt, now+RenewEvery)
	}
	n.wakeJob(j, j.deadline())
}

func (n *Node) remote(nodes []NodeRanks) bool {
	return len(nodes) > 1 || nodes[0].Node != n.cfg.Name
}

func (n *Node) newRun(j *job, nodes []NodeRanks) *run {
	r := &run{seats: make([]seat, len(nodes))}
	for i := range r.seats {
		r.seats[i].again, r.seats[i].back = filch.Never, filch.Never
	}
	r.at = runClock{prepare: filch.Never, limit: filch.Never, warn: filch.Never, first: filch.Never, again: filch.Never}
	r.launch = Launch{
		Ident: filch.Ident{Instance: n.cfg.Instance, Job: j.id, Attempt: j.attempt},
		Name:  j.req.Name, Origin: n.cfg.Name, Parent: j.req.Parent, Task: j.req.Task, Size: j.need.Ranks, Nodes: nodes,
		Base: j.need.Base, Each: j.need.Each,
		KillWait: j.req.Policy.KillWait, Detach: j.req.Detach, Timed: j.req.Policy.TimeLimit > 0, Order: j.req.Order,
		Hop: j.kept.hop, Copy: j.req.Copy,
	}
	return r
}

// openGate notes that the ranks may start from now on.
func (n *Node) openGate(now time.Duration, j *job) {
	j.run.going = true
	j.run.at.began = now
	j.waited = now - j.submitted
}

// armLimit lets the time limit run, from the start of the first rank.
func (n *Node) armLimit(now time.Duration, j *job) {
	r, p := j.run, &j.req.Policy
	if r.at.armed || r.halt.level > 0 || p.TimeLimit <= 0 {
		return
	}
	r.at.armed = true
	from, least := now, now
	if r.at.resumed { // what it ran before this launcher counts; how it may have ended is heard first
		from, least = r.at.began, now+TellAgainMax
	}
	r.at.limit = max(from+p.TimeLimit, least)
	if p.WarnSig > 0 {
		r.at.warn = from + max(0, p.TimeLimit-p.WarnTime)
	}
}

// armFirst lets -W run, from the first end of a rank that is known.
func (n *Node) armFirst(now time.Duration, j *job) {
	r := j.run
	if !r.at.waits && j.req.Policy.WaitFirst > 0 && r.halt.level == 0 {
		r.at.waits, r.at.first = true, now+j.req.Policy.WaitFirst
	}
}

// advance moves a run on after news of a seat.
func (n *Node) advance(now time.Duration, j *job, out *Outbox) {
	r, all := j.run, int32(len(j.run.seats))
	ready := r.prepared == all || mutantEarlyGo && r.prepared == all-1
	if !r.going && r.halt.level == 0 && ready {
		n.openGate(now, j)
		n.keep(now, j, out)
		n.sendProceed(now, j, out)
	}
	if r.unsure && r.halt.level == 0 {
		n.judgeGate(now, j, out)
	}
	if r.going && !r.told && r.halt.level == 0 && r.started == all && (r.done < all || r.ranStarted()) {
		n.tellStarted(now, j, out)
	}
	if r.started == all {
		r.at.prepare = filch.Never
	}
	if r.going && r.started > 0 {
		n.armLimit(now, j)
	}
	if r.done == all {
		n.runOver(now, j, out)
		return
	}
	n.wakeJob(j, j.deadline())
}

// ranStarted reports whether any rank was exec'ed, or tried.
func (r *run) ranStarted() bool {
	for i := range r.seats {
		if r.seats[i].phase == PhaseStarted || r.seats[i].phase == PhaseDone && r.tally.ended > 0 {
			return true
		}
	}
	return false
}

func (n *Node) tellStarted(now time.Duration, j *job, out *Outbox) {
	j.run.told = true
	j.run.at.prepare = filch.Never
	j.state = filch.Running
	if j.req.Detach {
		n.mark(now, j, BookPause)
	}
	n.tell(j, Started{Job: j.id, Size: j.need.Ranks, Nodes: j.run.launch.Nodes, Waited: j.waited}, out)
}

// GoStraight is the most nodes that are told to go one by one; more hear it
// along the tree of launches.
const GoStraight = 64

func (n *Node) sendProceed(now time.Duration, j *job, out *Outbox) {
	r := j.run
	tree := len(r.seats) > GoStraight
	for i := range r.seats {
		r.seats[i].again, r.seats[i].wait = now+RepeatMin, RepeatMin
		if i == 0 || !tree {
			n.send(r.launch.Nodes[i].Node, &Proceed{Job: j.id, Attempt: j.attempt, Index: int32(i), Tree: tree}, out)
		}
	}
	r.at.again = now + RepeatMin
	r.at.prepare = now + PrepareWait
}

// tickRun acts on what is due: limits, and seats that did not answer.
func (n *Node) tickRun(now time.Duration, j *job, out *Outbox) {
	r, p := j.run, &j.req.Policy
	if r.at.warn <= now {
		r.at.warn = filch.Never
		n.signalRun(now, j, p.WarnSig, out)
	}
	if r.at.limit <= now {
		r.at.limit = filch.Never
		n.end(now, j, Cause{Kind: CauseTimeLimit, Rank: -1, Text: "time limit of " + clockText(p.TimeLimit) + " reached"}, sigTerm, p.KillWait, out)
	}
	if r.at.first <= now {
		r.at.first = filch.Never
		text := clockText(p.WaitFirst) + " passed since the first rank ended"
		n.end(now, j, Cause{Kind: CauseWaitFirst, Rank: -1, Text: text}, sigTerm, p.KillWait, out)
	}
	if r.at.prepare <= now {
		r.at.prepare = filch.Never
		n.end(now, j, Cause{Kind: CauseOurs, Rank: -1, Node: r.slowest(), Text: string(r.slowest()) + " was not ready within " + clockText(r.prepareWait())}, sigTerm, FailGrace, out)
	}
	if r.at.again <= now {
		n.repeatSeats(now, j, out)
	}
}

func (r *run) slowest() filch.NodeName {
	for i := range r.seats {
		if s := &r.seats[i]; !s.done && (s.phase < PhasePrepared || r.going && s.phase < PhaseStarted) {
			return r.launch.Nodes[i].Node
		}
	}
	return ""
}

func (n *Node) repeatSeats(now time.Duration, j *job, out *Outbox) {
	r := j.run
	r.at.again = filch.Never
	for i := range r.seats {
		s := &r.seats[i]
		if s.done {
			continue
		}
		if s.back <= now {
			n.giveUpSeat(j, r.launch.seat(i), out) // should they be there after all
			n.seatLost(now, j, i, "its launcher came back without them", out)
			if j.run != r || s.done {
				continue
			}
		}
		if s.again <= now && s.wait >= RepeatMax && !n.alive(r.launch.Nodes[i].Node) {
			n.seatLost(now, j, i, "it is not a member", out) // nobody will declare it dead
			if j.run != r || s.done {
				continue
			}
		}
		if s.again <= now {
			n.repeatSeat(now, j, i, out)
		}
		r.at.again = min(r.at.again, s.again, s.back)
	}
	if n.jobs[j.id] == j && j.run == r && (r.unsure || r.done == int32(len(r.seats))) {
		n.advance(now, j, out)
	}
}

// repeatSeat says again what a participant should have answered.
func (n *Node) repeatSeat(now time.Duration, j *job, i int, out *Outbox) {
	r, s := j.run, &j.run.seats[i]
	to := r.launch.Nodes[i].Node
	if s.back != filch.Never && j.kept.hop > 0 {
		n.askSeat(j, i, out) // until it heard it, it answers whoever had the job before
	}
	switch {
	case r.halt.level > 0:
		n.sendHalt(j, i, out)
	case s.phase < PhasePrepared && !(r.going && len(r.seats) > 1):
		n.send(to, &Dispatch{Launch: r.launch, Index: int32(i), Direct: true, Go: len(r.seats) == 1}, out)
	case s.phase < PhaseStarted && r.going:
		if r.prepared == int32(len(r.seats)) && !r.unsure { // else who took the job over, or was restarted, has not heard all
			n.send(to, &Proceed{Job: j.id, Attempt: j.attempt, Index: int32(i)}, out)
		}
	case s.sigs < int32(len(r.sigs)):
	case s.back != filch.Never && j.kept.hop > 0:
	default:
		s.again = filch.Never
		return
	}
	if s.sigs < int32(len(r.sigs)) {
		n.sendSignals(j, i, out)
	}
	s.wait = min(max(2*s.wait, RepeatMin), RepeatMax)
	s.again = now + s.wait
}

// renew renews the leases of running jobs, in as few messages as there are
// peers.
func (n *Node) renew(now time.Duration, out *Outbox) {
	n.renewAt = filch.Never
	by := make(map[filch.NodeName]*Renew)
	for _, j := range n.sortedJobs() {
		if j.run == nil || !n.remote(j.run.launch.Nodes) {
			continue
		}
		n.renewAt = now + RenewEvery
		for i := range j.run.seats {
			s, at := &j.run.seats[i], &j.run.launch.Nodes[i]
			if s.done || s.phase < PhasePrepared || at.Node == n.cfg.Name {
				continue
			}
			m := by[at.Node]
			if m == nil || len(m.Leases) >= MaxRenewals {
				m = &Renew{Incarnation: n.cfg.Incarnation}
				by[at.Node] = m
				n.send(at.Node, m, out)
			}
			m.Leases = append(m.Leases, Renewal{Job: j.id, Attempt: j.attempt, Index: int32(i), Lease: at.Lease})
		}
	}
}
