package ranks

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/slots"
)

// The terms of a participant.
const (
	// JobTerm is how long a participant keeps ranks without a message of the origin. From
	// PullAfter on, the participant asks for a message every PullEvery, so a lost renewal
	// costs nothing.
	JobTerm   = 10 * time.Second
	PullAfter = 6500 * time.Millisecond
	PullEvery = time.Second
	// GangTerm, GangPullAfter and GangPullEvery are those terms of a gang of a task. A gang starts
	// again soon after the death of a node: where the node is cut off, its ranks must be gone
	// by then (see deadRest). Its origin renews the leases every [RenewGangs].
	GangTerm      = 5500 * time.Millisecond
	GangPullAfter = 3500 * time.Millisecond
	GangPullEvery = 500 * time.Millisecond
	RenewGangs    = 2500 * time.Millisecond
	// FailGrace is the time between TERM and KILL for the ranks of a job already
	// ended by a rank, a keeper or a node: all ranks are gone within 2 s.
	FailGrace = time.Second
	// TellAgain doubles up to TellAgainMax between repetitions of unacknowledged ends.
	TellAgain    = 200 * time.Millisecond
	TellAgainMax = 2 * time.Second
	// TellPause is how long good ends wait for the rest of the node's ends, or for the
	// keeper to be done: one message instead of several.
	TellPause = 50 * time.Millisecond
	// MaxEndsPerTell bounds the ends in a Progress.
	MaxEndsPerTell = 1024
	// AdoptGrace is the time from a launcher's start until the launcher disowns leases of
	// earlier incarnations and lends slots. The time ends sooner if the launcher learns
	// that no keeper is left to be adopted.
	AdoptGrace = 5 * time.Second
	// GiveUp is how long a node keeps the end of a participant for an origin no longer
	// a member.
	GiveUp = time.Minute
	// MaxTombstones bounds the remembered attempts that are over here. A late launch of
	// such an attempt starts nothing.
	MaxTombstones = 4096
)

// participant is this node's share of an attempt of a job: a lease, and the ranks under the
// lease.
type participant struct {
	key    slots.Key
	launch *launcher.Launch
	index  int32
	lease  filch.LeaseID // the participant's own lease: for a step, not the parent's
	phase  launcher.Phase
	fault  fault
	ends   []launcher.RankEnd
	slots  []int32       // in the order of ranks
	have   int32         // ends that the origin has
	until  time.Duration // when the lease lapses without a message of the origin
	pull   time.Duration // when to ask the origin for a message
	again  time.Duration // when to report to the origin (again)
	wait   time.Duration // the pause before again
	level  int32         // of the last Halt
	sigs   int32         // signals delivered
	flags  flags
	due    time.Duration
}

type fault struct {
	cause launcher.CauseKind
	err   filch.Error
	left  int32
}

type flags struct {
	open     bool   // the gate is open: start the ranks when ready
	orphan   bool   // the origin is dead: do not report
	freed    bool   // the slots are given back
	killed   bool   // a KILL was forwarded
	unsent   bool   // the origin did not take all output
	adopted  bool   // may repeat ends
	listAll  bool   // the origin has forgotten the other participants
	sigsFrom uint64 // the incarnation of the origin whose signals are counted
	hop      int32  // how often the job was taken over
}

func (h *Ranks) mine(p *participant) bool { return p.launch.Origin == h.Cfg.Name }

func (p *participant) over() bool { return p.phase >= launcher.PhaseDone }

