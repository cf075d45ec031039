package origin

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/ranks"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/launcher/node/request"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// restoreEnd restores an ended job. The client was already told the end of a detached
// job. If the store does not have the end, other nodes know the job as running, and would
// run the job again; so restoreEnd has the end written.
func (d *endings) restoreEnd(t *local.Turn, r *launcher.JobRecord) {
	j := &job{id: r.Job, attempt: r.Attempt, ticket: r.Ticket, req: r.Request, waited: r.Waited}
	j.need.Ranks = r.Size
	j.kept.hop, j.kept.orders, j.unlaunched = r.Shared.Hop, r.Shared.Orders, r.Shared.Idle
	i := j.info(t.Now, d.Cfg.Name, r.Ended)
	for _, at := range r.Nodes {
		i.Nodes = append(i.Nodes, at.Node)
	}
	i.Waited = seconds(r.Waited)
	d.past.Add(i, *r.Ended)
	switch {
	case !r.Request.Detach:
		d.unreceived = append(d.unreceived, r.Job)
		d.forgets = t.Now + ReclaimWait
	case !r.Shared.Kept:
		d.records.MarkEnd(t, d.origin.entry(j, i))
		d.records.EndOnDisk(j.id, r)
	}
}

// Restore restores the records of the launcher before this launcher, before any other
// input. The participants rejoin their launched jobs; waiting jobs ask again under their
// old tickets. A malformed record is noted and skipped.
func (o *Origin) Restore(now time.Duration, records []launcher.Record, out *launcher.Outbox) {
	t := o.Turn(now, out)
	o.Began, o.Opens = now, now+ranks.AdoptGrace
	o.endings.unreceived, o.endings.forgets = nil, filch.Never
	if !mutantRestoreOpen {
		o.Ledger.Shut()
	}
	done := make(map[slots.Key][]*launcher.ParticipantRecord)
	for _, r := range records {
		if r.Participant != nil && !mutantRestoreParts {
			k := slots.Key{Job: r.Participant.Job, Attempt: r.Participant.Attempt}
			done[k] = append(done[k], r.Participant)
		}
	}
	records = slices.Clone(records)
	slices.SortStableFunc(records, func(a, b launcher.Record) int {
		if a.Job == nil || b.Job == nil {
			return 0
		}
		return int(a.Job.Job) - int(b.Job.Job)
	})
	for _, r := range records {
		if r.Job != nil && o.jobs[r.Job.Job] == nil {
			o.restoreJob(t, r.Job, done[slots.Key{Job: r.Job.Job, Attempt: r.Job.Attempt}])
		}
	}
	for _, r := range records {
		if r.Participant == nil {
			continue
		}
		if j := o.jobs[r.Participant.Job]; j == nil || j.run == nil || j.attempt != r.Participant.Attempt {
			out.Records = append(out.Records, launcher.Record{Key: r.Key}) // of an ended attempt
		}
	}
	t.End()
}

// TickUnreceived drops the ends of attached jobs when their clients had enough time.
func (d *endings) TickUnreceived(t *local.Turn) {
	if d.forgets <= t.Now {
		d.forgetUnreceived(t)
	}
}

// forgetUnreceived drops the ends of attached jobs whose clients had enough time to come
// back.
func (d *endings) forgetUnreceived(t *local.Turn) {
	if d.forgets <= t.Now-stoodStill {
		d.forgets = t.Now + ReclaimWait
		return
	}
	for _, id := range d.unreceived {
		t.Record(launcher.Record{Key: launcher.RecordKey(id)})
	}
	d.unreceived, d.forgets = nil, filch.Never
}

// OnKeepersSettled starts the jobs that waited for keepers to be adopted: none was.
func (f *lostranks) OnKeepersSettled(t *local.Turn) {
	for _, j := range f.sortedJobs() {
		f.startIfNoneLost(t, j)
	}
}

func (o *Origin) restoreJob(t *local.Turn, r *launcher.JobRecord, done []*launcher.ParticipantRecord) {
	if r.Ended != nil {
		o.endings.restoreEnd(t, r)
		return
	}
	need, err := request.NeedOf(r.Request)
	if err != nil || r.Job <= 0 || r.Attempt <= 0 {
		t.Note(local.NoteError, r.Job, o.Cfg.Name, "skipped a record that makes no sense: %v", err)
		return
	}
	j := o.jobFrom(t, r, need)
	j.kept.hop, j.kept.orders, j.kept.earlier = r.Shared.Hop, r.Shared.Orders, r.Shared.Earlier
	j.kept.causes, j.kept.restored = r.Shared.Causes, true
	o.records.Mark(t, j.id, records.WritePause)
	if !r.Request.Detach {
		j.clock.reclaim = t.Now + ReclaimWait
	}
	if len(r.Nodes) > 0 {
		o.rejoin(t, j, r, done)
	} else {
		o.goOn(t, j, r.Shared.Lost)
	}
	if o.jobs[j.id] == j && r.Request.Task != 0 {
		// Another task has this task number by now.
		o.attempts.end(t, j, launcher.Cause{Kind: launcher.CauseCancel, Rank: -1, Text: ranks.TaskGone}, launcher.SigTerm, min(ranks.FailGrace, r.Request.Policy.KillWait))
	}
	if o.jobs[j.id] == j {
		o.wakeJob(j, j.deadline())
	}
}

