package launcher

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
)

// tally is what the origin remembers of the ends of ranks.
type tally struct {
	ended int32
	bad   int32
	list  []RankEnd // the bad ones that we did not cause, at most MaxRankEnds
	nodes []filch.NodeName
	high  int32      // the highest code
	srun  int32      // the highest code as srun counts
	told  verdict    // the first end that we caused by a signal
	refs  int32      // seats whose keeper refused
	by    TaskCounts // the ends by state; those of an earlier launcher are not told apart
}

// progress takes in where a participant stands.
func (n *Node) progress(now time.Duration, from filch.NodeName, m *Progress, out *Outbox) {
	n.noneLeft(now, from, m, out)
	j := n.jobs[m.Job]
	if j == nil || !j.isOf(from, m) {
		n.remains(now, j, from, m, out)
		n.progressOfNone(now, from, m, out)
		return
	}
	r, s := j.run, &j.run.seats[m.Index]
	final := m.Phase >= PhaseDone
	if s.done {
		if !s.owed { // else it hears it when the record says so
			n.progressOfNone(now, from, m, out)
		}
		return
	}
	if n.alive(from) { // else it may be an echo of who is gone
		s.back = filch.Never
	}
	if !final && len(m.Ends) == 0 && m.Phase <= s.phase && from != n.cfg.Name {
		n.send(from, &Renew{Incarnation: n.cfg.Incarnation, Leases: []Renewal{{Job: m.Job, Attempt: m.Attempt, Index: m.Index, Lease: m.Lease}}}, out)
	}
	n.takeEnds(now, j, int(m.Index), m, out)
	if r.unsure && (m.Phase == PhaseStarted || s.have > 0) {
		n.gateWasOpen(now, j, out)
	}
	if final && s.have >= m.First+int32(len(m.Ends)) { // more: its launcher was restarted and knows of none
		n.seatOver(now, j, int(m.Index), m, out)
	} else if !final {
		n.seatPhase(r, s, m.Phase)
	}
	if len(m.Ends) > 0 || final {
		if s.done {
			n.keepSeat(j, int(m.Index), out)
		}
		ack := &ProgressAck{Job: m.Job, Attempt: m.Attempt, Index: m.Index, Have: s.have, Done: s.done, Again: m.First > s.have}
		if s.done && j.req.Detach {
			// It may forget its ends once whoever takes the job over would know them.
			s.owed = from != n.cfg.Name // which is lost with what it says
			n.commit(now, j, func(_ time.Duration, out *Outbox) {
				s.owed = false
				n.send(from, ack, out)
			})
		} else {
			n.send(from, ack, out)
		}
	}
	if n.jobs[j.id] == j && j.run == r {
		n.advance(now, j, out)
	}
}

// isOf reports whether a participant means the launch that is under way. A launcher
// whose disk was full forgets its attempts and gives their numbers again: the lease
// tells the launches of one number apart. A node that has no part in either, and was
// asked by an heir, knows no lease.
func (j *job) isOf(from filch.NodeName, m *Progress) bool {
	if j.run == nil || j.attempt != m.Attempt || m.Index < 0 || int(m.Index) >= len(j.run.seats) {
		return false
	}
	at := &j.run.launch.Nodes[m.Index]
	return at.Node == from && (at.Lease == m.Lease || m.Lease == filch.LeaseID{})
}

// progressOfNone answers a participant of an attempt that is over: its ends
// are no news, its ranks are to go.
func (n *Node) progressOfNone(now time.Duration, from filch.NodeName, m *Progress, out *Outbox) {
	if from != n.cfg.Name && (n.gaveUp(now, m.Job) || m.Phase >= PhaseDone && n.endUnkept(m.Job)) {
		return
	}
	if m.Phase >= PhaseDone || len(m.Ends) > 0 {
		n.send(from, &ProgressAck{Job: m.Job, Attempt: m.Attempt, Index: m.Index, Have: m.First + int32(len(m.Ends)), Done: true}, out)
	}
	if m.Phase < PhaseDone {
		n.send(from, &Halt{
			Job: m.Job, Attempt: m.Attempt, Index: m.Index, Lease: m.Lease, Level: 1 << 30,
			Signal: sigTerm, Grace: FailGrace, Reason: "the job is over", Who: n.alone(from, m) != nil,
		}, out)
	}
}

func (n *Node) seatPhase(r *run, s *seat, ph Phase) {
	if ph <= s.phase {
		return
	}
	if s.phase < PhasePrepared && ph >= PhasePrepared {
		r.prepared++
	}
	if s.phase < PhaseStarted && ph >= PhaseStarted {
		r.started++
		if r.halt.level == 0 && s.sigs == int32(len(r.sigs)) {
			s.again = filch.Never
		}
	}
	s.phase = ph
	if !r.going && ph >= PhasePrepared && r.halt.level == 0 {
		s.again = filch.Never
	}
}

