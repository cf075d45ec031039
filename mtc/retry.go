package mtc

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// retries reports whether a task may be tried again after an end that is not ok and so many
// tries, and the wait before.
func (e *execution) retries(j *job, payload []byte, end *End, tries int32) (wait time.Duration, again bool) {
	if end.State == filch.OK {
		return 0, false
	}
	own := (*record.Retry)(nil)
	if rule := j.spec.Retry; rule != nil && rule.Tasks && e.core.cfg.Retry != nil {
		own = e.core.cfg.Retry(j.body(payload))
	}
	wait, again = policy.Retries(j.spec, own, tries, end.Code, end.Ours)
	return wait, again || mutants.Forever
}

// failing takes in the end of a task here. Where the job's tasks fail in a row, and end
// well elsewhere, the node starts the job's tasks ever more slowly.
func (e *execution) failing(j *job, s filch.State) {
	b := &j.pace.backoff
	if !b.Ended(s == filch.Failed) || j.pace.durations.Count() > 0 || j.rec == nil || j.rec.Tally().OK == 0 || e.core.cfg.Members.Others(e.core.cfg.Self) == 0 {
		return
	}
	if b.Slow(e.now) {
		e.note(noteWarn, j.id, "the last %d tasks of job %d failed here, and others end well elsewhere: %s starts fewer of them", b.Fails(), j.id, e.core.cfg.Self)
	}
	e.core.victim.Fresh = true
	e.core.waits.at = min(e.core.waits.at, b.Until())
}

// judge takes in the end of a task for the node's health.
func (e *execution) judge(j *job, index int32, end *End) {
	differs := j.rec == nil || j.rec.Graph && !end.Ours // the tasks of a workflow differ
	if e.core.cfg.DrainBad <= 0 || e.core.drain.on || end.Gone || j.void != 0 || j.cancelled(index) || differs && end.State != filch.OK {
		return
	}
	if end.State == filch.OK {
		e.health.Worked()
		return
	}
	e.health.Failed(j.id, index, end.Code, !end.Ours, j.rec.Tally(), j.pace.durations.Total())
	e.verdict(j)
	e.core.waits.at = min(e.core.waits.at, j.pace.backoff.Ask(e.now))
}

// verdict asks the caller to drain the node if the node is bad. In doubt, few tasks of j start.
func (e *execution) verdict(j *job) {
	cfg, b := &e.core.cfg, &j.pace.backoff
	e.health.Heard(j.id, j.rec.Tally(), j.pace.durations.Total())
	e.health.Bad(cfg.DrainBad, &e.out.Bad)
	doubts := e.health.Doubts(j.id, cfg.DrainBad, cfg.Members.Working()) && cfg.Members.OtherSuits(cfg.Self, j.spec)
	if b.Doubt(e.now, doubts, doubts && j.spec.Retries > 0) {
		e.note(noteWarn, j.id, "the last tasks of job %d failed here: %s starts few of them until others end on other nodes", j.id, cfg.Self)
		e.core.victim.Fresh = true
	}
	e.core.waits.at = min(e.core.waits.at, b.Next())
}

// again queues a failed task for another try. After delay other nodes may have the task,
// and this node [policy.CoolTime] later.
func (e *execution) again(j *job, it queue.Item, delay time.Duration) {
	it = it.Next(e.now)
	e.core.arrivals.Add(j.id, it.Index, it.Index+1, "", e.now)
	j.queue.Hold(&it)
	if delay > 0 && !e.core.drain.on {
		j.queue.Resting = append(j.queue.Resting, queue.Delayed{Item: it, Until: e.now + delay})
		e.core.waits.at = min(e.core.waits.at, e.now+delay)
		e.core.active(j)
		return
	}
	e.cool(j, it)
}

// cool queues a task for thieves, and after [policy.CoolTime] for this node.
func (e *execution) cool(j *job, it queue.Item) {
	wait := policy.CoolTime
	if e.core.cfg.Members.Others(e.core.cfg.Self) == 0 {
		wait = 0
	}
	j.queue.Cooling = append(j.queue.Cooling, queue.Delayed{Item: it, Until: e.now + wait})
	e.core.waits.at = min(e.core.waits.at, e.now+wait)
	e.core.active(j)
	switch {
	case wait == 0:
		e.warm()
	case j.spec.Capped():
		e.core.waits.at = e.now // see [tokens.Caps.TickJob]
	}
}

// wake lets tasks cool whose delay is over; with all, the other delayed tasks too.
func (e *execution) wake(all bool) (next time.Duration) {
	next = filch.Never
	for _, j := range e.core.order {
		list, at := j.queue.Wake(e.now, all)
		next = min(next, at)
		for _, it := range list {
			e.cool(j, it)
			e.core.victim.Fresh = true
		}
		if len(list) > 0 {
			defer e.core.orders.obey(j)
		}
	}
	return next
}

// warm makes tasks ready again whose time in cooling is over.
func (e *execution) warm() (next time.Duration) {
	next = filch.Never
	for _, j := range e.core.order {
		next = min(next, j.queue.Warm(e.now))
	}
	return next
}
