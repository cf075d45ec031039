package origin

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/launcher/node/request"
)

// Inherit continues a job that this node took over.
func (o *Origin) Inherit(t *local.Turn, e *launcher.JobEntry, order []byte, fault *filch.Error) {
	id, r := e.Info.ID, e.Resume
	r.Request.Order = order
	need, err := request.NeedOf(r.Request)
	if o.jobs[id] != nil || err != nil || r.Job != id || r.Attempt <= 0 {
		return
	}
	o.records.SawID(id)
	j := o.jobFrom(t, r, need)
	j.kept = kept{hop: e.Hop, seq: e.Seq, orders: e.Orders, earlier: r.Shared.Earlier, causes: r.Shared.Causes, cancel: e.Cancel}
	runs := len(r.Nodes) > 0 && !mutantHeirAnew
	if !runs {
		o.keep(t, j)
	}
	switch {
	case runs:
		j.req.Policy.Requeue = j.req.Policy.Requeue && fault == nil
		o.inheritRun(t, j, e)
	case fault == nil:
		o.goOn(t, j, r.Shared.Lost)
	}
	if o.jobs[id] != j {
		return
	}
	switch {
	case e.Cancel != nil:
		o.cancelBy(t, j, e.Cancel.Signal, e.Cancel.By)
	case fault != nil && j.run == nil:
		o.refuse(t, j, fault)
	}
	if o.jobs[id] == j {
		o.records.Mark(t, j.id, records.WritePause)
		o.wakeJob(j, j.deadline())
	}
}

// inheritRun continues the launched attempt of a job that this node took over.
func (o *Origin) inheritRun(t *local.Turn, j *job, e *launcher.JobEntry) {
	r := e.Resume
	r.Shared.Unsure = !r.Going // the record may be older than the gate's opening
	o.rejoin(t, j, r, r.Shared.Done)
	if j.run == nil || j.attempt != r.Attempt {
		return
	}
	// How long the attempt has run since the record was written is not known.
	j.run.at.began, j.run.at.resumed = t.Now-time.Duration(e.Info.Elapsed*float64(time.Second)), true
	j.renumber(t.Now)
	o.keep(t, j)
	for _, p := range j.run.doneRecords { // the participants have forgotten their ends
		t.Record(launcher.Record{Key: j.participantKey(int(p.Index)), Participant: p})
	}
	o.attempts.giveUpDead(t, j)
}

// giveUpDead gives up the ranks of a job on nodes that are dead.
func (a *attempts) giveUpDead(t *local.Turn, j *job) {
	for _, at := range slices.Clone(j.run.launch.Nodes) {
		i := a.Members.Find(at.Node)
		if i < 0 || a.jobs[j.id] != j || j.run == nil {
			continue
		}
		if m := a.Members.At(i); m.Standing >= filch.Dead {
			a.onParticipantsLost(t, j, at.Node, deadText(m.Standing))
		}
	}
}

// askReport asks a participant for a full report. After a takeover, the request names this
// node as the new origin.
func (a *attempts) askReport(t *local.Turn, j *job, i int) {
	to := j.run.launch.Nodes[i].Node
	if j.kept.hop > 0 {
		t.Send(to, &launcher.TakeOver{Job: j.id, Attempt: j.attempt, Index: int32(i), Lease: j.run.launch.Nodes[i].Lease, Hop: j.kept.hop})
		return
	}
	t.Send(to, &launcher.ProgressAck{Job: j.id, Attempt: j.attempt, Index: int32(i), Again: true})
}
