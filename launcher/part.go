package launcher

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/slots"
)

// The terms of a participant.
const (
	// TellAgain doubles up to TellAgainMax between repetitions of ends that
	// the origin did not acknowledge.
	TellAgain    = 200 * time.Millisecond
	TellAgainMax = 2 * time.Second
	// TellPause is how long good ends wait for the rest of the node's, or for
	// the keeper to be done: one message instead of several.
	TellPause = 50 * time.Millisecond
	// MaxEndsPerTell bounds the ends in one Progress.
	MaxEndsPerTell = 1024
	// AdoptGrace is how long after its start a launcher does not yet disown
	// leases of its earlier incarnations, and lends nothing, unless it is told
	// sooner that no keeper is left to turn up.
	AdoptGrace = 5 * time.Second
	// GiveUp is how long the end of a part is kept for an origin that is not a
	// member any more.
	GiveUp = time.Minute
	// MaxGraves bounds the attempts of which it is remembered that they are
	// over here, so that a launch that comes late starts nothing.
	MaxGraves = 4096
)

// part is this node's part in an attempt of a job.
type part struct {
	key    slots.Key
	launch *Launch
	index  int32
	lease  filch.LeaseID // the part's own: of a step not the parent's
	phase  Phase
	fault  fault
	ends   []RankEnd
	have   int32         // ends that the origin has
	until  time.Duration // without a word of the origin
	pull   time.Duration // asks for one
	again  time.Duration // tell the origin (again)
	wait   time.Duration // the pause before that
	level  int32         // of the last Halt
	sigs   int32         // signals delivered
	flags  partFlags
	due    time.Duration
}

type fault struct {
	cause CauseKind
	err   filch.Error
	left  int32
}

type partFlags struct {
	open    bool   // the gate: start the ranks when ready
	orphan  bool   // the origin is dead: nobody to tell
	freed   bool   // slots are given back
	killed  bool   // a KILL was forwarded
	adopted bool   // may repeat ends
	who     bool   // the origin has forgotten who has a part
	voice   uint64 // the incarnation of the origin whose signals are counted
	hop     int32  // how often the job was taken over
}

func (n *Node) mine(p *part) bool { return p.launch.Origin == n.cfg.Name }

func (p *part) over() bool { return p.phase >= PhaseDone }

// dispatched takes in a launch, hands it on and starts a keeper on the lease.
func (n *Node) dispatched(now time.Duration, m *Dispatch, out *Outbox) {
	l := &m.Launch
	if m.Index < 0 || int(m.Index) >= len(l.Nodes) || l.Nodes[m.Index].Node != n.cfg.Name {
		return
	}
	k := slots.Key{Job: l.Ident.Job, Attempt: l.Ident.Attempt}
	if p := n.parts[k]; p != nil {
		n.heard(now, p)
		n.report(now, p, out)
		return
	}
	if !m.Direct {
		for c := m.Index*TreeWidth + 1; c <= m.Index*TreeWidth+TreeWidth && int(c) < len(l.Nodes); c++ {
			n.send(l.Nodes[c].Node, &Dispatch{Launch: *l, Index: c}, out)
		}
	}
	loan, ok := n.borrow(now, l, m.Index, k)
	if old := l.Nodes[m.Index].Lease; !ok && n.mayTurnUp(now, old) {
		return
	} else if !ok && m.Go && l.Parent == 0 && old.Incarnation < n.cfg.Incarnation {
		// The launcher before this one may have started it.
		n.send(l.Origin, n.noRanks(&Progress{Job: k.Job, Attempt: k.Attempt, Index: m.Index, Lease: old}), out)
		return
	}
	if !ok {
		n.send(l.Origin, &Progress{
			Job: k.Job, Attempt: k.Attempt, Index: m.Index, Lease: l.Nodes[m.Index].Lease, Phase: PhaseRefused,
			Err: *filch.Errorf(filch.Busy, "%s no longer holds the slots that it promised", n.cfg.Name),
		}, out)
		return
	}
	n.takePart(now, l, m.Index, loan, m.Go, out)
}

