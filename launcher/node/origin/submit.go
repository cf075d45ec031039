package origin

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/launcher/node/request"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// Submit handles a request of a local client. unixNS is the time of day, used only to
// order waiting jobs. The client receives Accepted or Refused at once.
//
// The client of a spawn whose launcher died before it answered asks again, and receives the
// job of its first request if there is one.
func (o *Origin) Submit(now time.Duration, client launcher.ClientID, r launcher.Request, unixNS int64, out *launcher.Outbox) {
	if id := o.numbering.called(&r); id != 0 && o.Reattach(now, client, id, out) == nil {
		return
	}
	t := o.Turn(now, out)
	o.submit(t, client, r, unixNS, now)
	t.End()
}

// submit makes a job of a valid request. A detached job is acknowledged, and begins, after the
// store keeps its record.
func (o *Origin) submit(t *local.Turn, client launcher.ClientID, r launcher.Request, unixNS int64, since time.Duration) {
	need, err := request.NeedOf(r)
	if err == nil && r.Parent == 0 {
		request.Even(&r.Shape, &need, func() bool { ranks, _ := need.Ceiling(o.Members); return ranks >= int64(need.Ranks) })
		if err = o.NeverFits(&need); (o.ListPartial || o.Grows) && err != nil && err.Kind == filch.NoFit {
			err = nil // the job waits for the list, or for nodes: see park
		}
	}
	if err == nil {
		err = o.walltime.fitWalltime(t, &r, &need)
	}
	if err == nil && o.numbering.comesEarly(&r) {
		o.numbering.onEarly(t, unnumbered{client: client, req: r, unixNS: unixNS, since: since})
		return
	}
	if err == nil && r.Spawner != 0 && o.ranks.LaunchIn(r.Spawner) == nil {
		err = filch.Errorf(filch.NotFound, "cannot spawn ranks for job %d: the job has no ranks on %s", r.Spawner, o.Cfg.Name)
	}
	if err == nil && r.Detach {
		err = o.records.NoRoom()
	}
	if err == nil {
		err = r.Copy.Check()
	}
	if err != nil {
		code := int32(filch.ExitOurs)
		if err.Kind == filch.Invalid {
			code = filch.ExitUsage
		}
		t.Reply(client, launcher.Refused{Err: *err, Code: code})
		return
	}
	if r.Copy != nil {
		at := *r.Copy
		at.From = o.Cfg.Name
		r.Copy = &at
	}
	if !o.records.HaveID() {
		o.numbering.unnumbered(t, unnumbered{client: client, req: r, unixNS: unixNS, since: since})
		return
	}
	j := o.newJob(since, o.records.NextID(), r, need, unixNS)
	if l := o.ranks.LaunchIn(r.Spawner); l != nil && r.Spawner != 0 {
		j.ticket.Class, j.ticket.UnixNS = l.Ticket.Class, l.Ticket.UnixNS
	}
	t.Event(events.Event{Kind: events.JobSubmitted, Job: j.id, Count: int64(need.Ranks), Reason: j.kind()})
	j.seen = audience{client: client, here: true}
	o.endings.clients[client] = append(o.endings.clients[client], j.id)
	if r.Patient > 0 && !(mutantSpawnWaits && r.Spawner != 0) {
		j.clock.patient = since + r.Patient
	}
	if r.Detach {
		o.register(t, j)
		o.wakeJob(j, j.deadline())
		return
	}
	o.tell(t, j, launcher.Accepted{Job: j.id, Size: need.Ranks})
	o.records.Mark(t, j.id, records.WritePause)
	o.begin(t, j)
}

// begin starts an attempt: as a step, here if there is room, else by a gather. A job
// without a client since its launcher's restart begins when the client is back.
func (o *Origin) begin(t *local.Turn, j *job) {
	switch {
	case j.unclaimed():
		o.keep(t, j)
	case o.awaits.mustWait(t, j):
		o.keep(t, j)
		j.sayLater(t.Now)
		j.clock.refresh = filch.Never
	case j.req.HeldBy != "":
		o.spares.giveAll(t, j)
		o.reservations.unreserve(t, j)
		o.arrays.pass(t, j)
		o.keep(t, j)
		j.sayLater(t.Now)
		j.clock.refresh = filch.Never
	case j.req.Parent != 0:
		o.beginStep(t, j)
	case !o.arrays.admits(j):
		o.keep(t, j)
	case o.mustReserve(t, j):
		o.keep(t, j)
		j.sayLater(t.Now)
	case o.spares.relaunch(t, j):
	case (len(o.gatherqueue.queue) == 0 || j.gang != 0) && o.local(t, j):
	default:
		o.keep(t, j)
		o.knot.lookFor(t, j)
		j.sayLater(t.Now)
		if !o.gatherqueue.enqueue(t, j) {
			o.gatherqueue.beginGather(t, j)
		}
		o.seek(t, j)
	}
	if o.jobs[j.id] == j {
		o.wakeJob(j, j.deadline())
	}
}

// sayLater sets when the client of a waiting job hears why the job waits.
func (j *job) sayLater(now time.Duration) {
	j.clock.say, j.clock.refresh = j.submitted+SayAfter, j.submitted+SayAfter-refreshBefore
	if j.clock.say <= now {
		j.clock.say, j.clock.refresh = now+SayEvery, now+SayEvery-refreshBefore
	}
}

// local launches a job that fits on this node, without a message.
func (o *Origin) local(t *local.Turn, j *job) bool {
	d := &j.need
	if o.spares.fewer(j); !d.Local() || !o.Allows(d, o.Cfg.Name) {
		return false
	}
	a := o.claimOf(j)
	a.Want, a.Takes = d.Ranks, o.walltime.takes(j)
	a.Ends = a.Takes > 0 && o.Cfg.Walltime.Fits(t.Now, a.Takes)
	a.Task = j.gang != 0
	loan, ok := o.Ledger.Take(t.Now, a)
	if !ok {
		return false
	}
	shares := d.Assign([]stealer.Offer{{Node: o.Cfg.Name, Lease: loan.Lease, Ranks: d.Ranks}}, o.Cfg.Name)
	o.attempts.launch(t, j, shares, &loan)
	return true
}

// claimOf returns the job's request to this node's ledger.
func (o *Origin) claimOf(j *job) slots.Ask {
	return slots.Ask{
		Key: j.key(), Of: j.req.Of.Job, Ticket: j.ticket, Origin: o.Cfg.Name, Incarnation: o.Cfg.Incarnation,
		Base: j.need.Base, Each: j.need.Each, Exclusive: j.need.Exclusive,
	}
}
