package origin

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/records"
)

// pastNodes remembers the nodes of an attempt that is given up.
func (j *job) pastNodes() {
	if j.run == nil || !j.run.going || !j.req.Detach {
		return
	}
	for _, at := range j.run.launch.Nodes {
		if len(j.kept.earlier) < maxEarlier && !slices.Contains(j.kept.earlier, at.Node) {
			j.kept.earlier = append(slices.Clip(j.kept.earlier), at.Node)
		}
	}
}

// kept is the owner's state about the record of a job.
type kept struct {
	hop        int32
	seq        uint64
	orders     int32
	cancel     *launcher.CancelOrder      // asked for by the record
	watch      uint64                     // of the record, for a cancel
	unrecorded bool                       // not recorded yet, so not acknowledged
	lost       []launcher.LostParticipant // where ranks of the job may still run

	restored bool // by a restarted launcher, which may have forgotten a launch

	earlier []filch.NodeName // nodes of earlier attempts, with output of the job
	causes  []launcher.LostAttempt
}

// register writes the record of a new detached job with the job's order. The job is
// acknowledged, and begins, when the store has both.
func (o *Origin) register(t *local.Turn, j *job) {
	j.kept.unrecorded = true
	j.kept.orders = int32((len(j.req.Order) + orderPiece - 1) / orderPiece)
	j.clock.say = j.submitted + SayAfter
	o.records.Commit(t, j.id, func(t *local.Turn) {
		if o.jobs[j.id] != j || !j.kept.unrecorded {
			return
		}
		j.kept.unrecorded, j.clock.say = false, filch.Never
		o.tell(t, j, launcher.Accepted{Job: j.id, Size: j.need.Ranks})
		o.keep(t, j)
		o.begin(t, j)
	})
}

// orderOps returns the operations that write the order of an unregistered job.
func (j *job) orderOps() (ops []dht.Op) {
	for i := range j.kept.orders {
		piece := j.req.Order[int(i)*orderPiece:]
		ops = append(ops, dht.Op{
			Code: dht.OpInsert, Key: launcher.OrderKey(j.id, i), Kind: dht.KindRegister,
			Value: piece[:min(len(piece), orderPiece)], Durable: j.req.Durable,
		})
	}
	return ops
}

// entry returns the next record of a job of this node.
func (o *Origin) entry(j *job, i launcher.JobInfo) *launcher.JobEntry {
	j.kept.seq++
	e := &launcher.JobEntry{
		Hop: j.kept.hop, Owner: o.Cfg.Name, Incarnation: o.Cfg.Incarnation, Seq: j.kept.seq, Info: i, Orders: j.kept.orders,
	}
	if j.req.Detach && i.Code == nil {
		e.Cancel = j.kept.cancel
		r := o.jobRecord(j)
		r.Request.Order = nil
		if j.run != nil && !mutantEntryParts {
			r.Shared.Done = j.run.doneRecords
		}
		e.Resume = r
	}
	return e
}

// OnRecorded watches the record of a detached job, so the owner gets a cancel that was
// recorded while the owner did not answer.
func (o *Origin) OnRecorded(t *local.Turn, id filch.JobID, from dht.Version) {
	j := o.jobs[id]
	if j == nil || !j.req.Detach || j.kept.watch != 0 {
		return
	}
	j.kept.watch = o.records.Watch(t, launcher.JobKey(id), from, func(t *local.Turn, r dht.Result) {
		if r.Outcome != dht.Done || o.jobs[id] != j {
			return
		}
		if e, err := launcher.DecodeJobEntry(r.Value); err == nil && e.Cancel != nil && e.Owner == o.Cfg.Name && e.Hop == j.kept.hop {
			o.onOtherOwner(t, j, e)
		}
	})
}

func (o *Origin) endWatch(t *local.Turn, j *job) {
	if j.kept.watch != 0 {
		o.records.Unwatch(t, j.kept.watch)
		j.kept.watch = 0
	}
}

// OnUnkeepable ends a job that waits for a record the store can never keep.
func (o *Origin) OnUnkeepable(t *local.Turn, id filch.JobID, why string) {
	j := o.jobs[id]
	switch {
	case j == nil:
	case j.kept.unrecorded:
		o.refuse(t, j, filch.Errorf(filch.Invalid, "cannot store the record of job %d: %s", id, why))
	case j.run != nil && j.run.unsent != nil:
		o.attempts.end(t, j, launcher.Cause{Kind: launcher.CauseOurs, Rank: -1, Text: "cannot store the record of the job: " + why}, launcher.SigTerm, 0)
	}
}

// OnOverruled handles the entry that counts in place of an entry written by this node,
// and reports whether the job still belongs to this node. OnDisk is whether the disk of
// this node has an end of the job.
func (o *Origin) OnOverruled(t *local.Turn, e *launcher.JobEntry, id filch.JobID, onDisk bool) (ours bool) {
	if j := o.jobs[id]; j != nil {
		o.onOtherOwner(t, j, e)
		return o.jobs[id] == j
	}
	if e.Owner != o.Cfg.Name {
		o.endings.onRecordedEnd(t, id, e)
		if onDisk {
			t.Record(launcher.Record{Key: launcher.RecordKey(id)})
		}
	}
	return false
}