// mayTurnUp reports whether a keeper of a lease may still be found, of the time
// before this launcher.
func (n *Node) mayTurnUp(now time.Duration, l filch.LeaseID) bool {
	return l.Incarnation < n.cfg.Incarnation && now < n.birth.began+AdoptGrace
}

// noRanks says that what was launched here is gone.
func (n *Node) noRanks(m *Progress) *Progress {
	m.Phase, m.Cause = PhaseDone, CauseNodeLost
	m.Err = *filch.Errorf(filch.NodeLost, "%s has no ranks of job %d", n.cfg.Name, m.Job)
	return m
}

// borrow launches the lease that a dispatch names. An attempt that is over
// here is not started again.
func (n *Node) borrow(now time.Duration, l *Launch, index int32, k slots.Key) (slots.Loan, bool) {
	if n.dead || n.graves.has(k) || !sane(l.Base, l.Each) {
		return slots.Loan{}, false
	}
	at := l.Nodes[index]
	ranks := count(at.Ranks)
	if l.Parent == 0 {
		return n.ledger.Lock(now, k, at.Lease, ranks)
	}
	a := slots.Ask{Key: k, Origin: l.Origin, Base: l.Base, Each: l.Each, Want: ranks}
	if l.Task != 0 {
		if at.Lease.Incarnation != n.cfg.Incarnation {
			return slots.Loan{}, false // of the launcher before, whose tasks are gone
		}
		return n.borrowTask(a, l)
	}
	parent := n.partOf(l.Parent)
	if parent == nil || parent.over() {
		return slots.Loan{}, false
	}
	return n.ledger.Sub(a, parent.key, at.Lease)
}

// partOf is this node's part in the latest attempt of a job.
func (n *Node) partOf(job filch.JobID) *part {
	var best *part
	for k, p := range n.parts { // in any order: the latest is one
		if k.Job == job && (best == nil || k.Attempt > best.key.Attempt) {
			best = p
		}
	}
	return best
}

func (n *Node) takePart(now time.Duration, l *Launch, index int32, loan slots.Loan, open bool, out *Outbox) {
	k := slots.Key{Job: l.Ident.Job, Attempt: l.Ident.Attempt}
	p := &part{
		key: k, launch: l, index: index, lease: loan.Lease, phase: PhasePreparing,
		again: filch.Never, due: filch.Never, flags: partFlags{open: open, hop: l.Hop},
	}
	n.heard(now, p)
	n.parts[k] = p
	if open {
		n.ledger.Run(k, p.lease)
	}
	out.Starts = append(out.Starts, Start{
		Launch: *l, Index: index, Cores: loan.Cores, Spare: n.spare(&loan), Slots: loan.Slots, GPUs: loan.GPUs, Memory: loan.MemBytes, Go: open,
		Lease: n.lease(now, p),
	})
	n.wakePart(p, p.pull)
}

// spare is how many cpus a launch has to itself.
func (n *Node) spare(loan *slots.Loan) int32 {
	own := int32(len(loan.Slots))
	if len(loan.Cores) > 0 {
		return min(own, n.cfg.Capacity.CPUs)
	}
	held, _, _, _, _ := n.ledger.Counts()
	used := n.ledger.Total().Slots - n.ledger.Free().Slots - held
	return n.cfg.Capacity.CPUs - max(used-own, 0)
}

// heard takes in a word of a part's origin: its lease begins anew.
func (n *Node) heard(now time.Duration, p *part) {
	switch {
	case p.over():
	case n.mine(p):
		p.until, p.pull = filch.Never, filch.Never
	default:
		p.until, p.pull = now+JobTerm, now+PullAfter
	}
}

func count(spans []Span) (k int32) {
	for _, s := range spans {
		k += s.Count
	}
	return k
}

