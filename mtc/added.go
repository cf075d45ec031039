package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// An addition is committed before its lines are written, since only then it is
// known which indices they have. Who dies in between leaves tasks without a
// line. The node that is to start one of them, and sees that its adder is gone,
// gives it up: an empty line in its record, which beats the words of the dead
// that are still on their way, and then the end lost.

// linesWait is how long a line may take to come although nobody knows of its
// adder's death: an adder has no more than a frame of them under way.
const linesWait = time.Minute

// How often a line is asked for that is not there yet.
const (
	payloadAgain    = 20 * time.Millisecond
	payloadAgainMax = 500 * time.Millisecond
)

// jobAgain is how often the job is looked at meanwhile: who added last.
const jobAgain = time.Second

// absence is a record in which a line is missing that a task here waits for.
type absence struct {
	part   int32
	since  time.Duration
	next   time.Duration // when it is asked for again
	wait   time.Duration
	looked time.Duration // at the job
	asking bool          // or nobody misses it just now
}

// Add gives an open bag more tasks; token makes the same addition count once.
func (c *Core) Add(now time.Duration, id filch.JobID, token, count int32, lines [][]byte, out *Out) error {
	if count <= 0 || token <= 0 || token > MaxTasks || len(lines) > 0 && int(count) != len(lines) {
		return filch.Errorf(filch.Invalid, "cannot add %d tasks with %d lines to job %d under token %d", count, len(lines), id, token)
	}
	if err := checkLines(lines); err != nil {
		return err
	}
	j := c.job(id)
	op := jobOp{kind: jAdd, add: Addition{Token: token, Count: count, By: c.self}, lines: len(lines) > 0}
	c.merge(KeyJob(id), RecordJob, encodeJobOp(op), out, func(now time.Duration, a Answer, out *Out) {
		v, rec, err := decodeJobReply(a.Value)
		why := "it is not an open bag"
		switch {
		case v == vInvalid && err == nil && rec != nil && rec.Lines:
			why = "each of its tasks has a line of its own"
		case v == vInvalid && err == nil && rec != nil:
			why = "its tasks have no line of their own"
		case a.Status == AnswerDone && err == nil && v == vDone && rec != nil:
			if k := slices.IndexFunc(rec.Added, func(b Addition) bool { return b.Token == token }); k >= 0 {
				c.added(now, j, rec, rec.Added[k], lines, out)
			}
			return
		}
		c.notAdded(j, token, count, why, out)
	})
	c.settle(now, out)
	return nil
}

func (c *Core) notAdded(j *job, token, count int32, why string, out *Out) {
	out.Tells = append(out.Tells, Tell{
		Job: j.id, What: TellRefused, Token: token,
		Error: filch.Errorf(filch.Invalid, "cannot add %d tasks to job %d: %s", count, j.id, why),
	})
	c.forget(j, out)
}

// added writes the lines of tasks that a bag got, and tells its steward.
func (c *Core) added(now time.Duration, j *job, rec *Job, a Addition, lines [][]byte, out *Out) {
	left, late := 1, false
	done := func(now time.Duration, answer Answer, out *Out) {
		late = late || answer.Status != AnswerDone || len(answer.Value) > 0
		if left--; left > 0 {
			return
		}
		if rec.Steward == c.self {
			c.sawRecord(now, j, rec, out)
		} else {
			c.send(rec.Steward.Node, &Grown{j.id}, out)
		}
		if late {
			c.notAdded(j, a.Token, a.Count, "its lines came too late, and were given up", out)
			return
		}
		out.Tells = append(out.Tells, Tell{Job: j.id, What: TellAdded, Token: a.Token, Base: a.Base, Total: rec.Total})
		c.forget(j, out)
	}
	left += c.putLines(j, a.Base, lines, out, done)
	done(now, Answer{}, out)
}

// missing notes that a line is not there that a task waits for.
func (c *Core) missing(now time.Duration, j *job, part int32) {
	p := &j.payloads
	if i := slices.IndexFunc(p.absent, func(a absence) bool { return a.part == part }); i >= 0 {
		a := &p.absent[i]
		a.wait = min(2*a.wait, payloadAgainMax)
		a.next, a.asking = now+a.wait, false
		c.waits.at = min(c.waits.at, a.next)
		return
	}
	p.absent = append(p.absent, absence{part: part, since: now, next: now + payloadAgain, wait: payloadAgain, looked: now})
	c.waits.at = min(c.waits.at, now+payloadAgain)
}

// tickLines asks again for lines that were not there, or gives them up; it
// returns when to look again.
func (c *Core) tickLines(now time.Duration, j *job, out *Out) (next time.Duration) {
	next = filch.Never
	for i := range j.payloads.absent {
		a := &j.payloads.absent[i]
		if a.asking {
			continue
		}
		if a.next > now {
			next = min(next, a.next)
			continue
		}
		a.asking = true
		if a.looked+jobAgain <= now {
			a.looked = now
			c.lookJob(j, out)
		}
		if offs := c.orphans(now, j, a); len(offs) > 0 {
			c.giveUp(j, a.part, offs, out)
			continue
		}
		delete(j.payloads.parts, a.part)
		c.fetch(j, a.part, out)
	}
	return next
}

// orphans are the tasks of a record of lines whose line nobody will write, as
// far as is known here.
func (c *Core) orphans(now time.Duration, j *job, a *absence) (offs []uint8) {
	if j.rec == nil || mutantWaitForDead {
		return nil
	}
	for off := range int32(PayloadSize) {
		i := a.part*PayloadSize + off
		if i >= j.rec.Total {
			break
		}
		dead := now-a.since >= linesWait
		for _, b := range j.rec.Added {
			dead = dead || i >= b.Base && i < b.Base+b.Count && c.members.dead(b.By)
		}
		if dead {
			offs = append(offs, uint8(off))
		}
	}
	return offs
}

// giveUp says in a record of lines that those of some tasks will not come.
func (c *Core) giveUp(j *job, part int32, offs []uint8, out *Out) {
	none := Payload{Offs: offs, Lines: make([][]byte, len(offs))}
	c.merge(KeyPayload(j.id, part), RecordPayload, none.Encode(), out, func(now time.Duration, a Answer, out *Out) {
		var p *Payload
		err := errMalformed
		if a.Status == AnswerDone && len(a.Value) > 0 {
			p, err = DecodePayload(a.Value[1:])
		}
		if err != nil {
			c.missing(now, j, part)
			return
		}
		gone := 0
		for _, l := range p.Lines {
			if len(l) == 0 {
				gone++
			}
		}
		if gone > 0 {
			note(out, noteWarn, j.id, "%d tasks of job %d, at %d and behind, are lost: who added them died before their lines were written",
				gone, j.id, part*PayloadSize+int32(p.Offs[0]))
		}
		j.payloads.found(part)
		j.payloads.has(part, p)
	})
}

// pass ends a task that was given up for want of its line.
func (c *Core) pass(now time.Duration, j *job, it item, out *Out) {
	c.record(now, j, it, Task{State: filch.Lost, Code: filch.ExitNodeLost}, out)
}
