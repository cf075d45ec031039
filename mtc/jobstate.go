package mtc

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/graph"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/report"
)

// onJobAnswer takes in a job's record, looked up or watched.
func (c *Core) onJobAnswer(j *job, a record.Answer) {
	if c.jobs[j.id] != j {
		return
	}
	if a.Status == record.AnswerAbsent {
		if j.follow {
			j.follow = false
			c.out.Tells = append(c.out.Tells, report.Tell{
				Job: j.id, What: report.TellRefused, Error: filch.Errorf(filch.NotFound, "there is no job %d", j.id),
			})
		}
		if j.leader == nil {
			j.pending.Untell()
			c.forget(j)
		}
		return
	}
	rec, err := record.DecodeJob(a.Value)
	if err != nil {
		c.note(noteWarn, j.id, "the record of job %d: %v", j.id, err)
		return
	}
	c.onRecord(j, rec)
}

// onRecord takes in a job's record. onRecord ignores an older record than the last, so
// that the clients' progress only moves forward.
func (c *Core) onRecord(j *job, rec *record.Job) {
	if c.jobs[j.id] != j || rec.Behind(j.rec) {
		return
	}
	before := j.rec
	j.rec, j.ticket = rec, rec.Ticket
	c.exec.verdict(j)
	if j.leader != nil && rec.Leader != c.self {
		c.note(noteWarn, j.id, "%s keeps job %d going now", rec.Leader.Node, j.id)
		j.leader = nil
	}
	switch {
	case rec.Finished():
		c.finish(j)
		return
	case rec.Void != 0 && j.leader != nil:
		c.voidLed(j)
	case rec.Void != 0:
		c.void(j, rec.Void)
	case j.leader != nil && j.leader.open:
		c.grown(j)
		c.mindEnds(j)
	}
	if rec.Serial > 0 {
		c.orders.onRecord(j, before)
	}
	if j.follow {
		c.tellProgress(j)
	}
	if j.spec != nil {
		c.known(j)
	}
}

func (c *Core) tellProgress(j *job) {
	t := report.Tell{Job: j.id, What: report.TellProgress, Tally: j.rec.Tally(), Total: j.rec.Total, State: j.rec.State(), Finished: j.rec.Finished()}
	if t.Finished {
		t.What = report.TellFinished
	}
	c.out.Tells = append(c.out.Tells, t)
}

// finish ends a job here: all of its tasks have their end.
func (c *Core) finish(j *job) {
	if !j.over && j.leader != nil {
		c.out.Over = append(c.out.Over, report.Over{Job: j.id, Record: j.rec})
	}
	if j.follow {
		c.tellProgress(j)
		j.follow = false
	}
	j.leader, j.over = nil, true
	j.queue.onceKnown, j.queue.pending = nil, 0
	c.unwatch(j)
	j.queue.Drop()
	j.pending.Untell()
	c.idle(j)
	c.forget(j)
}

// void ends all of a job's tasks here that were not started.
func (c *Core) void(j *job, s filch.State) {
	if s == 0 || j.rec == nil {
		c.know(j)
		j.void = max(j.void, s)
		return
	}
	if j.void < s { // news that the rest is skipped may come after a cancel
		if j.void = s; s == filch.Cancelled {
			c.exec.stop(j, func(*run) bool { return true })
		}
	}
	for _, s := range j.queue.Ranges {
		c.voidRange(j, s, j.void)
	}
	j.queue.Ranges = nil
	for _, it := range j.queue.Singles() {
		c.record(j, it, record.Task{State: j.void})
	}
	c.idle(j)
}

// voidRange ends the rest of a range without a start. The operation goes to each zone
// with the tallies.
func (c *Core) voidRange(j *job, s policy.Range, end filch.State) {
	for num, part := range record.Zones(s.Next, s.Hi) {
		c.recorder.Void(j, num, record.ZoneOp{Kind: record.ZoneVoid, Lo: part[0], Hi: part[1], Hop: s.Hop, Owner: c.self, Void: end})
	}
}