// proceed opens the gate.
func (n *Node) proceed(now time.Duration, m *Proceed, out *Outbox) {
	p := n.parts[slots.Key{Job: m.Job, Attempt: m.Attempt}]
	if p == nil {
		return
	}
	first := !p.flags.open
	if m.Tree && first {
		nodes := p.launch.Nodes
		for c := p.index*TreeWidth + 1; c <= p.index*TreeWidth+TreeWidth && int(c) < len(nodes); c++ {
			n.send(nodes[c].Node, &Proceed{Job: m.Job, Attempt: m.Attempt, Index: c, Tree: true}, out)
		}
	}
	if !first {
		n.report(now, p, out)
		return
	}
	p.flags.open = true
	if p.phase == PhasePrepared && p.level == 0 {
		n.goAhead(p, out)
	}
}

func (n *Node) goAhead(p *part, out *Outbox) {
	n.ledger.Run(p.key, p.lease)
	out.Deeds = append(out.Deeds, Deed{Ident: p.launch.Ident, Kind: DeedGo})
}

// halted stops the ranks of a part. Where the launch has not come yet, what it
// was to use is given back, so that it will be refused.
func (n *Node) halted(now time.Duration, from filch.NodeName, m *Halt, out *Outbox) {
	k := slots.Key{Job: m.Job, Attempt: m.Attempt}
	p := n.parts[k]
	if p == nil && n.mayTurnUp(now, m.Lease) {
		return // to say that nothing of it is left would end the job, and its ranks may run
	}
	if p == nil {
		n.ledger.Release(now, k, m.Lease, 0)
		n.graves.dig(k)
		n.send(from, &Progress{Job: m.Job, Attempt: m.Attempt, Index: m.Index, Lease: m.Lease, Phase: PhaseDone}, out)
		return
	}
	if !p.heeds(from) {
		return
	}
	p.flags.who = p.flags.who || m.Who
	if p.over() {
		n.report(now, p, out)
		return
	}
	if m.Level > p.level {
		p.level = m.Level
		n.stop(p, m.Signal, m.Grace, m.Reason, out)
	}
}

// stop ends the ranks of a part and those of steps inside it.
func (n *Node) stop(p *part, sig int32, grace time.Duration, reason string, out *Outbox) {
	p.level = max(p.level, 1)
	out.Deeds = append(out.Deeds, Deed{Ident: p.launch.Ident, Kind: DeedStop, Signal: sig, Grace: grace, Reason: reason})
	n.stopSteps(p.key.Job, grace, reason, out)
}

func (n *Node) stopSteps(parent filch.JobID, grace time.Duration, reason string, out *Outbox) {
	for _, s := range n.sortedParts() {
		if s.launch.Parent == parent && !s.over() && s.level == 0 {
			s.level = 1
			s.fault = fault{cause: CauseCancel, err: *filch.Errorf(filch.Canceled, "job %d ended, of which this is a step", parent)}
			out.Deeds = append(out.Deeds, Deed{Ident: s.launch.Ident, Kind: DeedStop, Signal: sigTerm, Grace: grace, Reason: reason})
		}
	}
}

// signaled forwards the signals that were not delivered yet.
func (n *Node) signaled(from filch.NodeName, m *Signals, out *Outbox) {
	p := n.parts[slots.Key{Job: m.Job, Attempt: m.Attempt}]
	if p == nil || !p.heeds(from) {
		return
	}
	if m.Incarnation > p.flags.voice { // a restarted origin counts anew
		p.flags.voice, p.sigs = m.Incarnation, 0
	}
	if m.Incarnation == p.flags.voice {
		p.sigs = max(p.sigs, m.First) // delivered, before this launcher was restarted
	}
	for i, sig := range m.Sigs {
		if m.Incarnation < p.flags.voice {
			break
		}
		if at := m.First + int32(i); at == p.sigs && !p.over() {
			p.sigs++
			p.flags.killed = p.flags.killed || sig == sigKill
			out.Deeds = append(out.Deeds, Deed{Ident: p.launch.Ident, Kind: DeedSignal, Signal: sig})
		}
	}
	n.send(from, &SignalsAck{Job: m.Job, Attempt: m.Attempt, Index: m.Index, Incarnation: m.Incarnation, Have: p.sigs}, out)
}

