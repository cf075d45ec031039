package origin

import (
	"math"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/records"
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
	need, err := NeedOf(r)
	if err == nil && r.Parent == 0 {
		even(&r.Shape, &need, func() bool { ranks, _ := need.Ceiling(o.Members); return ranks >= int64(need.Ranks) })
		if err = o.NeverFits(&need); o.ListPartial && err != nil && err.Kind == filch.NoFit {
			err = nil // the job waits for the list: see park
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
	if o.spares.fewer(j); d.MinNodes > 1 || d.Spare > 0 || !o.Allows(d, o.Cfg.Name) || d.PerNode > 0 && d.PerNode < d.Ranks {
		return false
	}
	if d.MaxNodes > 1 && d.Ranks > 1 {
		return false // a range: as many nodes as there are
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

// NeedOf fills in the open fields of a request, or returns an error in the request.
func NeedOf(r launcher.Request) (stealer.Need, *filch.Error) {
	s := r.Shape
	if err := checkShape(r); err != nil {
		return stealer.Need{}, err
	}
	d := stealer.Need{
		Ranks: s.Ranks, Each: s.PerRank, MinNodes: max(s.MinNodes, int32(len(s.Only)), 1), MaxNodes: s.MaxNodes,
		PerNode: s.PerNode, Spare: s.Spare, Nodes: s.Nodes(), Exclusive: s.Exclusive,
		Layout: s.Layout, Plane: s.Plane,
	}
	d.Base.GPUs = s.NodeGPUs
	ranks := int64(d.Ranks)
	if ranks == 0 {
		ranks = int64(d.MinNodes) * int64(max(s.PerNode, 1))
	}
	if ranks > launcher.MaxRanks {
		return d, filch.Errorf(filch.Invalid, "cannot run %d ranks: the most is %d", ranks, launcher.MaxRanks)
	}
	d.Ranks = int32(ranks)
	if all := int64(r.Pool.Each) * ranks; all > math.MaxInt32 {
		return d, filch.Errorf(filch.Invalid, "cannot take %d of %s for %s: the most is %d", all, r.Pool.Name, filch.Plural(d.Ranks, "rank"), math.MaxInt32).
			WithHint("a resource that all nodes share is counted for the whole job")
	}
	if s.Overcommit {
		// As srun does: one slot of each node, and as many ranks as wanted.
		d.Base.Slots, d.Each.Slots = 1, 0
	} else {
		d.Each.Slots = max(d.Each.Slots, 1)
	}
	if d.MinNodes > d.Ranks && len(s.Only) == 0 {
		d.MinNodes = d.Ranks
		d.MaxNodes = min(d.MaxNodes, d.Ranks)
	}
	if d.MinNodes > d.Ranks {
		return d, filch.Errorf(filch.Invalid, "cannot use each of %s for %s", filch.Plural(d.MinNodes, "node"), filch.Plural(d.Ranks, "rank"))
	}
	return d, nil
}

// even sets the most ranks per node for a job with an even layout.
func even(s *launcher.Shape, d *stealer.Need, fits func() bool) {
	if s.Even && s.PerNode == 0 {
		d.Even(fits)
		s.PerNode = d.PerNode
	}
}

func checkShape(r launcher.Request) *filch.Error {
	s := r.Shape
	neg := func(what string, v int64) *filch.Error {
		return filch.Errorf(filch.Invalid, "%s is %d, and must not be negative", what, v)
	}
	switch {
	case s.Ranks < 0:
		return neg("the number of ranks", int64(s.Ranks))
	case s.MinNodes < 0 || s.MaxNodes < 0:
		return neg("the number of nodes", int64(min(s.MinNodes, s.MaxNodes)))
	case s.Spare < 0:
		return neg("the number of spare nodes", int64(s.Spare))
	case s.Spare > launcher.MaxRanks:
		return filch.Errorf(filch.Invalid, "cannot hold %d spare nodes: the most is %d", s.Spare, launcher.MaxRanks)
	case s.Spare > 0 && r.Parent != 0:
		return filch.Errorf(filch.Invalid, "a step starts on the slots of its job, and has no spare nodes").WithHint("with --new-job the run is a job of its own")
	case s.PerNode < 0:
		return neg("the number of ranks per node", int64(s.PerNode))
	case s.PerRank.Slots < 0 || s.PerRank.MemBytes < 0 || s.PerRank.GPUs < 0:
		return neg("the slots, memory or GPUs of a rank", min(int64(s.PerRank.Slots), s.PerRank.MemBytes, int64(s.PerRank.GPUs)))
	case r.Pool.Each < 0:
		return neg("what a rank takes of "+r.Pool.Name, int64(r.Pool.Each))
	case s.NodeGPUs < 0 || s.NodeGPUs%filch.GPU != 0 || s.PerRank.GPUs > filch.GPU && s.PerRank.GPUs%filch.GPU != 0 || s.NodeGPUs > 0 && s.PerRank.GPUs > 0:
		return filch.Errorf(filch.Invalid, "%s for each node and %s for each rank: GPUs go whole to a node, or whole or in shares to a rank", local.GPUText(s.NodeGPUs), local.GPUText(s.PerRank.GPUs))
	case s.MaxNodes > 0 && s.MinNodes > s.MaxNodes:
		return filch.Errorf(filch.Invalid, "cannot use at least %d and at most %d nodes", s.MinNodes, s.MaxNodes)
	case s.MaxNodes > 0 && int(s.MaxNodes) < len(s.Only):
		return filch.Errorf(filch.Invalid, "cannot use each of %d nodes and at most %d", len(s.Only), s.MaxNodes)
	case r.Array.Most < 0 || len(r.Array.Key) > launcher.MaxArrayKey:
		return filch.Errorf(filch.Invalid, "at most %d jobs of an array %q at a time make no sense", r.Array.Most, r.Array.Key)
	case r.HeldBy != "" && r.Parent != 0:
		return filch.Errorf(filch.Invalid, "a step starts on the slots of its job, and cannot be held").WithHint("with --new-job the run is a job of its own")
	case !r.Before.None() && r.Parent != 0:
		return filch.Errorf(filch.Invalid, "a step starts on the slots of its job, and cannot wait for other jobs or for a time").WithHint("with --new-job the run is a job of its own")
	case r.Before.Singly():
		return filch.Errorf(filch.Invalid, "a run has no tasks, and cannot wait for a task with the same index")
	case len(r.Order) > launcher.MaxOrderBytes:
		return filch.Errorf(filch.Invalid, "arguments and environment take %d bytes, the most is %d", len(r.Order), launcher.MaxOrderBytes)
	}
	if err := r.Before.Check(); err != nil {
		return err
	}
	if err := s.PerRank.Named.Check(); err != nil {
		return err
	}
	if _, err := filch.ReadConstraint(string(s.Labels)); s.Labels != "" && err != nil {
		return err
	}
	for _, name := range s.Only {
		if slices.Contains(s.Exclude, name) {
			return filch.Errorf(filch.Invalid, "node %s is both required and excluded", name)
		}
	}
	return nil
}