// jobFrom makes a job of its record, for a restart and for a takeover.
func (o *Origin) jobFrom(t *local.Turn, r *launcher.JobRecord, need stealer.Need) *job {
	j := o.newJob(t.Now-r.Waited, r.Job, r.Request, need, r.Ticket.UnixNS)
	j.attempt, j.ticket, j.waited, j.clock.losses = r.Attempt, r.Ticket, r.Waited, r.Shared.Losses
	j.unlaunched, j.launched = r.Shared.Idle, r.Shared.Launched || len(r.Nodes)+len(r.Shared.Lost) > 0
	j.restartWait()
	if r.Arbiter != "" {
		j.step = &step{arbiter: r.Arbiter, again: t.Now + repeatMin, wait: repeatMin, granted: len(r.Nodes) > 0}
	}
	return j
}

// goOn continues a job of a record that was not launched when the record was written;
// lost are nodes that may still have ranks of an earlier attempt.
func (o *Origin) goOn(t *local.Turn, j *job, lost []launcher.LostParticipant) {
	switch {
	case j.step != nil:
		o.askStep(t, j)
	case len(lost) > 0:
		o.lostranks.waitForLostAgain(t, j, lost)
	default:
		j.next()
		o.begin(t, j)
	}
}

// unclaimed reports whether a job has not begun since the restart of its launcher,
// because its client is not back. Without the client nobody wants the job: if the
// disk took no writes, the job may have run already, and the client may have received
// the end.
func (j *job) unclaimed() bool {
	return j.clock.reclaim != filch.Never && j.run == nil && j.step == nil
}

// restartWait restarts the waiting time (-I) of a job that never started: the time waited
// so far is not known.
func (j *job) restartWait() {
	if j.req.Patient > 0 && j.waited == 0 {
		j.clock.patient = j.submitted + j.req.Patient
	}
}

// rejoin asks the participants of a launched job for their full state.
func (o *Origin) rejoin(t *local.Turn, j *job, rec *launcher.JobRecord, done []*launcher.ParticipantRecord) {
	r := o.attempts.newRun(j, rec.Nodes)
	j.run, j.state = r, rec.State
	o.mustReserve(t, j) // the part that the earlier owner had is lost
	o.arrays.runs(j)
	opened := rec.Going || rec.Shared.Unsure
	if opened && !mutantRestoreGate {
		began := j.waited
		o.attempts.openGate(t, j)
		r.unsure = rec.Shared.Unsure && len(r.participants) > 1
		j.waited = began
		// The client of a spawn hears of the start when the ranks are found: the launcher before
		// may have died before it gave the start to a keeper.
		r.told = j.req.Spawner == 0
		j.state = filch.Running
		if rec.Began > 0 {
			r.at.began, r.at.resumed = min(t.Now, time.Duration(rec.Began-o.Cfg.Tasks.WallNS)), true
			j.renumber(t.Now)
		}
	}
	// As after the launch, in case a participant is never ready.
	r.at.prepare = t.Now + r.prepareWait()
	for _, p := range done {
		if p.Index >= 0 && int(p.Index) < len(r.participants) && !r.participants[p.Index].done {
			o.attempts.restoreDone(j, p)
		}
	}
	if r.tally.ended > 0 {
		o.attempts.armFirst(t, j)
	}
	if rec.Cause.Kind != launcher.CauseNone {
		r.cause = verdict{rec.Cause, rec.Code}
		o.attempts.halt(t, j, launcher.SigTerm, min(ranks.FailGrace, j.req.Policy.KillWait), rec.Cause.Text)
	} else if !opened && r.done > 0 {
		o.attempts.launchAgain(t, j, "a participant gave up behind the gate")
	}
	for i := range r.participants {
		s := &r.participants[i]
		if s.done {
			continue
		}
		s.back, s.again, s.wait = t.Now+ReadoptWait, t.Now+repeatMin, repeatMin
		r.at.again = min(r.at.again, s.again)
		o.attempts.askReport(t, j, i)
	}
	if o.attempts.remote(rec.Nodes) {
		o.attempts.renewAt = min(o.attempts.renewAt, t.Now+renewEvery)
	}
	if r.done == int32(len(r.participants)) {
		o.onRunOver(t, j) // the launcher died before it handled the last end
	}
}

func (a *attempts) restoreDone(j *job, p *launcher.ParticipantRecord) {
	r := j.run
	s, t := &r.participants[p.Index], &r.tally
	a.countDone(r, s, launcher.PhaseDone)
	s.kept, s.lost = true, p.Lost
	s.runsFor = a.lost.mayRunFor(j, r.launch.Nodes[p.Index].Node, false)
	r.doneRecords = append(r.doneRecords, p)
	r.lost = r.lost || p.Lost
	t.ended += launcher.CountRanks(r.launch.Nodes[p.Index].Ranks)
	t.high, t.srun = max(t.high, p.High), max(t.srun, p.SRun)
	t.bad = max(t.bad, p.Bad)
	t.rows.Restore(p, r.launch.Nodes[p.Index].Ranks)
	if r.cause.Kind == launcher.CauseNone {
		r.cause = verdict{p.Cause, p.Code}
	}
	for _, e := range p.Ends {
		t.list = append(t.list, e)
		t.nodes = append(t.nodes, r.launch.Nodes[p.Index].Node)
	}
}