// report tells the origin where the part stands, with all ends it lacks.
func (n *Node) report(now time.Duration, p *part, out *Outbox) {
	if p.flags.orphan {
		p.again, p.pull = filch.Never, filch.Never
		return
	}
	ends := p.ends[p.have:]
	ends = ends[:min(len(ends), MaxEndsPerTell)]
	m := &Progress{
		Job: p.key.Job, Attempt: p.key.Attempt, Index: p.index, Lease: p.launch.Nodes[p.index].Lease, Phase: p.phase,
		Cause: p.fault.cause, Err: p.fault.err, First: p.have, Ends: ends, Left: p.fault.left,
	}
	if p.flags.who {
		m.Seats = p.launch.seats()
	}
	if p.over() && int(p.have)+len(ends) < len(p.ends) {
		m.Phase = PhaseStarted // the rest of the ends comes first
	}
	n.send(p.launch.Origin, m, out)
	p.again = filch.Never
	if len(ends) > 0 || p.over() {
		p.wait = min(max(2*p.wait, TellAgain), TellAgainMax)
		p.again = now + p.wait
		n.wakePart(p, p.again)
	}
}

// acknowledged takes in how much the origin knows.
func (n *Node) acknowledged(now time.Duration, from filch.NodeName, m *ProgressAck, out *Outbox) {
	p := n.parts[slots.Key{Job: m.Job, Attempt: m.Attempt}]
	if p == nil || !p.heeds(from) {
		return
	}
	switch {
	case m.Again:
		p.have, p.wait = 0, 0
		n.report(now, p, out)
		return
	case m.Have < p.have:
		return
	}
	p.have = min(m.Have, int32(len(p.ends)))
	p.wait, p.again = 0, filch.Never
	switch {
	case m.Done && p.over():
		n.partGone(now, p, out)
	case int(p.have) < len(p.ends) || p.over():
		n.report(now, p, out)
	}
}

// partGone forgets a part whose origin knows all of it.
func (n *Node) partGone(now time.Duration, p *part, out *Outbox) {
	n.freePart(now, p)
	delete(n.parts, p.key)
	if p.launch.Parent != 0 {
		n.graves.dig(p.key)
	}
	if p.fault.left == 0 {
		out.Deeds = append(out.Deeds, Deed{Ident: p.launch.Ident, Kind: DeedForget})
	}
}

func (n *Node) freePart(now time.Duration, p *part) {
	if !p.flags.freed {
		p.flags.freed = true
		n.ledger.End(now, p.key, p.lease, p.fault.left > 0)
		n.taskStepOver(now, p.launch.Task)
	}
}

// tickPart lets a lapsed lease end the ranks, and repeats what the origin
// did not acknowledge.
func (n *Node) tickPart(now time.Duration, p *part, out *Outbox) {
	if mutantNoLease && !p.over() {
		p.until = filch.Never
	}
	if p.until <= now {
		p.until, p.pull = filch.Never, filch.Never
		if p.over() {
			if !n.alive(p.launch.Origin) {
				n.partGone(now, p, out)
				return
			}
			p.until = now + GiveUp
		} else if p.inherits() && n.hopeful(p) {
			p.until, p.pull = now+PullEvery, now // it asks on, each time
		} else if p.level == 0 {
			note(out, noteWarn, p.key.Job, n.cfg.Name, "no word from %s for %s: ending the ranks here", p.launch.Origin, JobTerm)
			p.fault = fault{cause: CauseNodeLost, err: *filch.Errorf(filch.NodeLost, "no word from %s for %s", p.launch.Origin, JobTerm)}
			n.stop(p, sigTerm, p.launch.KillWait, "its origin "+string(p.launch.Origin)+" is silent", out)
		}
	}
	if p.again <= now || p.pull <= now {
		p.pull = now + PullEvery
		if p.over() || p.until == filch.Never {
			p.pull = filch.Never
		}
		n.report(now, p, out)
	}
	if n.parts[p.key] == p {
		n.wakePart(p, min(p.until, p.again, p.pull))
	}
}
