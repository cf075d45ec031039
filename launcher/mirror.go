package launcher

import (
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/mtc"
)

// MirrorEvery is how far a mirror is behind at most, beside the time that its
// file system takes.
const MirrorEvery = time.Second

// mirror is this node's part in the mirror of the queue: it says what becomes of
// the records of tasks' jobs whose primary is here.
type mirror struct {
	lines *mtc.Mirror                // nil: the queue is not mirrored
	due   map[string]dht.HomedRecord // changed since
	at    time.Duration
}

func (m *mirror) init(on bool) {
	m.at = filch.Never
	if on {
		m.lines, m.due = mtc.NewMirror(), make(map[string]dht.HomedRecord)
	}
}

// mirrorChanges notes what changed. What a client was told that it is kept goes
// at once.
func (n *Node) mirrorChanges(now time.Duration, changed []dht.HomedRecord) {
	m := &n.work.mirror
	for _, r := range changed {
		key := string(r.Key)
		m.due[key] = r
		m.at = min(m.at, now+MirrorEvery)
		if m.lines.Urgent(key, r.Value) {
			m.at = now
		}
	}
}

// mirrorHomed has all said that is homed here: where this node's file says it
// already, nothing is written.
func (n *Node) mirrorHomed(now time.Duration) {
	m := &n.work.mirror
	if m.lines == nil {
		return
	}
	for r := range n.meta.store.Homed(mtc.Prefix) {
		m.due[string(r.Key)] = r
		m.at = min(m.at, now+MirrorEvery)
	}
}

// MirrorAgain has all said once more: what was put out is lost.
func (n *Node) MirrorAgain(now time.Duration) {
	if n.work.mirror.lines != nil {
		n.work.mirror.lines = mtc.NewMirror()
		n.mirrorHomed(now)
	}
}

// FlushMirror puts out what the mirror lacks.
func (n *Node) FlushMirror(out *Outbox) {
	if n.work.mirror.lines == nil {
		return
	}
	m := &n.work.mirror
	m.at = filch.Never
	for _, key := range slices.Sorted(maps.Keys(m.due)) {
		out.Mirror = m.lines.Append(out.Mirror, key, m.due[key].Value)
	}
	clear(m.due)
}

// Resumption is what came of a job that is to go on.
type Resumption struct {
	Job filch.JobID
	Err *filch.Error // nil: all of it is recorded, and it goes on
}

// resumes are the jobs that go on here, one after the other: a job may wait for
// one before it.
type resumes struct {
	jobs []*mtc.Remnant
	done []Resumption
	then func([]Resumption)
}

// ResumeTasks goes on with jobs of an instance that is no more, under their own
// ids, at most [Config.After] of all nodes; then is called once all
// of them are recorded, or refused.
func (n *Node) ResumeTasks(now time.Duration, jobs []*mtc.Remnant, then func([]Resumption), out *Outbox) {
	switch {
	case n.work.resumes.then != nil:
		all := make([]Resumption, len(jobs))
		for i, r := range jobs {
			all[i] = Resumption{r.ID, filch.Errorf(filch.Busy, "%s goes on with a queue already", n.cfg.Name)}
		}
		then(all)
		return
	case len(jobs) == 0:
		then(nil)
		return
	}
	for _, r := range jobs {
		if r.Spec != nil && r.Spec.Expect > 0 {
			n.work.core.Learn(r.Spec.Like, r.Spec.Expect)
		}
	}
	n.work.resumes = resumes{jobs: jobs, then: then}
	n.resumeNext(now, out)
	n.settle(now, out)
}

// resumeNext restores the next job, or says that this was the last.
func (n *Node) resumeNext(now time.Duration, out *Outbox) {
	q := &n.work.resumes
	for len(q.jobs) > 0 {
		r := q.jobs[0]
		err := n.tasks(now).Restore(now, r, &n.work.out)
		if err == nil {
			return // told when it is recorded
		}
		q.jobs = q.jobs[1:]
		q.done = append(q.done, Resumption{r.ID, filch.Errorf(filch.Invalid, "cannot go on with job %d: %s", r.ID, err.Error())})
	}
	if then := q.then; then != nil {
		done := q.done
		*q = resumes{}
		then(done)
	}
}

// resumesEnd says of the jobs that were to go on here, and are not recorded yet,
// that they do not: the core that was asked for them is no more.
func (n *Node) resumesEnd() {
	q := n.work.resumes
	n.work.resumes = resumes{}
	for _, r := range q.jobs {
		q.done = append(q.done, Resumption{r.ID, filch.Errorf(filch.Unavailable, "%s was declared dead before job %d was recorded", n.cfg.Name, r.ID)})
	}
	if q.then != nil {
		q.then(q.done)
	}
}

// resumed takes in what the core says of a job that goes on; false: it is none,
// or it goes on already.
func (n *Node) resumed(now time.Duration, t *mtc.Tell, out *Outbox) bool {
	q := &n.work.resumes
	if len(q.jobs) == 0 || q.jobs[0].ID != t.Job || t.What != mtc.TellAccepted && t.What != mtc.TellRefused {
		return false
	}
	q.jobs = q.jobs[1:]
	q.done = append(q.done, Resumption{t.Job, t.Error})
	n.resumeNext(now, out)
	return true
}
