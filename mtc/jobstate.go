package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/record"
)

// toldAgain is how often a node repeats its report of ends to a leader without an
// acknowledgment.
const toldAgain = 300 * time.Millisecond

// tell is a report to a graph's leader, not yet acknowledged.
type tell struct {
	serial uint64
	ends   []message.ToldEnd
	at     time.Duration
}

// onJobAnswer takes in a job's record, looked up or watched.
func (c *Core) onJobAnswer(j *job, a Answer) {
	if c.jobs[j.id] != j {
		return
	}
	if a.Status == AnswerAbsent {
		if j.follow {
			j.follow = false
			c.out.Tells = append(c.out.Tells, Tell{
				Job: j.id, What: TellRefused, Error: filch.Errorf(filch.NotFound, "there is no job %d", j.id),
			})
		}
		if j.leader == nil {
			j.records.tells = nil // no leader is left to receive the reports
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
	t := Tell{Job: j.id, What: TellProgress, Tally: j.rec.Tally(), Total: j.rec.Total, State: j.rec.State(), Finished: j.rec.Finished()}
	if t.Finished {
		t.What = TellFinished
	}
	c.out.Tells = append(c.out.Tells, t)
}

// finish ends a job here: all of its tasks have their end.
func (c *Core) finish(j *job) {
	if j.follow {
		c.tellProgress(j)
		j.follow = false
	}
	j.leader, j.over = nil, true
	j.queue.onceKnown, j.queue.pending = nil, 0
	c.unwatch(j)
	j.queue.drop()
	j.records.tells = nil
	c.idle(j)
	c.forget(j)
}

// void ends all of a job's tasks here that were not started.
func (c *Core) void(j *job, s filch.State) {
	if s == 0 || j.rec == nil {
		c.know(j)
		j.void = s
		return
	}
	if j.void != s {
		j.void = s
		if s == filch.Cancelled {
			for i := range c.exec.list {
				if r := &c.exec.list[i]; r.job == j && r.started {
					c.out.Stops = append(c.out.Stops, Stop{Run: uint64(r.gen)<<32 | uint64(i), Job: j.id})
				}
			}
		}
	}
	q := &j.queue
	for _, s := range q.ranges {
		c.voidRange(j, s, j.void)
	}
	var singles []item
	singles = append(singles, bottom(&q.shared, len(q.shared))...)
	singles = append(singles, bottom(&q.dedicated, len(q.dedicated))...)
	for _, k := range q.cooling {
		singles = append(singles, k.item)
	}
	for _, k := range q.resting {
		singles = append(singles, k.item)
	}
	for _, k := range q.late {
		singles = append(singles, k.item)
	}
	q.drop()
	for _, it := range singles {
		c.recorder.record(j, it, record.Task{State: s})
	}
	c.idle(j)
}

// voidRange ends the rest of a range without a start. The operation goes to each zone
// with the tallies.
func (c *Core) voidRange(j *job, s span, end filch.State) {
	for lo := s.next; lo < s.hi; {
		num := lo / record.ZoneSize
		hi := min(s.hi, (num+1)*record.ZoneSize)
		z := j.zoneBuf(num)
		z.told = append(z.told, record.ZoneOp{Kind: record.ZoneVoid, Lo: lo, Hi: hi, Hop: s.hop, Owner: c.self, Void: end})
		c.recorder.zoneDue(z, c.now)
		lo = hi
	}
}

// voidLed ends a job that this node leads, and notifies all nodes.
func (c *Core) voidLed(j *job) {
	l := j.leader
	c.requeue(j)
	if l.orphan && !l.loading && j.spec != nil {
		// The job may still wait for other jobs: that wait is over.
		l.open, l.after.jobs = true, nil
		if l.graph == nil {
			c.inherit(j)
		}
	}
	if l.graph == nil && !l.orphan && j.rec.Total > l.total {
		j.queue.addRange(span{next: l.total, hi: j.rec.Total, front: l.total, hop: j.firstHop()})
		l.total = j.rec.Total
	}
	c.void(j, j.rec.Void)
	if l.graph != nil && (l.open || !l.orphan) {
		busy := make(map[int32]bool)
		for i := range c.exec.list {
			if r := &c.exec.list[i]; r.job == j {
				busy[r.item.index] = true
			}
		}
		for num, b := range j.records.blocks { // any order: a set
			for i := range b.ends {
				busy[num*record.BlockSize+int32(b.ends[i].Off)] = true
			}
		}
		for i := range int32(l.graph.Len()) {
			if !l.tracker.Has(i) && !busy[i] && l.away[i] == "" {
				c.recorder.record(j, item{index: i, attempt: record.FirstAttempt}, record.Task{State: j.void})
			}
		}
	}
	if c.now >= l.voidAt || l.voidAt == filch.Never {
		l.voidAt = c.now + leaderAgain
		c.waits.at = min(c.waits.at, l.voidAt)
		for _, m := range c.cfg.Members.All() {
			if m.Name != c.self.Node && m.Standing < filch.Dead {
				c.send(m.Name, &message.Void{Job: j.id, State: j.rec.Void})
			}
		}
	}
}

// tell reports recorded ends of a graph's tasks to the leader.
func (c *Core) tell(j *job, num int32, ends []record.BlockOp, b *record.Block) {
	var told []message.ToldEnd
	for i := range ends {
		t := b.Find(ends[i].Off)
		if t == nil || t.State == 0 {
			continue
		}
		told = append(told, message.ToldEnd{Index: num*record.BlockSize + int32(ends[i].Off), State: t.State, Bytes: t.Bytes, By: t.By.Node})
	}
	if j.leader != nil {
		c.ledEnds(j, told)
		return
	}
	r := &j.records
	serial := c.commits.serial()
	r.tells = append(r.tells, tell{serial: serial, ends: told, at: c.now + toldAgain})
	c.waits.at = min(c.waits.at, c.now+toldAgain)
	if j.rec != nil {
		c.send(j.rec.Leader.Node, &message.Told{Job: j.id, Serial: serial, Ends: told})
	}
}

// serial is a number that this incarnation never used before: a late acknowledgment must
// not match another report about a job that the node forgot in between.
func (k *commits) serial() uint64 {
	k.last++
	return k.last
}

func (c *Core) onTold(from filch.NodeName, m *message.Told) {
	j := c.jobs[m.Job]
	if j == nil || j.leader == nil || j.leader.tracker == nil {
		// The job is finished, or has another leader, which may have read the records
		// before this end was recorded: the reporting node looks up the leader.
		return
	}
	c.ledEnds(j, m.Ends)
	c.send(from, &message.ToldAck{Job: m.Job, Serial: m.Serial})
}

func (c *Core) onToldAck(m *message.ToldAck) {
	if j := c.jobs[m.Job]; j != nil {
		j.records.tells = slices.DeleteFunc(j.records.tells, func(t tell) bool { return t.serial == m.Serial })
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
		ready, skipped := l.tracker.End(e.Index, e.State, e.Bytes, e.By)
		for _, i := range skipped {
			c.recorder.record(j, item{index: i, attempt: record.FirstAttempt}, record.Task{State: filch.Skipped})
		}
		for _, i := range ready {
			if j.void == 0 {
				c.ready(j, i)
			} else {
				c.recorder.record(j, item{index: i, attempt: record.FirstAttempt}, record.Task{State: j.void})
			}
		}
		if e.State != filch.OK && j.spec.OnFail == record.FailStop && !l.failing && j.void == 0 {
			l.failing = true
			c.voidJob(j, filch.Skipped)
		}
	}
}

// tickWaits does the work that is due after a wait.
func (c *Core) tickWaits() {
	if c.waits.at > c.now {
		return
	}
	next := c.exec.wake(false)
	c.waits.at = min(next, c.exec.warm())
	later := func(at time.Duration) { c.waits.at = min(c.waits.at, at) }
	for _, j := range c.sortedJobs() {
		later(c.tickLines(j))
		if j.tokens.held > 0 && !j.over {
			c.spareTokens(j)
		}
		if until := j.pace.backoff.until; until > c.now {
			later(until)
		}
		if j.tokens.at > c.now && j.queue.listed {
			later(j.tokens.at)
		}
		if j.leader != nil && !j.leader.open && len(j.leader.after.jobs) > 0 && j.leader.parts == 0 {
			if j.leader.after.at <= c.now {
				j.leader.after.at = c.now + afterAgain
				c.lookAfter(j)
			}
			later(j.leader.after.at)
		}
		if j.leader != nil && j.leader.orders.at > 0 {
			if j.leader.orders.at <= c.now {
				c.orders.spread(j)
			}
			if j.leader.orders.at > 0 {
				later(j.leader.orders.at)
			}
		}
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
		c.tellAgain(j)
		for i := range j.records.tells {
			later(j.records.tells[i].at)
		}
	}
}

// tellAgain repeats reports without an acknowledgment; the job may have another leader by
// now.
func (c *Core) tellAgain(j *job) {
	looked := false
	for i := range j.records.tells {
		t := &j.records.tells[i]
		if t.at > c.now {
			continue
		}
		t.at = c.now + toldAgain
		if !looked {
			c.lookJob(j)
			looked = true
		}
		if j.leader != nil {
			c.ledEnds(j, t.ends)
			t.ends = nil
		} else if j.rec != nil {
			c.send(j.rec.Leader.Node, &message.Told{Job: j.id, Serial: t.serial, Ends: t.ends})
		}
	}
	if j.leader != nil {
		j.records.tells = slices.DeleteFunc(j.records.tells, func(t tell) bool { return t.ends == nil })
	}
}

// waits holds the time of the next look at waiting work: cooling tasks, tokens, cancels
// and reports without an acknowledgment.
type waits struct{ at time.Duration }