// OnDispatch handles a launch, forwards the launch and starts a keeper on the lease.
func (h *Ranks) OnDispatch(t *local.Turn, m *launcher.Dispatch) {
	l := &m.Launch
	if m.Index < 0 || int(m.Index) >= len(l.Nodes) || l.Nodes[m.Index].Node != h.Cfg.Name {
		return
	}
	k := slots.Key{Job: l.Ident.Job, Attempt: l.Ident.Attempt}
	if p := h.participants[k]; p != nil {
		h.renewLease(t, p)
		h.report(t, p)
		return
	}
	if !m.Direct {
		for c := m.Index*launcher.TreeWidth + 1; c <= m.Index*launcher.TreeWidth+launcher.TreeWidth && int(c) < len(l.Nodes); c++ {
			t.Send(l.Nodes[c].Node, &launcher.Dispatch{Launch: *l, Index: c})
		}
	}
	loan, ok := h.borrow(t, l, m.Index, k)
	if old := l.Nodes[m.Index].Lease; !ok && h.mayBeAdopted(t, old) {
		return
	} else if !ok && m.Go && l.Parent == 0 && old.Incarnation < h.Cfg.Incarnation {
		// The launcher before may have started this job.
		t.Send(l.Origin, h.noRanks(&launcher.Progress{Job: k.Job, Attempt: k.Attempt, Index: m.Index, Lease: old}))
		return
	}
	if !ok {
		t.Send(l.Origin, &launcher.Progress{
			Job: k.Job, Attempt: k.Attempt, Index: m.Index, Lease: l.Nodes[m.Index].Lease, Phase: launcher.PhaseRefused,
			Err: *filch.Errorf(filch.Busy, "%s no longer holds the slots that it promised", h.Cfg.Name),
		})
		return
	}
	h.TakePart(t, l, m.Index, loan, m.Go)
}

// mayBeAdopted reports whether a keeper of a lease from an earlier launcher may still be
// found.
func (h *Ranks) mayBeAdopted(t *local.Turn, l filch.LeaseID) bool {
	return l.Incarnation < h.Cfg.Incarnation && t.Now < h.Began+AdoptGrace
}

// noRanks completes m to say that the ranks launched here are gone.
func (h *Ranks) noRanks(m *launcher.Progress) *launcher.Progress {
	m.Phase, m.Cause = launcher.PhaseDone, launcher.CauseNodeLost
	m.Err = *filch.Errorf(filch.NodeLost, "%s has no ranks of job %d", h.Cfg.Name, m.Job)
	return m
}

// borrow takes the slots of the lease in a dispatch. A finished attempt is not started
// again here.
func (h *Ranks) borrow(t *local.Turn, l *launcher.Launch, index int32, k slots.Key) (slots.Loan, bool) {
	if h.Dead || h.tombstones.has(k) || !sane(l.Base, l.Each) {
		return slots.Loan{}, false
	}
	at := l.Nodes[index]
	ranks := launcher.CountRanks(at.Ranks)
	if l.Parent == 0 {
		return h.Ledger.Lock(t.Now, k, at.Lease, ranks)
	}
	a := slots.Ask{Key: k, Of: l.Of.Job, Origin: l.Origin, Base: l.Base, Each: l.Each, Want: ranks}
	if l.Task != 0 {
		if at.Lease.Incarnation != h.Cfg.Incarnation {
			return slots.Loan{}, false // of the launcher before; its tasks are gone
		}
		return h.tasks.BorrowTask(t, a, l)
	}
	parent := h.latest(l.Parent)
	if parent == nil || parent.over() {
		return slots.Loan{}, false
	}
	return h.Ledger.Sub(a, parent.key, at.Lease)
}

// latest returns the participant in the latest attempt of a job, nil if there is none.
func (h *Ranks) latest(job filch.JobID) *participant {
	var best *participant
	for k, p := range h.participants { // in any order: only the latest attempt counts
		if k.Job == job && (best == nil || k.Attempt > best.key.Attempt) {
			best = p
		}
	}
	return best
}

// LaunchOf returns the launch of an attempt in which this node participates, else nil.
func (h *Ranks) LaunchOf(k slots.Key) *launcher.Launch {
	if p := h.participants[k]; p != nil {
		return p.launch
	}
	return nil
}

// LaunchIn returns the launch of the latest attempt of a job, else nil.
func (h *Ranks) LaunchIn(job filch.JobID) *launcher.Launch {
	if p := h.latest(job); p != nil {
		return p.launch
	}
	return nil
}

