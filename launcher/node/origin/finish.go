package origin

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/records"
)

// onRunOver ends an attempt with no rank left anywhere. The job starts again if a requeue
// was asked for or if no rank ever began; otherwise the job is over.
func (o *Origin) onRunOver(t *local.Turn, j *job) {
	r := j.run
	switch {
	case r.requeued():
		o.spares.giveAll(t, j)
		o.tell(t, j, launcher.Ending{Job: j.id, Text: r.cause.Text})
		o.lostranks.requeue(t, j)
	case r.gate && (j.clock.gates < maxGates || j.step != nil):
		j.clock.gates++
		o.spares.giveAll(t, j)
		o.again(t, j)
	case r.lost && !r.halt.user && j.req.Policy.Requeue && r.cause.Kind == launcher.CauseNodeLost && j.clock.losses < MaxAttempts-1:
		j.clock.losses++
		if j.req.Detach { // its client, which waits, is told
			j.kept.causes = append(slices.Clip(j.kept.causes), launcher.LostAttempt{Attempt: j.try(), Node: r.cause.Node})
		}
		o.tell(t, j, launcher.Ending{Job: j.id, Text: r.cause.Text + "; starting again"})
		o.spares.retain(j)
		o.lostranks.requeue(t, j)
	default:
		if r.gate && r.cause.Kind == launcher.CauseNone {
			r.cause = verdict{launcher.Cause{Kind: launcher.CauseOurs, Rank: -1, Text: fmt.Sprintf("cannot launch job %d: %s, %d times", j.id, r.halt.reason, maxGates)}, filch.ExitOurs}
		}
		if r.going && !r.told && r.tally.ended > 0 {
			o.attempts.tellStarted(t, j)
		}
		o.finish(t, j, j.verdict())
	}
}

// again starts another attempt under the same ticket.
func (o *Origin) again(t *local.Turn, j *job) {
	j.pastAttempt(t, o.Cfg.Name)
	gone := j.participantRecords()
	j.pastNodes()
	j.run, j.state = nil, filch.Waiting
	j.next()
	o.begin(t, j)
	t.Record(gone...)
}

// verdict returns how a run ended.
func (j *job) verdict() launcher.EndRecord {
	r := j.run
	t, v := &r.tally, r.cause
	if v.Kind == launcher.CauseNone {
		v = t.told
	}
	if v.Kind == launcher.CauseNone && t.ended < j.need.Ranks {
		v = verdict{launcher.Cause{Kind: launcher.CauseOurs, Rank: -1, Text: fmt.Sprintf("the ends of %d of %s are not known", j.need.Ranks-t.ended, filch.Plural(j.need.Ranks, "rank"))}, filch.ExitOurs}
	}
	if v.Kind == launcher.CauseNone {
		v.Rank = -1
	}
	state := v.Kind.State()
	if v.Kind == launcher.CauseAbort && v.code == 0 {
		state = filch.OK
	}
	if t.refs > 1 {
		v.Text += fmt.Sprintf(" (and on %d more nodes)", t.refs-1)
	}
	e := launcher.EndRecord{State: state, Code: v.code, Cause: v.Cause, Ranks: t.list, Bad: t.bad, Usage: t.rows.Sum, Rows: t.rows.Encode(r.launch.Nodes)}
	if j.req.Policy.HighestRC {
		e.Code = t.srun
		if e.Code == 0 && v.Kind != launcher.CauseNone {
			e.Code = 1
		}
	}
	return e
}

// finish ends a job: the client receives the end, and a bounded memory keeps the end for
// later queries.
func (o *Origin) finish(t *local.Turn, j *job, e launcher.EndRecord) {
	last := launcher.Ended{Job: j.id, State: e.State, Code: e.Code, Cause: e.Cause, Ranks: e.Ranks, Bad: e.Bad}
	o.dismiss(t, j, e, last)
}

// dismiss ends a job with the given last event.
func (o *Origin) dismiss(t *local.Turn, j *job, e launcher.EndRecord, last launcher.Event) {
	if j.gang != 0 {
		o.Gangs.dismiss(t, j, e)
		return
	}
	o.tell(t, j, last)
	j.state = e.State
	info := j.info(t.Now, o.Cfg.Name, &e)
	o.records.MarkEnd(t, o.entry(j, info))
	o.walltime.learnRun(t, j, &info, &e)
	o.endings.remember(t, j, info, e)
	t.Past(info, false)
	t.Record(j.participantRecords()...)
	delete(o.jobs, j.id)
	o.spares.giveAll(t, j)
	o.unreserve(t, j)
	o.endWatch(t, j)
	o.endings.dropClient(t, j)
	o.returns.returnSlots(t, j)
	o.parents.onParentOver(t, j)
	o.arrays.follow(t, j)
}

// endings holds the ended jobs of this origin: a bounded memory of them for later
// queries, and which client may not have received which end.
type endings struct {
	*joblist
	records *records.Records
	origin  entryWriter
	past    local.Past
	// Of live jobs, and of ended jobs whose end the client may not have received.
	clients map[launcher.ClientID][]filch.JobID
	// Ended under the launcher before, and their clients may not know.
	unreceived []filch.JobID
	forgets    time.Duration // when unreceived is given up
}

// entryWriter makes the entry for the record of a job.
type entryWriter interface {
	entry(j *job, i launcher.JobInfo) *launcher.JobEntry
}

// remember keeps the end of a job for later queries, and on the disk in case this
// launcher dies before the client has received the end.
func (d *endings) remember(t *local.Turn, j *job, info launcher.JobInfo, e launcher.EndRecord) {
	for _, id := range d.past.Add(info, e) {
		t.Record(launcher.Record{Key: launcher.RecordKey(id)})
	}
	switch {
	case j.req.Detach || j.seen.here:
		d.keepEnd(t, j, e)
	case j.clock.reclaim != filch.Never:
		d.keepEnd(t, j, e)
		d.unreceived, d.forgets = append(d.unreceived, j.id), t.Now+ReclaimWait
	default:
		t.Record(launcher.Record{Key: launcher.RecordKey(j.id)})
	}
}

// MaxUnreceived bounds the ended jobs of a client whose records are kept in case the
// launcher dies before the client received their ends.
const MaxUnreceived = 16

// dropClient forgets the client of a job. The client of an attached job may not have
// received the end yet: the record of the end is removed with the client, or after enough
// later jobs of this client ended.
func (d *endings) dropClient(t *local.Turn, j *job) {
	c, drop := j.seen.client, j.id
	if j.seen.here && !j.req.Detach {
		drop = d.oldestReceived(c)
		if drop == 0 {
			return
		}
		t.Record(launcher.Record{Key: launcher.RecordKey(drop)})
	}
	ids := slices.DeleteFunc(d.clients[c], func(id filch.JobID) bool { return id == drop })
	if len(ids) == 0 {
		delete(d.clients, c)
		return
	}
	d.clients[c] = ids
}

// oldestReceived returns the first of a client's ended jobs when there are too many.
func (d *endings) oldestReceived(c launcher.ClientID) filch.JobID {
	first, k := filch.JobID(0), 0
	for _, id := range d.clients[c] {
		if d.jobs[id] == nil {
			k++
			if first == 0 {
				first = id
			}
		}
	}
	if k <= MaxUnreceived {
		return 0
	}
	return first
}
