package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// toldAgain is how often ends are told to a steward that does not acknowledge.
const toldAgain = 300 * time.Millisecond

// tell is a word to a graph's steward that it did not acknowledge yet.
type tell struct {
	serial uint64
	ends   []ToldEnd
	at     time.Duration
}

// sawJob takes in a job's record, looked up or watched.
func (c *Core) sawJob(now time.Duration, j *job, a Answer, out *Out) {
	if c.jobs[j.id] != j {
		return
	}
	if a.Status == AnswerAbsent {
		if j.follow {
			j.follow = false
			out.Tells = append(out.Tells, Tell{
				Job: j.id, What: TellRefused, Error: filch.Errorf(filch.NotFound, "there is no job %d", j.id),
			})
		}
		if j.lead == nil {
			j.records.tells = nil // nobody is there to be told
			c.forget(j, out)
		}
		return
	}
	rec, err := DecodeJob(a.Value)
	if err != nil {
		note(out, noteWarn, j.id, "the record of job %d: %v", j.id, err)
		return
	}
	c.sawRecord(now, j, rec, out)
}

// behind reports whether a record is older than the one that is known.
func (j *Job) behind(k *Job) bool {
	return k != nil && (j.Hop < k.Hop || j.Tally().Sum() < k.Tally().Sum() || j.Total < k.Total ||
		k.Closed && !j.Closed || k.Void != 0 && j.Void == 0)
}

// sawRecord takes in a job's record; an older one than before counts for
// nothing, so that what is told only moves forward.
func (c *Core) sawRecord(now time.Duration, j *job, rec *Job, out *Out) {
	if c.jobs[j.id] != j || rec.behind(j.rec) {
		return
	}
	j.rec, j.ticket = rec, rec.Ticket
	if j.lead != nil && rec.Steward != c.self {
		note(out, noteWarn, j.id, "%s keeps job %d going now", rec.Steward.Node, j.id)
		j.lead = nil
	}
	switch {
	case rec.Finished():
		c.finish(j, out)
		return
	case rec.Void != 0 && j.lead != nil:
		c.voidLed(now, j, out)
	case rec.Void != 0:
		c.void(now, j, rec.Void, out)
	case j.lead != nil && j.lead.open:
		c.grown(now, j, out)
		c.mindEnds(now, j, out)
	}
	if j.follow {
		c.tellProgress(j, out)
	}
	if j.spec != nil {
		c.known(now, j, out)
	}
}

func (c *Core) tellProgress(j *job, out *Out) {
	t := Tell{Job: j.id, What: TellProgress, Tally: j.rec.Tally(), Total: j.rec.Total, State: j.rec.State(), Finished: j.rec.Finished()}
	if t.Finished {
		t.What = TellFinished
	}
	out.Tells = append(out.Tells, t)
}

// finish ends a job here: all of its tasks have their end.
func (c *Core) finish(j *job, out *Out) {
	if j.follow {
		c.tellProgress(j, out)
		j.follow = false
	}
	j.lead, j.over = nil, true
	j.queue.onceKnown, j.queue.pending = nil, 0
	c.unwatch(j, out)
	j.queue.drop()
	j.records.tells = nil
	c.idle(j)
	c.forget(j, out)
}

// void ends all of a job that was not started here.
func (c *Core) void(now time.Duration, j *job, s filch.State, out *Out) {
	if s == 0 || j.rec == nil {
		c.know(j, out)
		j.void = s
		return
	}
	if j.void != s {
		j.void = s
		if s == filch.Cancelled {
			for i := range c.runs.list {
				if r := &c.runs.list[i]; r.job == j && r.started {
					out.Stops = append(out.Stops, Stop{Run: uint64(r.gen)<<32 | uint64(i), Job: j.id})
				}
			}
		}
	}
	q := &j.queue
	for _, s := range q.ranges {
		c.voidRange(now, j, s)
	}
	var singles []item
	singles = append(singles, q.shared.bottom(len(q.shared.list))...)
	singles = append(singles, q.dedicated.bottom(len(q.dedicated.list))...)
	for _, k := range q.cooling {
		singles = append(singles, k.item)
	}
	for _, k := range q.late {
		singles = append(singles, k.item)
	}
	q.drop()
	for _, it := range singles {
		c.record(now, j, it, Task{State: s}, out)
	}
	c.idle(j)
}

// voidRange says that what is left of a range ends without a start. The word
// goes with the tallies to each zone.
func (c *Core) voidRange(now time.Duration, j *job, s span) {
	for lo := s.next; lo < s.hi; {
		num := lo / ZoneSize
		hi := min(s.hi, (num+1)*ZoneSize)
		z := j.zoneBuf(num)
		z.told = append(z.told, zoneOp{kind: zVoid, lo: lo, hi: hi, hop: s.hop, who: c.self, void: j.void})
		c.zoneDue(z, now)
		lo = hi
	}
}