// voidLed ends a job that this node leads, and notifies all nodes.
func (c *Core) voidLed(j *job) {
	l := j.leader
	c.requeue(j)
	if l.orphan && !l.loading && j.spec != nil {
		// The job may still wait for other jobs: that wait is over.
		l.open, l.wait = true, nil
		if l.graph == nil {
			c.inherit(j)
		}
	}
	if l.graph == nil && l.each == nil && !l.orphan && j.rec.Total > l.total {
		j.queue.Ranges.Add(policy.Range{Next: l.total, Hi: j.rec.Total, Front: l.total, Hop: j.firstHop()})
		l.total = j.rec.Total
	}
	c.void(j, j.rec.Void)
	c.step(j)
	if l.graph != nil && (l.open || !l.orphan) {
		busy := make(map[int32]bool)
		for _, r := range c.exec.list.All() {
			if r.job == j {
				busy[r.item.Index] = true
			}
		}
		for i := range j.pending.Each() {
			busy[i] = true
		}
		for i := range int32(l.graph.Len()) {
			if !l.tracker.Has(i) && !busy[i] && l.away[i] == "" && j.queue.RestsBehind(i) == (record.Owner{}) {
				c.record(j, queue.Item{Index: i, Attempt: record.FirstAttempt}, record.Task{State: j.void})
			}
		}
	}
	if c.now >= l.voidAt || l.voidAt == filch.Never {
		l.voidAt = c.now + policy.SpreadAgain
		c.waits.at = min(c.waits.at, l.voidAt)
		for _, m := range c.cfg.Members.All() {
			if m.Name != c.self.Node && m.Standing < filch.Dead {
				c.send(m.Name, &message.Void{Job: j.id, State: j.rec.Void})
			}
		}
	}
}

func (c *Core) onTold(from filch.NodeName, m *message.Told) {
	j := c.jobs[m.Job]
	if j == nil || j.leader == nil || j.leader.tracker == nil {
		// The job is finished, or has another leader, which may have read the records
		// before this end was recorded: the reporting node looks up the leader.
		return
	}
	c.pace.estimates.Heard(m.Rate)
	c.ledEnds(j, m.Ends)
	c.send(from, &message.ToldAck{Job: m.Job, Serial: m.Serial})
}

func (c *Core) onToldAck(m *message.ToldAck) {
	if j := c.jobs[m.Job]; j != nil {
		j.pending.Acknowledged(m.Serial)
	}
}

// ledEnds takes in committed ends of tasks of a graph that this node leads.
func (c *Core) ledEnds(j *job, ends []message.ToldEnd) {
	l := j.leader
	if l.tracker == nil {
		return
	}
	for _, e := range ends {
		if e.Index < 0 || int(e.Index) >= l.graph.Len() {
			continue
		}
		delete(l.away, e.Index)
		if l.plan.Coming.Recorded(c.now, e.Index); !l.tracker.Has(e.Index) {
			l.plan.Ended(e.Index, e.State, e.By, e.Took, e.Bytes)
		}
		ready, skipped := l.tracker.End(e.Index, e.State, e.Bytes, e.By)
		for _, i := range skipped {
			c.record(j, queue.Item{Index: i, Attempt: record.FirstAttempt}, record.Task{State: filch.Skipped})
		}
		for _, i := range l.plan.Urgent(ready) {
			if j.void == 0 {
				c.ready(j, i)
			} else {
				c.record(j, queue.Item{Index: i, Attempt: record.FirstAttempt}, record.Task{State: j.void})
			}
		}
		if graph.Stops(e.State) && j.spec.OnFail == record.FailStop && !l.failing && j.void == 0 {
			l.failing = true
			c.voidJob(j, filch.Skipped)
		}
	}
	c.replan(j)
}

// tickWaits does the work that is due after a wait.
func (c *Core) tickWaits() {
	if c.waits.at > c.now {
		return
	}
	next := c.exec.wake(false)
	c.waits.at = min(next, c.exec.warm())
	later := func(at time.Duration) { c.waits.at = min(c.waits.at, at) }
	c.caps.TickLicenses()
	if at := c.thief.Gate(); at > c.now {
		later(at)
	}
	for _, j := range c.sortedJobs() {
		later(c.lines.Tick(j))
		c.replan(j)
		c.caps.TickJob(j)
		look, next := j.pace.backoff.Tick(c.now)
		if later(next); look {
			c.lookJob(j)
		}
		if j.tokens != nil && j.tokens.At > c.now && j.queue.listed {
			later(j.tokens.At)
		}
		if l := j.leader; l != nil && !l.open && !l.loading && l.wait != nil && l.parts == 0 && j.void == 0 {
			if c.lookBefore(j); l.wait != nil {
				later(l.wait.Next(c.now, c.wall(c.now)))
			}
		}
		if l := j.leader; l != nil && l.orders.At() > c.now {
			later(l.orders.At())
		} else if l != nil && l.orders.At() > 0 {
			c.orders.spread(j)
		}
		c.step(j)
		if j.leader != nil && j.leader.voidAt != filch.Never {
			if j.leader.voidAt <= c.now {
				c.voidLed(j)
			}
			later(j.leader.voidAt)
		}
		if j.leader != nil && j.leader.reads.at > 0 {
			c.mindEnds(j)
			if j.leader.reads.at > 0 {
				later(j.leader.reads.at)
			}
		}
		later(c.recorder.Again(j))
	}
}

// waits holds the time of the next look at waiting work: cooling tasks, tokens, cancels
// and reports without an acknowledgment.
type waits struct{ at time.Duration }
