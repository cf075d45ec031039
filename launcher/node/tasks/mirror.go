package tasks

import (
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/report"
)

// MirrorEvery is how far a mirror is behind at most, besides the time needed by the file
// system.
const MirrorEvery = time.Second

// mirror is this node's part in the mirror of the queue: mirror writes the changes of
// task job records whose primary is here.
type mirror struct {
	*local.Self
	records *records.Records

	lines *queue.Mirror                // nil: the queue is not mirrored
	due   map[string]store.HomedRecord // changed since
	at    time.Duration
}

func newMirror(s *local.Self, r *records.Records) *mirror {
	m := &mirror{Self: s, records: r, at: filch.Never}
	if s.Cfg.Tasks.Mirror {
		m.lines, m.due = queue.NewMirror(), make(map[string]store.HomedRecord)
	}
	return m
}

// OnChanged collects changed records homed here. A record already acknowledged to a
// client is written at once.
func (m *mirror) OnChanged(t *local.Turn, changed []store.HomedRecord) {
	for _, r := range changed {
		key := string(r.Key)
		m.due[key] = r
		m.at = min(m.at, t.Now+MirrorEvery)
		if m.lines.Urgent(key, r.Value) {
			m.at = t.Now
		}
	}
}

// OnRehomed handles a change in the set of records homed here.
func (w *Tasks) OnRehomed(t *local.Turn) {
	w.mirrorHomed(t.Now)
	w.ready(t).Rehomed(t.Now)
}

// mirrorHomed marks all records homed here as changed. Records already in this node's
// file are not written a second time.
func (m *mirror) mirrorHomed(now time.Duration) {
	if m.lines == nil {
		return
	}
	for r := range m.records.Homed(record.Prefix) {
		m.due[string(r.Key)] = r
		m.at = min(m.at, now+MirrorEvery)
	}
}

// MirrorAgain writes all records once more: the mirror's earlier output is lost.
func (m *mirror) MirrorAgain(now time.Duration) {
	if m.lines != nil {
		m.lines = queue.NewMirror()
		m.mirrorHomed(now)
	}
}

// FlushMirror appends the lines missing from the mirror to the outbox.
func (m *mirror) FlushMirror(out *launcher.Outbox) {
	if m.lines == nil {
		return
	}
	m.at = filch.Never
	for _, key := range slices.Sorted(maps.Keys(m.due)) {
		out.Mirror = m.lines.Append(out.Mirror, key, m.due[key].Value)
	}
	clear(m.due)
}

// resumes are the jobs to be resumed here, in sequence: a job may wait for an earlier
// job.
type resumes struct {
	jobs []*queue.RecoveredJob
	done []launcher.Resumption
	then func([]launcher.Resumption)
}

// ResumeTasks resumes jobs of an ended instance under their own ids, at most
// [Config.After] of all nodes. After each job is recorded or refused, ResumeTasks calls
// then.
func (w *Tasks) ResumeTasks(now time.Duration, jobs []*queue.RecoveredJob, then func([]launcher.Resumption), out *launcher.Outbox) {
	t := w.Turn(now, out)
	switch {
	case w.resumes.then != nil:
		all := make([]launcher.Resumption, len(jobs))
		for i, r := range jobs {
			all[i] = launcher.Resumption{Job: r.ID, Err: filch.Errorf(filch.Busy, "%s already continues a queue", w.Cfg.Name)}
		}
		then(all)
		return
	case len(jobs) == 0:
		then(nil)
		return
	}
	for _, r := range jobs {
		if r.Spec != nil && r.Spec.Expect > 0 {
			w.core.Learn(r.Spec.Like, r.Spec.Expect)
		}
	}
	w.resumes = resumes{jobs: jobs, then: then}
	w.resumeNext(t)
	t.End()
}

// resumeNext restores the next job, or reports the results after the last job.
func (w *Tasks) resumeNext(t *local.Turn) {
	q := &w.resumes
	for len(q.jobs) > 0 {
		r := q.jobs[0]
		err := w.ready(t).Restore(t.Now, r, &w.out)
		if err == nil {
			return // the core sends a Tell when the job is recorded
		}
		q.jobs = q.jobs[1:]
		q.done = append(q.done, launcher.Resumption{Job: r.ID, Err: filch.Errorf(filch.Invalid, "cannot continue job %d: %s", r.ID, err.Error())})
	}
	if then := q.then; then != nil {
		done := q.done
		*q = resumes{}
		then(done)
	}
}

// resumesEnd reports failure for the jobs to be resumed here and not recorded yet: the
// core asked to restore them is gone.
func (w *Tasks) resumesEnd() {
	q := w.resumes
	w.resumes = resumes{}
	for _, r := range q.jobs {
		q.done = append(q.done, launcher.Resumption{Job: r.ID, Err: filch.Errorf(filch.Unavailable, "%s was declared dead before job %d was recorded", w.Cfg.Name, r.ID)})
	}
	if q.then != nil {
		q.then(q.done)
	}
}

// onResumed handles the core's answer for a job to be resumed. false: the Tell is not for
// such a job, or the job is resumed already.
func (w *Tasks) onResumed(t *local.Turn, told *report.Tell) bool {
	q := &w.resumes
	if len(q.jobs) == 0 || q.jobs[0].ID != told.Job || told.What != report.TellAccepted && told.What != report.TellRefused {
		return false
	}
	q.jobs = q.jobs[1:]
	q.done = append(q.done, launcher.Resumption{Job: told.Job, Err: told.Error})
	w.resumeNext(t)
	return true
}