// RunsAlone returns the launch of a job with a single rank running here without a time
// limit, else nil.
func (h *Ranks) RunsAlone(job filch.JobID) *launcher.Launch {
	p := h.latest(job)
	if p != nil && p.phase == launcher.PhaseStarted && p.level == 0 && p.launch.Size == 1 && !p.launch.Timed {
		return p.launch
	}
	return nil
}

// TakePart starts a launch on slots lent by this node.
func (h *Ranks) TakePart(t *local.Turn, l *launcher.Launch, index int32, loan slots.Loan, open bool) {
	k := slots.Key{Job: l.Ident.Job, Attempt: l.Ident.Attempt}
	p := &participant{
		key: k, launch: l, index: index, lease: loan.Lease, phase: launcher.PhasePreparing, slots: loan.Slots,
		again: filch.Never, due: filch.Never, flags: flags{open: open, hop: l.Hop},
	}
	h.renewLease(t, p)
	h.participants[k] = p
	if open {
		h.Ledger.Run(k, p.lease)
	}
	t.Out.Starts = append(t.Out.Starts, launcher.Start{
		Launch: *l, Index: index, Processors: loan.Processors, Spare: h.spare(&loan), Slots: loan.Slots, GPUs: loan.GPUs, ParentGPUs: loan.ParentGPUs, Memory: loan.MemBytes, Go: open,
		Lease: h.lease(t.Now, p),
	})
	h.setTimer(p, p.pull)
}

// spare returns how many processors a launch has to itself.
func (h *Ranks) spare(loan *slots.Loan) int32 {
	own := int32(len(loan.Slots))
	if len(loan.Processors) > 0 {
		return min(own, h.Cfg.Capacity.CPUs)
	}
	held := h.Ledger.Counts().Held
	used := h.Ledger.Total().Slots - h.Ledger.Free().Slots - held
	return h.Cfg.Capacity.CPUs - max(used-own, 0)
}

// renewLease renews the lease of a participant after a message of the participant's origin.
func (h *Ranks) renewLease(t *local.Turn, p *participant) {
	switch {
	case p.over():
	case h.mine(p):
		p.until, p.pull = filch.Never, filch.Never
	default:
		term, pull, _ := p.terms()
		p.until, p.pull = t.Now+term, t.Now+pull
	}
}

// terms are how long the ranks go on without a message of the origin, when the participant
// asks for a message, and how often.
func (p *participant) terms() (term, pull, every time.Duration) {
	if p.gang() {
		return GangTerm, GangPullAfter, GangPullEvery
	}
	return JobTerm, PullAfter, PullEvery
}

// gang reports whether the ranks are a task.
func (p *participant) gang() bool { return p.launch.Of.Job != 0 }

// silentGrace is the time between TERM and KILL where the origin is silent.
func (p *participant) silentGrace() time.Duration {
	if p.gang() {
		return min(FailGrace, p.launch.KillWait)
	}
	return p.launch.KillWait
}

// OnProceed opens the gate.
func (h *Ranks) OnProceed(t *local.Turn, m *launcher.Proceed) {
	p := h.participants[slots.Key{Job: m.Job, Attempt: m.Attempt}]
	if p == nil {
		return
	}
	first := !p.flags.open
	if m.Tree && first {
		nodes := p.launch.Nodes
		for c := p.index*launcher.TreeWidth + 1; c <= p.index*launcher.TreeWidth+launcher.TreeWidth && int(c) < len(nodes); c++ {
			t.Send(nodes[c].Node, &launcher.Proceed{Job: m.Job, Attempt: m.Attempt, Index: c, Tree: true})
		}
	}
	if !first {
		h.report(t, p)
		return
	}
	p.flags.open = true
	if p.phase == launcher.PhasePrepared && p.level == 0 {
		h.startRanks(t, p)
	}
}

func (h *Ranks) startRanks(t *local.Turn, p *participant) {
	h.Ledger.Run(p.key, p.lease)
	t.Deed(launcher.Deed{Ident: p.launch.Ident, Kind: launcher.DeedGo})
}

