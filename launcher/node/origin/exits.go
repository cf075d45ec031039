package origin

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/ranks"
)

// tally sums up the ends of ranks at the origin.
type tally struct {
	ended int32
	bad   int32
	list  []launcher.RankEnd // the bad ends not caused by filch, at most MaxRankEnds
	nodes []filch.NodeName
	high  int32               // the highest code
	srun  int32               // the highest code as srun counts
	told  verdict             // the first end caused by a signal of filch
	refs  int32               // participants with a refusing keeper
	by    launcher.TaskCounts // ends by state, without ends before a restart
	rows  launcher.RankRows
}

// OnProgress handles a participant's report of its phase and ends.
func (a *attempts) OnProgress(t *local.Turn, from filch.NodeName, m *launcher.Progress) {
	a.lost.onNoneLeft(t, from, m)
	j := a.jobs[m.Job]
	if j == nil || !j.isOf(from, m) {
		a.lost.onUnknownAttempt(t, j, from, m)
		a.answerUnknown(t, from, m)
		return
	}
	r, s := j.run, &j.run.participants[m.Index]
	final := m.Phase >= launcher.PhaseDone
	if s.done {
		if !s.owed { // else the acknowledgement follows the store
			a.answerUnknown(t, from, m)
		}
		return
	}
	if a.Alive(from) { // else the message may be from before the node's death
		s.back = filch.Never
	}
	if !final && len(m.Ends) == 0 && m.Phase <= s.phase && from != a.Cfg.Name {
		t.Send(from, &launcher.Renew{Incarnation: a.Cfg.Incarnation, Leases: []launcher.Renewal{{Job: m.Job, Attempt: m.Attempt, Index: m.Index, Lease: m.Lease}}})
	}
	a.takeEnds(t, j, int(m.Index), m)
	if r.unsure && (m.Phase == launcher.PhaseStarted || s.have > 0) {
		a.setGateOpen(t, j)
	}
	// Greater: the participant's launcher was restarted and knows no ends.
	if final && s.have >= m.First+int32(len(m.Ends)) {
		a.onParticipantOver(t, j, int(m.Index), m)
	} else if !final {
		a.setPhase(r, s, m.Phase)
	}
	if len(m.Ends) > 0 || final {
		if s.done {
			a.recordDone(t, j, int(m.Index))
		}
		ack := &launcher.ProgressAck{Job: m.Job, Attempt: m.Attempt, Index: m.Index, Have: s.have, Done: s.done, Again: m.First > s.have}
		if s.done && j.req.Detach {
			// The participant may forget its ends once a node taking the job over would
			// read them in the store.
			s.owed = from != a.Cfg.Name // a participant here is lost with this node anyway
			a.records.Commit(t, j.id, func(t *local.Turn) {
				s.owed = false
				t.Send(from, ack)
			})
		} else {
			t.Send(from, ack)
		}
	}
	if a.jobs[j.id] == j && j.run == r {
		a.advance(t, j)
	}
}

// isOf reports whether a Progress belongs to the current launch. A launcher with a full
// disk forgets attempts and reuses their numbers: the lease distinguishes launches with
// the same number.
func (j *job) isOf(from filch.NodeName, m *launcher.Progress) bool {
	if j.run == nil || j.attempt != m.Attempt || m.Index < 0 || int(m.Index) >= len(j.run.participants) {
		return false
	}
	at := &j.run.launch.Nodes[m.Index]
	return at.Node == from && at.Lease == m.Lease
}

// answerUnknown answers a participant of an attempt that is over: the origin
// acknowledges the ends without counting the ends, and halts the ranks.
func (a *attempts) answerUnknown(t *local.Turn, from filch.NodeName, m *launcher.Progress) {
	if from != a.Cfg.Name && (a.origin.isHandedOver(t, m.Job) || m.Phase >= launcher.PhaseDone && a.records.EndUnkept(m.Job)) {
		return
	}
	if m.Phase >= launcher.PhaseDone || len(m.Ends) > 0 {
		t.Send(from, &launcher.ProgressAck{Job: m.Job, Attempt: m.Attempt, Index: m.Index, Have: m.First + int32(len(m.Ends)), Done: true})
	}
	if m.Phase < launcher.PhaseDone {
		t.Send(from, &launcher.Halt{
			Job: m.Job, Attempt: m.Attempt, Index: m.Index, Lease: m.Lease, Level: 1 << 30,
			Signal: launcher.SigTerm, Grace: ranks.FailGrace, Reason: "the job is over", ListAll: a.lost.alone(from, m) != nil,
		})
	}
}

func (a *attempts) setPhase(r *run, s *participant, ph launcher.Phase) {
	if ph <= s.phase {
		return
	}
	if s.phase < launcher.PhasePrepared && ph >= launcher.PhasePrepared {
		r.prepared++
	}
	if s.phase < launcher.PhaseStarted && ph >= launcher.PhaseStarted {
		r.started++
		if r.halt.level == 0 && s.sigs == int32(len(r.sigs)) {
			s.again = filch.Never
		}
	}
	s.phase = ph
	if !r.going && ph >= launcher.PhasePrepared && r.halt.level == 0 {
		s.again = filch.Never
	}
}

