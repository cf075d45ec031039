package origin

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/node/local"
)

// ReclaimWait is how long after a restart of the launcher the client of an
// attached job may take to come back.
const ReclaimWait = 4 * time.Second

// stoodStill is the delay of a timer that shows a launcher was stopped: the messages sent
// by clients meanwhile have not been read yet.
const stoodStill = time.Second

// OnClientGone stops the attached jobs of a client.
func (o *Origin) OnClientGone(t *local.Turn, client launcher.ClientID) {
	ids := slices.Clone(o.endings.clients[client])
	delete(o.endings.clients, client)
	for _, id := range ids {
		j := o.jobs[id]
		if j == nil {
			t.Record(launcher.Record{Key: launcher.RecordKey(id)}) // the client received the end
			continue
		}
		if j.seen.client == client && j.seen.here {
			j.seen.here = false
			o.onClientLost(t, j)
		}
	}
}

func (o *Origin) onClientLost(t *local.Turn, j *job) {
	if !j.req.Detach && !(mutantSpawnStays && j.req.Spawner != 0) {
		o.attempts.end(t, j, launcher.Cause{Kind: launcher.CauseClientGone, Rank: -1, Text: "the client is gone"}, launcher.SigTerm, j.req.Policy.KillWait)
	}
}

// Cancel ends a job of this origin on request. By names the requester, "interrupt" for a
// Ctrl-C at the job's client. The ranks get sig (0: TERM), and KILL after the job's
// kill-wait; a sig of KILL is sent without a grace period.
func (o *Origin) Cancel(now time.Duration, id filch.JobID, sig int32, by string, out *launcher.Outbox) *filch.Error {
	t := o.Turn(now, out)
	j := o.jobs[id]
	if j == nil {
		return o.endings.noJob(id)
	}
	o.cancelBy(t, j, sig, by)
	t.End()
	return nil
}

func (o *Origin) cancelBy(t *local.Turn, j *job, sig int32, by string) {
	c := launcher.Cause{Kind: launcher.CauseCancel, Rank: -1, Text: "cancelled"}
	if by != "" {
		c.Text = launcher.CancelledBy + by
	}
	if by == "interrupt" {
		c.Kind, c.Text = launcher.CauseInterrupt, "interrupted"
	}
	t.Event(events.Event{Kind: events.JobCancelled, Job: j.id, Reason: c.Text})
	grace := j.req.Policy.KillWait
	switch sig {
	case 0:
		sig = launcher.SigTerm
	case launcher.SigKill:
		grace = 0
	}
	o.attempts.end(t, j, c, sig, grace)
}

func (d *endings) noJob(id filch.JobID) *filch.Error {
	if e := d.past.Find(id); e != nil {
		return filch.Errorf(filch.Busy, "job %d has ended already: %s", id, e.Info.State)
	}
	return filch.Errorf(filch.NotFound, "there is no job %d", id).WithHint("filch ps lists the jobs")
}

// Signal forwards a signal to all ranks of a job of this origin.
func (o *Origin) Signal(now time.Duration, id filch.JobID, sig int32, out *launcher.Outbox) *filch.Error {
	t := o.Turn(now, out)
	j := o.jobs[id]
	switch {
	case j == nil:
		return o.endings.noJob(id)
	case j.run == nil || !j.run.going:
		return filch.Errorf(filch.Busy, "cannot send %s to job %d: it has not started", launcher.SignalName(sig), id)
	case len(j.run.sigs) >= maxSignals:
		return filch.Errorf(filch.Busy, "cannot send %s to job %d: %d signals were sent already", launcher.SignalName(sig), id, maxSignals)
	}
	o.attempts.signalRun(t, j, sig)
	t.End()
	return nil
}

// maxSignals bounds the signals forwarded to a run.
const maxSignals = 4096

func (a *attempts) signalRun(t *local.Turn, j *job, sig int32) {
	r := j.run
	r.sigs = append(slices.Clone(r.sigs), sig)
	for i := range r.participants {
		if s := &r.participants[i]; !s.done {
			s.again = min(s.again, t.Now+repeatMin)
			r.at.again = min(r.at.again, s.again)
			a.sendSignals(t, j, i)
		}
	}
	a.wakeJob(j, j.deadline())
}

func (a *attempts) sendSignals(t *local.Turn, j *job, i int) {
	r, s := j.run, &j.run.participants[i]
	t.Send(r.launch.Nodes[i].Node, &launcher.Signals{
		Job: j.id, Attempt: j.attempt, Index: int32(i), Incarnation: a.Cfg.Incarnation, First: s.sigs, Sigs: r.sigs[s.sigs:],
	})
}

// OnSignalsAck handles the number of signals delivered by a participant.
func (a *attempts) OnSignalsAck(t *local.Turn, m *launcher.SignalsAck) {
	j := a.jobs[m.Job]
	if j == nil || j.run == nil || j.attempt != m.Attempt || m.Incarnation != a.Cfg.Incarnation || m.Index < 0 || int(m.Index) >= len(j.run.participants) {
		return
	}
	s := &j.run.participants[m.Index]
	s.sigs = max(s.sigs, min(m.Have, int32(len(j.run.sigs))))
}

// Reattach makes a client the owner of a job again after a restart of the launcher, and
// sends the client the events so far.
func (o *Origin) Reattach(now time.Duration, client launcher.ClientID, id filch.JobID, out *launcher.Outbox) *filch.Error {
	t := o.Turn(now, out)
	j := o.jobs[id]
	if j == nil {
		return o.endings.sendEnd(t, client, id)
	}
	if j.seen.here && j.seen.client != client {
		return filch.Errorf(filch.Busy, "cannot take job %d over: the client of the job is still connected", id)
	}
	waits := j.unclaimed() && j.clock.lostUntil == filch.Never
	j.seen.client, j.seen.here = client, true
	j.clock.reclaim = filch.Never
	o.endings.clients[client] = append(o.endings.clients[client], id)
	o.sendState(t, j, client)
	switch {
	case !waits:
	case o.Opens != filch.Never: // a keeper of a forgotten launch may still turn up
		j.clock.lostUntil = o.Opens
		o.wakeJob(j, j.deadline())
	default:
		o.begin(t, j)
		t.End()
	}
	return nil
}

// sendState sends a client the events that describe the current state of a job.
func (o *Origin) sendState(t *local.Turn, j *job, client launcher.ClientID) {
	say := func(e launcher.Event) {
		t.Out.Replies = append(t.Out.Replies, launcher.Reply{Client: client, Event: e})
	}
	say(launcher.Accepted{Job: j.id, Size: j.need.Ranks})
	if r := j.run; r != nil {
		if j.step != nil {
			say(launcher.Granted{Job: j.id, Step: r.launch.Step})
		}
		if r.told {
			say(launcher.Started{Job: j.id, Size: j.need.Ranks, Nodes: r.launch.Nodes, Waited: j.waited, Attempt: j.attempt})
		}
		if r.halt.level > 0 && r.cause.Kind != launcher.CauseNone {
			say(launcher.Ending{Job: j.id, Text: r.cause.Text})
		}
	}
}

// sendEnd sends a client the last event of a job that is over.
func (d *endings) sendEnd(t *local.Turn, client launcher.ClientID, id filch.JobID) *filch.Error {
	p := d.past.Find(id)
	if p == nil {
		return d.noJob(id)
	}
	e := p.End
	t.Reply(client, launcher.Ended{Job: id, State: e.State, Code: e.Code, Cause: e.Cause, Ranks: e.Ranks, Bad: e.Bad})
	return nil
}
