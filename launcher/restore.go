package launcher

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/slots"
)

func recordKey(id filch.JobID) string { return fmt.Sprintf("job/%d", id) }

// keep records where a job stands.
func (n *Node) keep(now time.Duration, j *job, out *Outbox) {
	n.mark(now, j, BookPause)
	out.Records = append(out.Records, Record{Key: recordKey(j.id), Job: n.jobRecord(j)})
}

func (n *Node) jobRecord(j *job) *JobRecord {
	r := &JobRecord{
		Job: j.id, Attempt: j.attempt, Ticket: j.ticket, Request: j.req, Size: j.need.Ranks, State: j.state, Waited: j.waited,
		Shared: SharedRecord{Hop: j.kept.hop, Orders: j.kept.orders, Earlier: j.kept.earlier, Losses: j.clock.losses},
	}
	if j.clock.fence != filch.Never {
		r.Shared.Lost = j.kept.lost
	}
	if j.step != nil {
		r.Arbiter = j.step.arbiter
	}
	if j.run != nil {
		r.Nodes, r.Going, r.Shared.Unsure = j.run.launch.Nodes, j.run.going && !j.run.unsure, j.run.unsure
		r.Cause, r.Code = j.run.cause.Cause, j.run.cause.code
		if j.run.going {
			r.Began = n.cfg.Tasks.WallNS + int64(j.run.at.began)
		}
	}
	return r
}

// keepEnd records the end of a job: of a detached one for those who ask later,
// of another until its client has gone.
func (n *Node) keepEnd(j *job, e EndRecord, out *Outbox) {
	r := &JobRecord{Job: j.id, Attempt: j.attempt, Ticket: j.ticket, Size: j.need.Ranks, State: e.State, Waited: j.waited, Ended: &e}
	r.Request = Request{Name: j.req.Name, Detach: j.req.Detach, Parent: j.req.Parent}
	r.Shared.Hop, r.Shared.Orders = j.kept.hop, j.kept.orders
	if j.run != nil {
		r.Nodes = j.run.launch.Nodes
	}
	if d := n.meta.book.due[j.id]; d != nil && j.req.Detach {
		d.end = r
	}
	out.Records = append(out.Records, Record{Key: recordKey(j.id), Job: r})
}

// restoreEnd takes in a job that ended. The end of a detached one was told: where the
// store had not taken it, others know of a job that runs, and would run it again.
func (n *Node) restoreEnd(now time.Duration, r *JobRecord) {
	j := &job{id: r.Job, attempt: r.Attempt, ticket: r.Ticket, req: r.Request, times: times{waited: r.Waited}}
	j.need.Ranks = r.Size
	j.kept.hop, j.kept.orders = r.Shared.Hop, r.Shared.Orders
	i := j.info(now, n.cfg.Name, r.Ended)
	for _, at := range r.Nodes {
		i.Nodes = append(i.Nodes, at.Node)
	}
	i.Waited = seconds(r.Waited)
	n.past.add(i, *r.Ended)
	switch {
	case !r.Request.Detach:
		n.birth.unheard = append(n.birth.unheard, r.Job)
		n.birth.forgets = now + ReclaimWait
	case !r.Shared.Kept:
		n.markEnd(now, j, i)
		n.meta.book.due[j.id].end = r
	}
}

func (j *job) seatKey(i int) string {
	return fmt.Sprintf("job/%d/%d/%d", j.id, j.attempt, i)
}

// keepSeat records that a participant is done, before it is told to forget.
func (n *Node) keepSeat(j *job, i int, out *Outbox) {
	if len(j.run.seats) < 2 {
		return
	}
	t, node := &j.run.tally, j.run.launch.Nodes[i].Node
	r := &PartRecord{Job: j.id, Attempt: j.attempt, Index: int32(i), Lost: j.run.seats[i].lost, Bad: t.bad, High: t.high, SRun: t.srun}
	r.Cause, r.Code = j.run.cause.Cause, j.run.cause.code
	for k := range t.list {
		if t.nodes[k] == node {
			r.Ends = append(r.Ends, t.list[k])
		}
	}
	j.run.seats[i].kept = true
	j.run.parts = append(j.run.parts, r)
	out.Records = append(out.Records, Record{Key: j.seatKey(i), Part: r})
}

// seatRecords removes what was recorded of the participants of an attempt. It
// goes after the job's own record says that the attempt is over: without one of
// them a launcher that dies in between would take the participant for lost.
func (j *job) seatRecords() (gone []Record) {
	if j.run == nil {
		return nil
	}
	for i := range j.run.seats {
		if j.run.seats[i].kept {
			gone = append(gone, Record{Key: j.seatKey(i)})
		}
	}
	return gone
}