// takeEnds takes in those ends of a participant that are new.
func (n *Node) takeEnds(now time.Duration, j *job, i int, m *Progress, out *Outbox) {
	r, s := j.run, &j.run.seats[i]
	if m.First > s.have {
		return // this launcher was restarted and has forgotten some: the acknowledgement asks for all
	}
	most := count(r.launch.Nodes[i].Ranks)
	for k := int(s.have) - int(m.First); k < len(m.Ends) && s.have < most; k++ {
		s.have++
		if m.Ends[k].Told {
			s.told++
		}
		n.takeEnd(now, j, r.launch.Nodes[i].Node, &m.Ends[k], out)
	}
}

func (n *Node) takeEnd(now time.Duration, j *job, node filch.NodeName, e *RankEnd, out *Outbox) {
	r, p := j.run, &j.req.Policy
	t := &r.tally
	t.ended++
	*t.by.of(rankState(e))++
	c := code(e.Kind, e.Code)
	t.high = max(t.high, c)
	t.srun = max(t.srun, srunCode(e.Kind, e.Code))
	n.armFirst(now, j)
	if e.Kind == CauseNone {
		return
	}
	t.bad++
	v := verdict{Cause{Kind: e.Kind, Rank: e.Rank, Node: node, Text: endText(e, node), Doubt: e.Doubt}, c}
	if e.Told {
		if t.told.Kind == CauseNone {
			t.told = v
		}
		return
	}
	if len(t.list) < MaxRankEnds {
		t.list = append(t.list, *e)
		t.nodes = append(t.nodes, node)
	}
	if r.cause.Kind == CauseNone || e.Doubt < r.cause.Doubt || r.cause.Kind == CauseAbort && crash(e) {
		r.cause = v
	}
	if p.KillOnBad || e.Kind == CauseAbort || e.Kind == CauseProtocol || e.Kind == CauseOurs {
		n.end(now, j, v.Cause, sigTerm, min(FailGrace, p.KillWait), out)
	}
}

// rankState is the state that the end of a rank means: one that we signalled
// was killed.
func rankState(e *RankEnd) filch.State {
	if s := stateOf(e.Kind); s != filch.Failed || !e.Told {
		return s
	}
	return filch.Killed
}

// crash reports whether e explains that another rank called MPI_Abort: it was
// killed by a signal that we did not send, and the other lost its connection.
// The abort may be known first, when that rank's node is nearer. An end of which
// there is a [Doubt] gives way to more than that.
func crash(e *RankEnd) bool {
	switch e.Kind {
	case CauseOOM:
		return true
	case CauseSignal:
		return e.Code == sigIll || e.Code == sigBus || e.Code == sigFPE || e.Code == sigKill || e.Code == sigSegv
	}
	return false
}

// verdict is a cause and the exit code that it means.
type verdict struct {
	Cause
	code int32
}

// seatOver takes in that a participant has nothing left. One that was refused
// its slots, or whose ranks vanished, is no end of a rank.
func (n *Node) seatOver(now time.Duration, j *job, i int, m *Progress, out *Outbox) {
	r, s := j.run, &j.run.seats[i]
	node := r.launch.Nodes[i].Node
	if m.Phase == PhaseDone && m.Cause == CauseNodeLost {
		n.seatLost(now, j, i, m.Err.Text, out)
		return
	}
	if m.Phase == PhaseDone && s.told > 0 && r.halt.level == 0 && len(r.sigs) == 0 && j.req.Parent == 0 {
		// A launcher that was declared dead, or that went down, ended them, and died.
		n.seatLost(now, j, i, "they were ended there", out)
		return
	}
	n.seatGone(r, s, m.Phase)
	switch {
	case m.Phase == PhaseRefused && m.Cause == CauseNone:
		n.regate(now, j, m.Err.Text, out)
	case m.Cause != CauseNone:
		r.tally.refs++
		cause := Cause{Kind: m.Cause, Rank: -1, Node: node, Text: m.Err.Text, Hint: m.Err.Hint}
		if r.halt.level == 0 || (r.cause.Kind == CauseNone || r.cause.Doubt == DoubtMuch) && !r.gate {
			n.end(now, j, cause, sigTerm, min(FailGrace, j.req.Policy.KillWait), out)
		}
	}
	if m.Left > 0 {
		text := fmt.Sprintf("%d processes on %s cannot be killed; their slots stay out of service", m.Left, node)
		note(out, noteError, j.id, node, "%s", text)
		n.tell(j, Ending{Job: j.id, Text: text}, out)
	}
}

// seatGone counts a seat as over; whoever is over was also ready and started.
func (n *Node) seatGone(r *run, s *seat, ph Phase) {
	if s.phase < PhasePrepared {
		r.prepared++
	}
	if s.phase < PhaseStarted {
		r.started++
	}
	if s.phase < PhaseStarted && ph == PhaseDone && r.going {
		s.phase = PhaseStarted
	}
	s.done = true
	s.again, s.back = filch.Never, filch.Never
	r.done++
}