// takeEnds counts the new ends of a participant.
func (a *attempts) takeEnds(t *local.Turn, j *job, i int, m *launcher.Progress) {
	r, s := j.run, &j.run.participants[i]
	if m.First > s.have {
		return // ends were forgotten in a restart: the acknowledgement asks for all
	}
	most := launcher.CountRanks(r.launch.Nodes[i].Ranks)
	for k := int(s.have) - int(m.First); k < len(m.Ends) && s.have < most; k++ {
		s.have++
		r.tally.rows.Add(i, &m.Ends[k], rankState(&m.Ends[k]))
		if m.Ends[k].Told {
			s.told++
		}
		a.takeEnd(t, j, r.launch.Nodes[i].Node, &m.Ends[k])
	}
}

func (a *attempts) takeEnd(t *local.Turn, j *job, node filch.NodeName, e *launcher.RankEnd) {
	r, p := j.run, &j.req.Policy
	tally := &r.tally
	tally.ended++
	*tally.by.Of(rankState(e))++
	c := e.Kind.Code(e.Code)
	tally.high = max(tally.high, c)
	tally.srun = max(tally.srun, e.Kind.SrunCode(e.Code))
	a.armFirst(t, j)
	if e.Kind == launcher.CauseNone {
		return
	}
	tally.bad++
	v := verdict{launcher.Cause{Kind: e.Kind, Rank: e.Rank, Node: node, Text: e.Line(node), Doubt: e.Doubt}, c}
	if e.Told {
		if tally.told.Kind == launcher.CauseNone {
			tally.told = v
		}
		return
	}
	if len(tally.list) < launcher.MaxRankEnds {
		tally.list = append(tally.list, *e)
		tally.nodes = append(tally.nodes, node)
		a.origin.tell(t, j, launcher.RankEnds{Job: j.id, Ranks: []launcher.RankEnd{*e}})
	}
	if r.cause.Kind == launcher.CauseNone || e.Doubt < r.cause.Doubt || r.cause.Kind == launcher.CauseAbort && e.Crash() {
		r.cause = v
	}
	if p.KillOnBad || e.Kind == launcher.CauseAbort || e.Kind == launcher.CauseProtocol || e.Kind == launcher.CauseOurs {
		a.end(t, j, v.Cause, launcher.SigTerm, min(ranks.FailGrace, p.KillWait))
	}
}

// rankState returns the state for the end of a rank: a failed rank signalled by filch was
// killed.
func rankState(e *launcher.RankEnd) filch.State {
	if s := e.Kind.State(); s != filch.Failed || !e.Told {
		return s
	}
	return filch.Killed
}

// verdict is a cause with its exit code.
type verdict struct {
	launcher.Cause
	code int32
}

// onParticipantOver handles the last report of a participant. A participant whose slots
// were refused, or whose ranks vanished, adds no end of a rank.
func (a *attempts) onParticipantOver(t *local.Turn, j *job, i int, m *launcher.Progress) {
	r, s := j.run, &j.run.participants[i]
	node := r.launch.Nodes[i].Node
	s.unsent = m.Unsent
	if m.Phase == launcher.PhaseDone && m.Cause == launcher.CauseNodeLost {
		a.onParticipantLost(t, j, i, m.Err.Text)
		return
	}
	if m.Phase == launcher.PhaseDone && s.told > 0 && r.halt.level == 0 && len(r.sigs) == 0 && j.req.Parent == 0 {
		// A launcher that was declared dead, or went down, ended the ranks and died.
		a.onParticipantLost(t, j, i, "they were ended there")
		return
	}
	a.countDone(r, s, m.Phase)
	switch {
	case m.Phase == launcher.PhaseRefused && m.Cause == launcher.CauseNone:
		a.launchAgain(t, j, m.Err.Text)
	case m.Cause != launcher.CauseNone:
		r.tally.refs++
		cause := launcher.Cause{Kind: m.Cause, Rank: -1, Node: node, Text: m.Err.Text, Hint: m.Err.Hint}
		if r.halt.level == 0 || (r.cause.Kind == launcher.CauseNone || r.cause.Doubt > launcher.DoubtNone) && !r.gate {
			a.end(t, j, cause, launcher.SigTerm, min(ranks.FailGrace, j.req.Policy.KillWait))
		}
	}
	if m.Left > 0 {
		text := fmt.Sprintf("%d processes on %s cannot be killed; their slots stay out of service", m.Left, node)
		t.Note(local.NoteError, j.id, node, "%s", text)
		a.origin.tell(t, j, launcher.Ending{Job: j.id, Text: text})
	}
	a.fitSteps(t, j)
}

// fitSteps refuses the waiting steps of a job that no longer fit, since a participant is
// over.
func (a *attempts) fitSteps(t *local.Turn, j *job) {
	if len(j.guests) > 0 && j.run.halt.level == 0 {
		a.parents.grantSteps(t, j)
	}
}