// Restore takes in the records of the launcher before this one, before any
// other input. Launched jobs are joined again by their participants, waiting
// ones ask anew under their old ticket. A record that makes no sense is noted
// and skipped.
func (n *Node) Restore(now time.Duration, records []Record, out *Outbox) {
	n.birth = birth{began: now, opens: now + AdoptGrace, forgets: filch.Never}
	if !mutantRestoreOpen {
		n.ledger.Shut()
	}
	done := make(map[slots.Key][]*PartRecord)
	for _, r := range records {
		if r.Part != nil && !mutantRestoreParts {
			k := slots.Key{Job: r.Part.Job, Attempt: r.Part.Attempt}
			done[k] = append(done[k], r.Part)
		}
	}
	records = slices.Clone(records)
	slices.SortStableFunc(records, func(a, b Record) int {
		if a.Job == nil || b.Job == nil {
			return 0
		}
		return int(a.Job.Job) - int(b.Job.Job)
	})
	for _, r := range records {
		if r.Job != nil && n.jobs[r.Job.Job] == nil {
			n.restoreJob(now, r.Job, done[slots.Key{Job: r.Job.Job, Attempt: r.Job.Attempt}], out)
		}
	}
	for _, r := range records {
		if r.Part == nil {
			continue
		}
		if j := n.jobs[r.Part.Job]; j == nil || j.run == nil || j.attempt != r.Part.Attempt {
			out.Records = append(out.Records, Record{Key: r.Key}) // of an attempt that is over
		}
	}
	n.settle(now, out)
}

// forgetUnheard drops the ends of attached jobs whose clients had the time to
// come back for them.
func (n *Node) forgetUnheard(now time.Duration, out *Outbox) {
	if n.birth.forgets <= now-stoodStill {
		n.birth.forgets = now + ReclaimWait
		return
	}
	for _, id := range n.birth.unheard {
		out.Records = append(out.Records, Record{Key: recordKey(id)})
	}
	n.birth.unheard, n.birth.forgets = nil, filch.Never
}

// Settled takes in that every keeper of an earlier launcher was adopted or is
// gone, after [Node.Restore]: from now on the node lends its slots.
func (n *Node) Settled(now time.Duration, out *Outbox) {
	if n.birth.opens == filch.Never {
		return
	}
	n.birth.opens = filch.Never
	if !n.dead {
		n.ledger.Open(now)
	}
	for _, j := range n.sortedJobs() {
		n.lostLess(now, j, out) // of which nothing turned up
	}
	n.settle(now, out)
}

func (n *Node) restoreJob(now time.Duration, r *JobRecord, done []*PartRecord, out *Outbox) {
	if r.Ended != nil {
		n.restoreEnd(now, r)
		return
	}
	need, err := needOf(r.Request)
	if err != nil || r.Job <= 0 || r.Attempt <= 0 {
		note(out, noteError, r.Job, n.cfg.Name, "skipped a record that makes no sense: %v", err)
		return
	}
	j := n.newJob(now-r.Waited, r.Job, r.Request, need, r.Ticket.UnixNS)
	j.attempt, j.ticket, j.waited = r.Attempt, r.Ticket, r.Waited
	j.kept.hop, j.kept.orders, j.kept.earlier = r.Shared.Hop, r.Shared.Orders, r.Shared.Earlier
	j.clock.losses, j.kept.restored = r.Shared.Losses, true
	n.mark(now, j, BookPause)
	n.bePatient(j)
	if r.Arbiter != "" {
		j.step = &step{arbiter: r.Arbiter, again: now + RepeatMin, wait: RepeatMin, granted: len(r.Nodes) > 0}
	}
	if !r.Request.Detach {
		j.clock.reclaim = now + ReclaimWait
	}
	switch {
	case len(r.Nodes) > 0:
		n.rejoin(now, j, r, done, out)
	case j.step != nil:
		n.askStep(j, out)
	case len(r.Shared.Lost) > 0:
		n.fenceAgain(now, j, r.Shared.Lost, out)
	default:
		j.attempt++
		n.begin(now, j, out)
	}
	if n.jobs[j.id] == j && r.Request.Task != 0 {
		// Another task has its number by now.
		n.end(now, j, Cause{Kind: CauseCancel, Rank: -1, Text: taskGone}, sigTerm, min(FailGrace, r.Request.Policy.KillWait), out)
	}
	if n.jobs[j.id] == j {
		n.wakeJob(j, j.deadline())
	}
}

// unclaimed reports whether a job has not begun since its launcher was restarted, as
// its client is not back. Without that one nobody wants it: where the disk took
// nothing, the job may have run, and the client may have heard how it ended.
func (j *job) unclaimed() bool {
	return j.clock.reclaim != filch.Never && j.run == nil && j.step == nil
}

// bePatient lets the time that a job may wait (-I) begin anew, where it never
// started: how long it has waited is not known.
func (n *Node) bePatient(j *job) {
	if j.req.Patient > 0 && j.waited == 0 {
		j.clock.patient = j.submitted + j.req.Patient
	}
}