// seatLost takes in that a participant's ranks are lost.
func (n *Node) seatLost(now time.Duration, j *job, i int, why string, out *Outbox) {
	r, s := j.run, &j.run.seats[i]
	if s.done {
		return
	}
	node := r.launch.Nodes[i].Node
	s.lost, s.runsFor = true, n.mayRunFor(j, node, s.back == filch.Never)
	n.seatGone(r, s, PhaseRefused)
	n.keepSeat(j, i, out)
	if !r.going {
		n.regate(now, j, why, out)
		return
	}
	k := count(r.launch.Nodes[i].Ranks) - s.have + s.told
	if k <= 0 {
		return // all its ranks had ended
	}
	r.lost = true
	v := verdict{Cause{Kind: CauseNodeLost, Rank: -1, Node: node, Text: fmt.Sprintf("node %s lost with %d ranks: %s", node, k, why)}, filch.ExitNodeLost}
	r.tally.srun = max(r.tally.srun, 1)
	if j.req.Policy.NoKill {
		if r.cause.Kind == CauseNone {
			r.cause = v
		}
		r.tally.ended += k - s.told // those have been counted
		r.tally.bad += k - s.told
		if !r.unsure {
			n.tell(j, Ending{Job: j.id, Text: v.Text + "; going on without"}, out)
		}
		return
	}
	n.end(now, j, v.Cause, sigTerm, min(FailGrace, j.req.Policy.KillWait), out)
}

// regate gives an attempt up that failed behind the gate, through no fault of
// its ranks.
func (n *Node) regate(now time.Duration, j *job, why string, out *Outbox) {
	r := j.run
	if r.halt.level > 0 {
		return
	}
	r.gate = true
	note(out, noteInfo, j.id, n.cfg.Name, "launching again: %s", why)
	n.halt(now, j, sigTerm, 0, why, out)
}

// end stops a job for a cause; the first one decides the exit code. A job that
// is not launched is over at once.
func (n *Node) end(now time.Duration, j *job, c Cause, sig int32, grace time.Duration, out *Outbox) {
	if j.run != nil && j.run.unsent != nil {
		n.unlaunch(now, j, out)
	}
	if j.run == nil {
		n.letGo(now, j, nil, out)
		n.bury(now, j, EndRecord{State: stateOf(c.Kind), Code: code(c.Kind, 0), Cause: c}, out)
		return
	}
	r := j.run
	first := r.halt.level == 0 || r.gate
	r.gate = false
	gone := c.Kind == CauseNodeLost || c.Kind == CauseOurs // with its ranks
	if r.cause.Kind == CauseNone || r.cause.Doubt == DoubtMuch && gone {
		r.cause = verdict{c, code(c.Kind, r.tally.high)}
	}
	switch c.Kind {
	case CauseTimeLimit, CauseCancel, CauseInterrupt, CauseClientGone, CauseWaitFirst:
		r.halt.user = true
	}
	n.halt(now, j, sig, grace, c.Text, out)
	if first {
		n.keep(now, j, out)
		n.tell(j, Ending{Job: j.id, Text: c.Text}, out)
	}
}

// halt tells the participants to stop their ranks; a later call with a
// harder order replaces an earlier one.
func (n *Node) halt(now time.Duration, j *job, sig int32, grace time.Duration, reason string, out *Outbox) {
	r := j.run
	h := &r.halt
	if h.level > 0 && grace >= h.grace {
		return
	}
	h.level++
	h.signal, h.grace, h.reason = sig, grace, reason
	r.at.limit, r.at.warn, r.at.first, r.at.prepare = filch.Never, filch.Never, filch.Never, filch.Never
	for i := range r.seats {
		s := &r.seats[i]
		if s.done {
			continue
		}
		s.wait = RepeatMin
		s.again = now + s.wait
		r.at.again = min(r.at.again, s.again)
		n.sendHalt(j, i, out)
	}
	n.wakeJob(j, j.deadline())
}

// haltAgain says to all participants once more what they are told to do to their ranks,
// before the run is forgotten and nothing is repeated. A keeper that had not turned up
// when it was first said would run on: a part of this node waits for no word of another.
func (n *Node) haltAgain(j *job, out *Outbox) {
	for i := range j.run.seats {
		if !j.run.seats[i].done {
			n.sendHalt(j, i, out)
		}
	}
}

func (n *Node) sendHalt(j *job, i int, out *Outbox) {
	h, at := &j.run.halt, &j.run.launch.Nodes[i]
	n.send(at.Node, &Halt{
		Job: j.id, Attempt: j.attempt, Index: int32(i), Lease: at.Lease, Level: h.level,
		Signal: h.signal, Grace: h.grace, Reason: h.reason,
	}, out)
}