// OnHalt stops the ranks of a participant. If the launch has not come yet, OnHalt gives
// back the slots leased for the launch, so the node will refuse the launch.
func (h *Ranks) OnHalt(t *local.Turn, from filch.NodeName, m *launcher.Halt) {
	k := slots.Key{Job: m.Job, Attempt: m.Attempt}
	p := h.participants[k]
	if p == nil && h.mayBeAdopted(t, m.Lease) {
		// Saying that nothing of the attempt is left would end the job, and its ranks may
		// still run.
		return
	}
	if p == nil {
		h.Ledger.Release(t.Now, k, m.Lease, 0)
		h.tombstones.add(k)
		over := &launcher.Progress{Job: m.Job, Attempt: m.Attempt, Index: m.Index, Lease: m.Lease, Phase: launcher.PhaseDone}
		if m.Lease.Incarnation < h.Cfg.Incarnation {
			h.noRanks(over) // the order may not be what ended the ranks
		}
		t.Send(from, over)
		return
	}
	if !p.acceptsFrom(from) {
		return
	}
	p.flags.listAll = p.flags.listAll || m.ListAll
	if p.over() {
		h.report(t, p)
		return
	}
	if m.Level > p.level {
		p.level = m.Level
		h.stop(t, p, m.Signal, m.Grace, m.Reason)
	}
}

// stop ends the ranks of a participant and of the steps inside this participant.
func (h *Ranks) stop(t *local.Turn, p *participant, sig int32, grace time.Duration, reason string) {
	p.level = max(p.level, 1)
	t.Deed(launcher.Deed{Ident: p.launch.Ident, Kind: launcher.DeedStop, Signal: sig, Grace: grace, Reason: reason})
	h.stopSteps(t, p.key.Job, grace, reason)
}

func (h *Ranks) stopSteps(t *local.Turn, parent filch.JobID, grace time.Duration, reason string) {
	for _, s := range h.sorted() {
		if s.launch.Parent == parent && !s.over() && s.level == 0 {
			s.level = 1
			s.fault = fault{cause: launcher.CauseCancel, err: *filch.Errorf(filch.Canceled, "job %d, the job of this step, ended", parent)}
			t.Deed(launcher.Deed{Ident: s.launch.Ident, Kind: launcher.DeedStop, Signal: launcher.SigTerm, Grace: grace, Reason: reason})
		}
	}
}

// OnSignals forwards the signals that were not delivered yet.
func (h *Ranks) OnSignals(t *local.Turn, from filch.NodeName, m *launcher.Signals) {
	p := h.participants[slots.Key{Job: m.Job, Attempt: m.Attempt}]
	if p == nil || !p.acceptsFrom(from) {
		return
	}
	if m.Incarnation > p.flags.sigsFrom { // a restarted origin counts from the start
		p.flags.sigsFrom, p.sigs = m.Incarnation, 0
	}
	if m.Incarnation == p.flags.sigsFrom {
		p.sigs = max(p.sigs, m.First) // delivered, before this launcher was restarted
	}
	for i, sig := range m.Sigs {
		if m.Incarnation < p.flags.sigsFrom {
			break
		}
		if at := m.First + int32(i); at == p.sigs && !p.over() {
			p.sigs++
			p.flags.killed = p.flags.killed || sig == launcher.SigKill
			t.Deed(launcher.Deed{Ident: p.launch.Ident, Kind: launcher.DeedSignal, Signal: sig})
		}
	}
	t.Send(from, &launcher.SignalsAck{Job: m.Job, Attempt: m.Attempt, Index: m.Index, Incarnation: m.Incarnation, Have: p.sigs})
}

// report sends the state of a participant to the origin, with all ends missing there.
func (h *Ranks) report(t *local.Turn, p *participant) {
	if p.flags.orphan {
		p.again, p.pull = filch.Never, filch.Never
		return
	}
	ends := p.ends[p.have:]
	ends = ends[:min(len(ends), MaxEndsPerTell)]
	m := &launcher.Progress{
		Job: p.key.Job, Attempt: p.key.Attempt, Index: p.index, Lease: p.launch.Nodes[p.index].Lease, Phase: p.phase,
		Cause: p.fault.cause, Err: p.fault.err, First: p.have, Ends: ends, Left: p.fault.left, Unsent: p.flags.unsent,
	}
	if p.flags.listAll {
		m.Participants = p.launch.Participants()
	}
	if p.over() && int(p.have)+len(ends) < len(p.ends) {
		m.Phase = launcher.PhaseStarted // the rest of the ends comes first
	}
	t.Send(p.launch.Origin, m)
	p.again = filch.Never
	if len(ends) > 0 || p.over() {
		p.wait = min(max(2*p.wait, TellAgain), TellAgainMax)
		p.again = t.Now + p.wait
		h.setTimer(p, p.again)
	}
}