// rejoin asks the participants of a launched job for all that they know.
func (n *Node) rejoin(now time.Duration, j *job, rec *JobRecord, done []*PartRecord, out *Outbox) {
	r := n.newRun(j, rec.Nodes)
	j.run, j.state = r, rec.State
	opened := rec.Going || rec.Shared.Unsure
	if opened && !mutantRestoreGate {
		began := j.waited
		n.openGate(now, j)
		r.unsure = rec.Shared.Unsure && len(r.seats) > 1
		j.waited = began
		r.told = true
		j.state = filch.Running
		if rec.Began > 0 {
			r.at.began, r.at.resumed = min(now, time.Duration(rec.Began-n.cfg.Tasks.WallNS)), true
		}
	}
	r.at.prepare = now + r.prepareWait() // as when it was launched, should one never be ready
	for _, p := range done {
		if p.Index >= 0 && int(p.Index) < len(r.seats) && !r.seats[p.Index].done {
			n.restoreSeat(j, p)
		}
	}
	if r.tally.ended > 0 {
		n.armFirst(now, j)
	}
	if rec.Cause.Kind != CauseNone {
		r.cause = verdict{rec.Cause, rec.Code}
		n.halt(now, j, sigTerm, min(FailGrace, j.req.Policy.KillWait), rec.Cause.Text, out)
	} else if !opened && r.done > 0 {
		n.regate(now, j, "a participant gave up behind the gate", out)
	}
	for i := range r.seats {
		s := &r.seats[i]
		if s.done {
			continue
		}
		s.back, s.again, s.wait = now+ReadoptWait, now+RepeatMin, RepeatMin
		r.at.again = min(r.at.again, s.again)
		n.askSeat(j, i, out)
	}
	if n.remote(rec.Nodes) {
		n.renewAt = min(n.renewAt, now+RenewEvery)
	}
	if r.done == int32(len(r.seats)) {
		n.runOver(now, j, out) // the launcher died over the last word
	}
}

func (n *Node) restoreSeat(j *job, p *PartRecord) {
	r := j.run
	s, t := &r.seats[p.Index], &r.tally
	n.seatGone(r, s, PhaseDone)
	s.kept, s.lost = true, p.Lost
	s.runsFor = n.mayRunFor(j, r.launch.Nodes[p.Index].Node, false)
	r.parts = append(r.parts, p)
	r.lost = r.lost || p.Lost
	t.ended += count(r.launch.Nodes[p.Index].Ranks)
	t.high, t.srun = max(t.high, p.High), max(t.srun, p.SRun)
	t.bad = max(t.bad, p.Bad)
	if r.cause.Kind == CauseNone {
		r.cause = verdict{p.Cause, p.Code}
	}
	for _, e := range p.Ends {
		t.list = append(t.list, e)
		t.nodes = append(t.nodes, r.launch.Nodes[p.Index].Node)
	}
}

// taskGone is why a step of a task that a launcher finds when it starts is ended.
const taskGone = "the task that it is a step of ended with its launcher"

// stepsOf are the parts of steps of a job here.
func (n *Node) stepsOf(job filch.JobID) (keys []slots.Key) {
	for k, p := range n.parts { // in any order: a set
		if p.launch.Parent == job {
			keys = append(keys, k)
		}
	}
	return keys
}

// adopted takes in a keeper that outlived its launcher. Jobs come before their
// steps. What cannot be booked is ended. Where the keeper stands it says right
// after: KeeperReady, or RanksStarted, and KeeperDone.
func (n *Node) adopted(now time.Duration, ev Adopted, out *Outbox) {
	l := &ev.Start.Launch
	k := keyOf(l.Ident)
	if p := n.parts[k]; p != nil {
		return
	}
	if ev.Start.Index < 0 || int(ev.Start.Index) >= len(l.Nodes) {
		n.partFor(l.Ident, out)
		return
	}
	at := l.Nodes[ev.Start.Index]
	a := slots.Ask{Key: k, Origin: l.Origin, Base: l.Base, Each: l.Each, Want: count(at.Ranks)}
	loan := slots.Loan{
		Lease: at.Lease, Ranks: a.Want, Slots: ev.Start.Slots, GPUs: ev.Start.GPUs, MemBytes: ev.Start.Memory,
	}
	ok := false
	if parent := n.partOf(l.Parent); l.Parent != 0 && parent != nil {
		ok = n.ledger.AdoptSub(a, loan, parent.key, int32(len(ev.Ended)) >= a.Want)
	} else {
		ok = n.ledger.Adopt(a, loan, n.stepsOf(l.Ident.Job)...)
	}
	if !ok {
		note(out, noteError, k.Job, n.cfg.Name, "cannot adopt a keeper: its slots are taken")
		n.partFor(l.Ident, out)
		return
	}
	p := &part{
		key: k, launch: l, index: ev.Start.Index, lease: at.Lease, phase: PhasePreparing, ends: ev.Ended,
		again: filch.Never, due: filch.Never, flags: partFlags{open: ev.Start.Go, adopted: true, hop: l.Hop},
	}
	if len(ev.Ended) > 0 {
		p.phase = PhaseStarted
	}
	n.parts[k] = p
	n.heard(now, p)
	n.resume(now, p, ev.Start.Lease)
	n.wakePart(p, min(p.until, p.pull))
	n.report(now, p, out)
	if l.Task != 0 {
		n.stopTaskStep(p, taskGone, out)
	}
}