// countDone counts a participant as done; a done participant also counts as prepared and
// started.
func (a *attempts) countDone(r *run, s *participant, ph launcher.Phase) {
	if s.phase < launcher.PhasePrepared {
		r.prepared++
	}
	if s.phase < launcher.PhaseStarted {
		r.started++
	}
	if s.phase < launcher.PhaseStarted && ph == launcher.PhaseDone && r.going {
		s.phase = launcher.PhaseStarted
	}
	s.done = true
	s.again, s.back = filch.Never, filch.Never
	r.done++
}

// onParticipantLost handles the loss of a participant's ranks.
func (a *attempts) onParticipantLost(t *local.Turn, j *job, i int, why string) {
	r, s := j.run, &j.run.participants[i]
	if s.done {
		return
	}
	node := r.launch.Nodes[i].Node
	s.lost, s.runsFor = true, a.lost.mayRunFor(j, node, s.back == filch.Never)
	a.countDone(r, s, launcher.PhaseRefused)
	a.recordDone(t, j, i)
	if !r.going {
		a.launchAgain(t, j, why)
		return
	}
	k := launcher.CountRanks(r.launch.Nodes[i].Ranks) - s.have + s.told
	if k <= 0 { // all ranks of the participant had ended
		a.fitSteps(t, j)
		return
	}
	r.lost = true
	v := verdict{launcher.Cause{Kind: launcher.CauseNodeLost, Rank: -1, Node: node, Text: fmt.Sprintf("node %s lost with %s: %s", node, filch.Plural(k, "rank"), why)}, filch.ExitNodeLost}
	r.tally.srun = max(r.tally.srun, 1)
	if j.req.Policy.NoKill {
		if r.cause.Kind == launcher.CauseNone {
			r.cause = v
		}
		r.tally.ended += k - s.told // told ends are counted already
		r.tally.bad += k - s.told
		if !r.unsure && r.halt.level == 0 {
			a.origin.tell(t, j, launcher.Ending{Job: j.id, Text: v.Text + "; going on without"})
		}
		a.fitSteps(t, j)
		return
	}
	a.end(t, j, v.Cause, launcher.SigTerm, min(ranks.FailGrace, j.req.Policy.KillWait))
}

// launchAgain stops an attempt that failed behind the gate without a fault of the ranks, so
// the job is launched again.
func (a *attempts) launchAgain(t *local.Turn, j *job, why string) {
	r := j.run
	if r.halt.level > 0 {
		return
	}
	r.gate = true
	t.Note(local.NoteInfo, j.id, a.Cfg.Name, "launching again: %s", why)
	a.halt(t, j, launcher.SigTerm, 0, why)
}

// end stops a job for a cause; the first cause decides the exit code. A job without a
// launch is over at once.
func (a *attempts) end(t *local.Turn, j *job, c launcher.Cause, sig int32, grace time.Duration) {
	if j.run != nil && j.run.unsent != nil {
		a.unlaunch(t, j)
	}
	if j.run == nil {
		a.line.releaseHolds(t, j, nil)
		a.origin.finish(t, j, launcher.EndRecord{State: c.Kind.State(), Code: c.Kind.Code(0), Cause: c})
		return
	}
	r := j.run
	first := r.halt.level == 0 || r.gate
	r.gate = false
	r.takeCause(c)
	a.halt(t, j, sig, grace, c.Text)
	if first {
		a.origin.keep(t, j)
		a.origin.tell(t, j, launcher.Ending{Job: j.id, Text: c.Text})
	}
}

// halt orders the participants to stop their ranks; a later, harder order replaces an
// earlier order.
func (a *attempts) halt(t *local.Turn, j *job, sig int32, grace time.Duration, reason string) {
	r := j.run
	h := &r.halt
	if h.level > 0 && grace >= h.grace {
		return
	}
	h.level++
	h.signal, h.grace, h.reason = sig, grace, reason
	r.at.limit, r.at.warn, r.at.first, r.at.prepare = filch.Never, filch.Never, filch.Never, filch.Never
	for i := range r.participants {
		s := &r.participants[i]
		if s.done {
			continue
		}
		s.wait = repeatMin
		s.again = t.Now + s.wait
		r.at.again = min(r.at.again, s.again)
		a.sendHalt(t, j, i)
	}
	a.wakeJob(j, j.deadline())
}

// resendHalt resends the current order to all participants before the origin forgets the
// run and resends nothing more. Otherwise a keeper adopted after the first order would
// run on: a participant whose origin is the same node has no lease to run out.
func (a *attempts) resendHalt(t *local.Turn, j *job) {
	for i := range j.run.participants {
		if !j.run.participants[i].done {
			a.sendHalt(t, j, i)
		}
	}
}

func (a *attempts) sendHalt(t *local.Turn, j *job, i int) {
	h, at := &j.run.halt, &j.run.launch.Nodes[i]
	t.Send(at.Node, &launcher.Halt{
		Job: j.id, Attempt: j.attempt, Index: int32(i), Lease: at.Lease, Level: h.level,
		Signal: h.signal, Grace: h.grace, Reason: h.reason,
	})
}