// OnProgressAck handles the origin's acknowledgement of ends.
func (h *Ranks) OnProgressAck(t *local.Turn, from filch.NodeName, m *launcher.ProgressAck) {
	p := h.participants[slots.Key{Job: m.Job, Attempt: m.Attempt}]
	if p == nil || !p.acceptsFrom(from) {
		return
	}
	switch {
	case m.Again:
		p.have, p.wait = 0, 0
		h.report(t, p)
		return
	case m.Have < p.have:
		return
	}
	p.have = min(m.Have, int32(len(p.ends)))
	p.wait, p.again = 0, filch.Never
	switch {
	case m.Done && p.over():
		h.forget(t, p)
	case int(p.have) < len(p.ends) || p.over():
		h.report(t, p)
	}
}

// forget forgets a participant completely known to its origin.
func (h *Ranks) forget(t *local.Turn, p *participant) {
	h.freeSlots(t, p)
	delete(h.participants, p.key)
	if p.launch.Parent != 0 {
		h.tombstones.add(p.key)
	}
	if p.fault.left == 0 {
		t.Deed(launcher.Deed{Ident: p.launch.Ident, Kind: launcher.DeedForget})
	}
}

func (h *Ranks) freeSlots(t *local.Turn, p *participant) {
	if !p.flags.freed {
		p.flags.freed = true
		if p.keeps() && h.Ledger.Spares.Retain(t.Now, p.key, p.lease) {
			h.tombstones.add(p.key) // a late launch of this attempt would find the kept room
		} else {
			h.Ledger.End(t.Now, p.key, p.lease, p.fault.left > 0)
		}
		h.tasks.OnStepOver(t, p.launch.Task)
	}
}

// keeps reports whether the room of the ranks stays with the job. Another owner than the one
// that gathered the room does not know of the room.
func (p *participant) keeps() bool {
	return p.launch.Keep && p.fault.left == 0 && !p.flags.orphan && p.flags.hop == p.launch.Hop
}

// tickParticipant ends the ranks of a lapsed lease, and repeats everything not
// acknowledged by the origin.
func (h *Ranks) tickParticipant(t *local.Turn, p *participant) {
	if mutantNoLease && !p.over() {
		p.until = filch.Never
	}
	term, _, every := p.terms()
	if p.until <= t.Now {
		p.until, p.pull = filch.Never, filch.Never
		if p.over() {
			if !h.Alive(p.launch.Origin) {
				h.forget(t, p)
				return
			}
			p.until = t.Now + GiveUp
		} else if p.waitsForHeir() && h.originMayReturn(p) {
			p.until, p.pull = t.Now+PullEvery, t.Now // pull again, each time
		} else if p.level == 0 {
			t.Note(local.NoteWarn, p.key.Job, h.Cfg.Name, "no message from %s for %s: ending the ranks here", p.launch.Origin, term)
			p.fault = fault{cause: launcher.CauseNodeLost, err: *filch.Errorf(filch.NodeLost, "no message from %s for %s", p.launch.Origin, term)}
			h.stop(t, p, launcher.SigTerm, p.silentGrace(), "its origin "+string(p.launch.Origin)+" is silent")
		}
	}
	if p.again <= t.Now || p.pull <= t.Now {
		p.pull = t.Now + every
		if p.over() || p.until == filch.Never {
			p.pull = filch.Never
		}
		h.report(t, p)
	}
	if h.participants[p.key] == p {
		h.setTimer(p, min(p.until, p.again, p.pull))
	}
}