// voidLed ends a job that this node keeps going, and tells everybody.
func (c *Core) voidLed(now time.Duration, j *job, out *Out) {
	l := j.lead
	c.requeue(now, j, out)
	if l.orphan && !l.loading && j.spec != nil {
		// It may wait for other jobs still: that is over.
		l.open, l.after = true, nil
		if l.graph == nil {
			c.inherit(j, out)
		}
	}
	if l.graph == nil && !l.orphan && j.rec.Total > l.total {
		j.queue.addRange(span{next: l.total, hi: j.rec.Total, front: l.total, hop: j.firstHop()})
		l.total = j.rec.Total
	}
	c.void(now, j, j.rec.Void, out)
	if l.graph != nil && (l.open || !l.orphan) {
		busy := make(map[int32]bool)
		for i := range c.runs.list {
			if r := &c.runs.list[i]; r.job == j {
				busy[r.item.index] = true
			}
		}
		for num, b := range j.records.blocks { // any order: a set
			for i := range b.ends {
				busy[num*BlockSize+int32(b.ends[i].off)] = true
			}
		}
		for i := range int32(l.graph.Len()) {
			if !l.tracker.Has(i) && !busy[i] && l.away[i] == "" {
				c.record(now, j, item{index: i, attempt: firstAttempt}, Task{State: j.void}, out)
			}
		}
	}
	if now >= l.voidAt || l.voidAt == filch.Never {
		l.voidAt = now + leadAgain
		c.waits.at = min(c.waits.at, l.voidAt)
		c.members.each(func(m *Member) {
			if m.Name != c.self.Node && !m.Dead {
				c.send(m.Name, &Void{j.id, j.rec.Void}, out)
			}
		})
	}
}

// tell says how tasks of a graph ended, as it is recorded, to the steward.
func (c *Core) tell(now time.Duration, j *job, num int32, ends []blockOp, b *Block, out *Out) {
	var told []ToldEnd
	for i := range ends {
		t := b.Find(ends[i].off)
		if t == nil || t.State == 0 {
			continue
		}
		told = append(told, ToldEnd{Index: num*BlockSize + int32(ends[i].off), State: t.State, Bytes: t.Bytes, By: t.By.Node})
	}
	if j.lead != nil {
		c.ledEnds(now, j, told, out)
		return
	}
	r := &j.records
	serial := c.serial()
	r.tells = append(r.tells, tell{serial: serial, ends: told, at: now + toldAgain})
	c.waits.at = min(c.waits.at, now+toldAgain)
	if j.rec != nil {
		c.send(j.rec.Steward.Node, &Told{Job: j.id, Serial: serial, Ends: told}, out)
	}
}

// serial is a number that this life never gave before: a late acknowledgment
// must not hit another word about a job that was forgotten in between.
func (c *Core) serial() uint64 {
	c.commits.last++
	return c.commits.last
}

func (c *Core) told(now time.Duration, from filch.NodeName, m *Told, out *Out) {
	j := c.jobs[m.Job]
	if j == nil || j.lead == nil || j.lead.tracker == nil {
		// Finished, or another's, who may have read the records before this end
		// was in them: who tells looks who that is.
		return
	}
	c.ledEnds(now, j, m.Ends, out)
	c.send(from, &ToldAck{m.Job, m.Serial}, out)
}

func (c *Core) toldAck(m *ToldAck) {
	if j := c.jobs[m.Job]; j != nil {
		j.records.tells = slices.DeleteFunc(j.records.tells, func(t tell) bool { return t.serial == m.Serial })
	}
}

// ledEnds takes in committed ends of tasks of a graph that this node leads.
func (c *Core) ledEnds(now time.Duration, j *job, ends []ToldEnd, out *Out) {
	l := j.lead
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
			c.record(now, j, item{index: i, attempt: firstAttempt}, Task{State: filch.Skipped}, out)
		}
		for _, i := range ready {
			if j.void == 0 {
				c.ready(now, j, i, out)
			} else {
				c.record(now, j, item{index: i, attempt: firstAttempt}, Task{State: j.void}, out)
			}
		}
		if e.State != filch.OK && j.spec.OnFail == FailStop && !l.failing && j.void == 0 {
			l.failing = true
			c.voidJob(now, j, filch.Skipped, out)
		}
	}
}

// tickWaits looks at what waits for a moment.
func (c *Core) tickWaits(now time.Duration, out *Out) {
	if c.waits.at > now {
		return
	}
	c.waits.at = c.warm(now)
	later := func(at time.Duration) { c.waits.at = min(c.waits.at, at) }
	for _, j := range c.sortedJobs() {
		later(c.tickLines(now, j, out))
		if j.tokens.held > 0 && !j.over {
			c.spareTokens(now, j, out)
		}
		if until := j.pace.barren.until; until > now {
			later(until)
		}
		if j.tokens.at > now && j.queue.listed {
			later(j.tokens.at)
		}
		if j.lead != nil && !j.lead.open && len(j.lead.after) > 0 && j.lead.parts == 0 {
			if j.lead.lookAt <= now {
				j.lead.lookAt = now + afterAgain
				c.lookAfter(j, out)
			}
			later(j.lead.lookAt)
		}
		if j.lead != nil && j.lead.voidAt != filch.Never {
			if j.lead.voidAt <= now {
				c.voidLed(now, j, out)
			}
			later(j.lead.voidAt)
		}
		if j.lead != nil && j.lead.readAt > 0 {
			c.mindEnds(now, j, out)
			if j.lead.readAt > 0 {
				later(j.lead.readAt)
			}
		}
		c.tellAgain(now, j, out)
		for i := range j.records.tells {
			later(j.records.tells[i].at)
		}
	}
}

// tellAgain repeats what a steward did not acknowledge; there may be another.
func (c *Core) tellAgain(now time.Duration, j *job, out *Out) {
	looked := false
	for i := range j.records.tells {
		t := &j.records.tells[i]
		if t.at > now {
			continue
		}
		t.at = now + toldAgain
		if !looked {
			c.lookJob(j, out)
			looked = true
		}
		if j.lead != nil {
			c.ledEnds(now, j, t.ends, out)
			t.ends = nil
		} else if j.rec != nil {
			c.send(j.rec.Steward.Node, &Told{Job: j.id, Serial: t.serial, Ends: t.ends}, out)
		}
	}
	if j.lead != nil {
		j.records.tells = slices.DeleteFunc(j.records.tells, func(t tell) bool { return t.ends == nil })
	}
}