// HasJob reports whether a job belongs to this origin and has not ended, HasEnded whether
// the end of a job is remembered.
func (s *joblist) HasJob(id filch.JobID) bool   { return s.jobs[id] != nil }
func (d *endings) HasEnded(id filch.JobID) bool { return d.past.Find(id) != nil }

// RecordOf returns the record to write of a job, nil of an unknown job. Order has the
// operations that write the order of an unregistered job.
func (o *Origin) RecordOf(now time.Duration, id filch.JobID) (e *launcher.JobEntry, durable bool, order *[]dht.Op) {
	j := o.jobs[id]
	if j == nil {
		return nil, false, nil
	}
	if j.kept.unrecorded {
		ops := j.orderOps()
		order = &ops
	}
	return o.entry(j, o.explainer.liveInfo(now, j)), j.req.Durable, order
}

// keep records the state of a job. The records of tasks have the state of a gang.
func (o *Origin) keep(t *local.Turn, j *job) {
	if j.gang != 0 {
		return
	}
	o.records.Mark(t, j.id, records.WritePause)
	t.Record(launcher.Record{Key: launcher.RecordKey(j.id), Job: o.jobRecord(j)})
}

func (o *Origin) jobRecord(j *job) *launcher.JobRecord {
	r := &launcher.JobRecord{
		Job: j.id, Attempt: j.attempt, Ticket: j.ticket, Request: j.req, Size: j.need.Ranks, State: j.state, Waited: j.waited,
		Shared: launcher.SharedRecord{Hop: j.kept.hop, Orders: j.kept.orders, Earlier: j.kept.earlier, Causes: j.kept.causes, Losses: j.clock.losses, Idle: j.unlaunched, Launched: j.launched},
	}
	if j.clock.lostUntil != filch.Never {
		r.Shared.Lost = j.kept.lost
	}
	if j.step != nil {
		r.Arbiter = j.step.arbiter
	}
	if j.run != nil {
		r.Nodes, r.Going, r.Shared.Unsure = j.run.launch.Nodes, j.run.going && !j.run.unsure, j.run.unsure
		r.Cause, r.Code = j.run.cause.Cause, j.run.cause.code
		if j.run.going {
			r.Began = o.Cfg.Tasks.WallNS + int64(j.run.at.began)
		}
	}
	return r
}

// keepEnd records the end of a job: of a detached job for later queries, of an attached
// job until the client has gone.
func (d *endings) keepEnd(t *local.Turn, j *job, e launcher.EndRecord) {
	r := &launcher.JobRecord{Job: j.id, Attempt: j.attempt, Ticket: j.ticket, Size: j.need.Ranks, State: e.State, Waited: j.waited, Ended: &e}
	r.Request = launcher.Request{Name: j.req.Name, Detach: j.req.Detach, Parent: j.req.Parent}
	r.Shared.Hop, r.Shared.Orders, r.Shared.Idle = j.kept.hop, j.kept.orders, j.unlaunched
	if j.run != nil {
		r.Nodes = j.run.launch.Nodes
	}
	d.records.EndOnDisk(j.id, r)
	t.Record(launcher.Record{Key: launcher.RecordKey(j.id), Job: r})
}

func (j *job) participantKey(i int) string {
	return fmt.Sprintf("job/%d/%d/%d", j.id, j.attempt, i)
}

// recordDone records a participant as done, before the participant may forget its ends.
func (a *attempts) recordDone(t *local.Turn, j *job, i int) {
	if len(j.run.participants) < 2 || j.gang != 0 {
		return
	}
	tally, node := &j.run.tally, j.run.launch.Nodes[i].Node
	r := &launcher.ParticipantRecord{Job: j.id, Attempt: j.attempt, Index: int32(i), Lost: j.run.participants[i].lost, Bad: tally.bad, High: tally.high, SRun: tally.srun}
	tally.rows.Keep(r, j.run.launch.Nodes[i].Ranks)
	r.Cause, r.Code = j.run.cause.Cause, j.run.cause.code
	for k := range tally.list {
		if tally.nodes[k] == node {
			r.Ends = append(r.Ends, tally.list[k])
		}
	}
	j.run.participants[i].kept = true
	j.run.doneRecords = append(j.run.doneRecords, r)
	t.Record(launcher.Record{Key: j.participantKey(i), Participant: r})
}

// participantRecords returns the removals of the records of an attempt's participants. The
// removals go after the job's own record with the end of the attempt: otherwise, a
// launcher that dies in between would take a participant for lost.
func (j *job) participantRecords() (gone []launcher.Record) {
	if j.run == nil {
		return nil
	}
	for i := range j.run.participants {
		if j.run.participants[i].kept {
			gone = append(gone, launcher.Record{Key: j.participantKey(i)})
		}
	}
	return gone
}

// orderPiece is the size of the pieces of an order, each in a record of its own.
const orderPiece = 128 << 10

// maxEarlier bounds the remembered nodes of earlier attempts.
const maxEarlier = 256
