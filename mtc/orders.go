package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// orderly makes a node follow the orders about jobs.
type orderly struct {
	*turn
	core *Core
}

func (o *orderly) init(c *Core) { o.core, o.turn = c, &c.turn }

// Order cancels tasks of a bag, or holds or releases a job of tasks: see
// [record.JobOrder].
func (c *Core) Order(now time.Duration, id filch.JobID, o record.Orders, out *Out) {
	c.enter(now, out)
	j := c.job(id)
	o.Cancels = record.JoinPicks(slices.Clone(o.Cancels))
	c.commits.merge(record.KeyJob(id), record.RecordJob, record.EncodeJobOp(record.JobOp{Kind: record.JobOrder, Orders: o}), func(a record.Answer) {
		if _, rec, err := record.DecodeJobReply(a.Value); err == nil && rec != nil {
			if rec.Leader.Node != c.self.Node {
				c.send(rec.Leader.Node, &message.Ordered{Job: id, Serial: rec.Serial})
			}
			c.onRecord(j, rec)
		}
		c.forget(j)
	})
	c.settle()
}

// spread sends news of the orders to the nodes that may lack them, until each has the orders,
// or answers that it does not know the job: a node that learns of the job later reads the
// orders with the job's record.
func (o *orderly) spread(j *job) {
	if j.rec.Serial == 0 || mutants.MuteOrders {
		return
	}
	for _, n := range j.leader.orders.Round(o.now, j.rec.Serial, o.core.cfg.Members, o.core.self.Node) {
		o.send(n, &message.Ordered{Job: j.id, Serial: j.rec.Serial})
	}
	if at := j.leader.orders.At(); at > 0 {
		o.core.waits.at = min(o.core.waits.at, at)
	}
}

// onOrdered looks up the orders, if this node knows the job and not the orders.
func (o *orderly) onOrdered(from filch.NodeName, m *message.Ordered) {
	if j := o.core.jobs[m.Job]; j != nil && (j.rec == nil || j.rec.Serial < m.Serial) {
		j.view.orders = max(j.view.orders, m.Serial)
		o.core.lookJob(j) // the leader asks again
		return
	}
	o.send(from, &message.OrderedAck{Job: m.Job, Serial: m.Serial})
}

func (o *orderly) onOrderedAck(from filch.NodeName, m *message.OrderedAck) {
	if j := o.core.jobs[m.Job]; j != nil && j.leader != nil {
		j.leader.orders.Has(from, m.Serial)
	}
}

// held reports whether no task of the job may start: a person holds the job, or the node
// is to read the orders first.
func (j *job) held() bool { return j.rec != nil && (j.rec.Held || j.rec.Serial < j.view.orders) }

// cancelled reports whether a person cancelled this task of the job.
func (j *job) cancelled(i int32) bool { return j.rec != nil && j.rec.Cancelled(i) }

// onRecord follows the orders in a newer record of a job.
func (o *orderly) onRecord(j *job, before *record.Job) {
	if j.leader != nil && !j.leader.orders.Sent(j.rec.Serial) {
		o.spread(j)
	}
	if before != nil && before.Held && !j.rec.Held {
		o.core.victim.Fresh = true
	}
	if j.rec.Held && (before == nil || !before.Held) {
		o.core.exec.stop(j, func(r *run) bool { return r.stage == gathering }) // see unlaunched
	}
	if j.void == filch.Cancelled || mutants.SparesRest && j.void != 0 || before != nil && slices.Equal(before.Cancels, j.rec.Cancels) {
		return
	}
	o.core.exec.stop(j, func(r *run) bool { i := r.item.Index; return j.cancelled(i) && (before == nil || !before.Cancelled(i)) })
	o.obey(j)
}

// obey ends the queued tasks here that a person cancelled, or all if the job is void.
// Tasks under an offer stay frozen: their owner after the transfer obeys.
func (o *orderly) obey(j *job) {
	switch {
	case j.void != 0:
		o.core.void(j, j.void)
	case j.rec != nil && len(j.rec.Cancels) > 0 && !j.over && !mutants.CancelLate:
		o.cancelQueued(j)
	}
}

func (o *orderly) cancelQueued(j *job) {
	q := &j.queue
	for _, s := range q.Ranges.Cut(j.rec.Within) {
		o.core.voidRange(j, s, filch.Cancelled)
	}
	for _, it := range q.Remove(j.rec.Cancelled) {
		o.core.record(j, it, record.Task{State: filch.Cancelled})
	}
	if q.Empty() && j.running == 0 && j.spec != nil {
		o.core.caps.Linger(j)
	}
	o.core.idle(j)
	o.cancelWaiting(j)
}

// cancelWaiting ends the cancelled tasks of a graph that wait for parents: they are in no
// queue. Their dependents are skipped.
func (o *orderly) cancelWaiting(j *job) {
	l := j.leader
	if l == nil || l.tracker == nil || !l.open {
		return
	}
	for _, p := range j.rec.Within(0, int32(l.graph.Len())) {
		for i := p.From; i < p.From+p.Count; i++ {
			if l.tracker.Waits(i) {
				o.core.record(j, queue.Item{Index: i, Attempt: record.FirstAttempt}, record.Task{State: filch.Cancelled})
				o.core.ledEnds(j, []message.ToldEnd{{Index: i, State: filch.Cancelled}})
			}
		}
	}
}
