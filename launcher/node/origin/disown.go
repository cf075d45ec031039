package origin

import (
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/ranks"
)

// This file handles the jobs of this node whose record names another owner, or has an end
// written by another node.

// onOtherOwner handles a record of this node's job with content of another node: a
// request to cancel the job, a takeover or an end.
func (o *Origin) onOtherOwner(t *local.Turn, j *job, e *launcher.JobEntry) {
	if e.Owner == o.Cfg.Name && e.Incarnation == o.Cfg.Incarnation && e.Hop == j.kept.hop && !e.Ended() {
		if e.Cancel != nil && j.kept.cancel == nil {
			j.kept.cancel = e.Cancel
			o.cancelBy(t, j, e.Cancel.Signal, e.Cancel.By)
		}
		return
	}
	if mutantDeafOwner && !e.Ended() {
		return
	}
	t.Note(local.NoteWarn, j.id, o.Cfg.Name, "%s has taken the job over", e.Owner)
	switch {
	case !e.Ended():
		o.handOver(t, j)
	case !j.req.Detach:
		o.onRecordedLost(t, j, e)
		return
	}
	o.abandon(t, j)
}

// handOver makes this node stop answering the participants of a detached job that another
// node owns or will own: the participants report to the new owner. After HeirWait this
// node answers again and tells late participants that the job is over, in case the new
// owner missed some.
func (o *Origin) handOver(t *local.Turn, j *job) {
	given := o.handedOver
	maps.DeleteFunc(given, func(_ filch.JobID, until time.Duration) bool { return until <= t.Now })
	if j.req.Detach {
		given[j.id] = t.Now + ranks.HeirWait
	}
}

func (o *Origin) isHandedOver(t *local.Turn, id filch.JobID) bool {
	return t.Now < o.handedOver[id]
}

// abandon forgets a job that another node owns now. The job's ranks on this node wait
// for a message of the new owner.
func (o *Origin) abandon(t *local.Turn, j *job) {
	err := filch.Errorf(filch.Unavailable, "another node decides about job %d now", j.id).WithHint("filch attach %d follows it", j.id)
	o.tell(t, j, launcher.Refused{Err: *err, Code: filch.ExitOurs})
	t.Record(launcher.Record{Key: launcher.RecordKey(j.id)})
	o.forget(t, j)
	o.ranks.AwaitHeir(t, j.id)
}

// onRecordedLost ends an attached job after the record reported the job lost with this
// node: the other nodes did not see this node for a while. Queries were answered with the
// recorded end already, so the client receives the same end, and this node stops the
// ranks of the job.
func (o *Origin) onRecordedLost(t *local.Turn, j *job, e *launcher.JobEntry) {
	end := o.endings.endOfLost(e)
	if r := j.run; r != nil {
		before := r.halt.level
		o.attempts.halt(t, j, launcher.SigTerm, min(ranks.FailGrace, j.req.Policy.KillWait), end.Cause.Text)
		if r.halt.level == before {
			o.attempts.resendHalt(t, j)
		}
	}
	o.tell(t, j, launcher.Ended{Job: j.id, State: end.State, Code: end.Code, Cause: end.Cause})
	o.endings.remember(t, j, e.Told(), end)
	o.forget(t, j)
	o.returns.returnSlots(t, j)
}

func (d *endings) endOfLost(e *launcher.JobEntry) launcher.EndRecord {
	return launcher.EndRecord{State: filch.Lost, Code: *e.Info.Code, Cause: launcher.Cause{Kind: launcher.CauseNodeLost, Rank: -1, Node: d.Cfg.Name, Text: e.Info.Cause}}
}

// onRecordedEnd handles a record with another end of a job that is over on this node:
// the recorded end counts. The client of an attached job may come back later, so the
// recorded end goes to the disk for the client.
func (d *endings) onRecordedEnd(t *local.Turn, id filch.JobID, e *launcher.JobEntry) {
	p := d.past.Find(id)
	attached := p != nil && !p.Info.Detached
	d.past.Forget(id)
	if !attached || !e.Ended() {
		return
	}
	end := d.endOfLost(e)
	for _, old := range d.past.Add(e.Told(), end) {
		t.Record(launcher.Record{Key: launcher.RecordKey(old)})
	}
	if slices.Contains(d.unreceived, id) {
		r := &launcher.JobRecord{Job: id, Attempt: e.Info.Attempt, Size: e.Info.Ranks, State: end.State, Ended: &end, Request: launcher.Request{Name: e.Info.Name}}
		t.Record(launcher.Record{Key: launcher.RecordKey(id), Job: r})
	}
}

// forget forgets a job whose record belongs to another node.
func (o *Origin) forget(t *local.Turn, j *job) {
	if j.run != nil && j.run.unsent != nil {
		o.attempts.unlaunch(t, j)
	}
	o.gatherqueue.releaseHolds(t, j, nil)
	j.lined = false
	t.Record(j.participantRecords()...)
	delete(o.jobs, j.id)
	o.unreserve(t, j)
	o.endWatch(t, j)
	o.records.DropDraft(j.id)
	o.endings.dropClient(t, j)
	o.parents.onParentOver(t, j)
	o.arrays.follow(t, j)
}
