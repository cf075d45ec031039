package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/record"
)

// An addition is committed before its lines are written, since only the commit assigns
// the indices. A node that dies in between leaves tasks without a line. The node that is
// to start such a task, and sees that the adder is dead, gives the task up: the node
// writes an empty line into the payload record, which beats the late messages of the dead
// adder, and then the end `lost`.

// linesWait bounds the wait for a line while no death of the adder is known: an adder has
// at most a frame of lines under way.
const linesWait = time.Minute

// How often a node looks up a line that the store does not have yet.
const (
	payloadAgain    = 20 * time.Millisecond
	payloadAgainMax = 500 * time.Millisecond
)

// jobAgain is how often the node looks up the job meanwhile, to learn the last adder.
const jobAgain = time.Second

// absence is a payload record without the line of a task here.
type absence struct {
	part   int32
	since  time.Duration
	next   time.Duration // time of the next lookup
	wait   time.Duration
	looked time.Duration // at the job
	asking bool          // lookup under way, or no task needs the line now
}

// Add gives an open bag more tasks; repeated additions with the same token count once.
func (c *Core) Add(now time.Duration, id filch.JobID, token, count int32, lines [][]byte, out *Out) error {
	c.enter(now, out)
	if count <= 0 || token <= 0 || token > record.MaxTasks || len(lines) > 0 && int(count) != len(lines) {
		return filch.Errorf(filch.Invalid, "cannot add %d tasks with %d lines to job %d under token %d", count, len(lines), id, token)
	}
	if err := checkLines(lines); err != nil {
		return err
	}
	j := c.job(id)
	op := record.JobOp{Kind: record.JobAdd, Add: record.Addition{Token: token, Count: count, By: c.self}, Lines: len(lines) > 0}
	c.commits.merge(record.KeyJob(id), record.RecordJob, record.EncodeJobOp(op), func(a Answer) {
		v, rec, err := record.DecodeJobReply(a.Value)
		why := "it is not an open bag"
		switch {
		case v == record.VerdictInvalid && err == nil && rec != nil && rec.Lines:
			why = "each of its tasks has a line of its own"
		case v == record.VerdictInvalid && err == nil && rec != nil:
			why = "its tasks have no line of their own"
		case a.Status == AnswerDone && err == nil && v == record.VerdictDone && rec != nil:
			if k := slices.IndexFunc(rec.Added, func(b record.Addition) bool { return b.Token == token }); k >= 0 {
				c.added(j, rec, rec.Added[k], lines)
			}
			return
		}
		c.notAdded(j, token, count, why)
	})
	c.settle()
	return nil
}

func (c *Core) notAdded(j *job, token, count int32, why string) {
	c.out.Tells = append(c.out.Tells, Tell{
		Job: j.id, What: TellRefused, Token: token,
		Error: filch.Errorf(filch.Invalid, "cannot add %d tasks to job %d: %s", count, j.id, why),
	})
	c.forget(j)
}

// added writes the lines of a bag's new tasks and notifies the bag's leader.
func (c *Core) added(j *job, rec *record.Job, a record.Addition, lines [][]byte) {
	left, late := 1, false
	done := func(answer Answer) {
		late = late || answer.Status != AnswerDone || len(answer.Value) > 0
		if left--; left > 0 {
			return
		}
		if rec.Leader == c.self {
			c.onRecord(j, rec)
		} else {
			c.send(rec.Leader.Node, &message.Grown{Job: j.id})
		}
		if late {
			c.notAdded(j, a.Token, a.Count, "its lines came too late, and were given up")
			return
		}
		c.out.Tells = append(c.out.Tells, Tell{Job: j.id, What: TellAdded, Token: a.Token, Base: a.Base, Total: rec.Total})
		c.forget(j)
	}
	left += c.putLines(j, a.Base, lines, done)
	done(Answer{})
}

// missing notes that a payload record lacks the line of a waiting task.
func (c *Core) missing(j *job, part int32) {
	p := &j.payloads
	if i := slices.IndexFunc(p.absent, func(a absence) bool { return a.part == part }); i >= 0 {
		a := &p.absent[i]
		a.wait = min(2*a.wait, payloadAgainMax)
		a.next, a.asking = c.now+a.wait, false
		c.waits.at = min(c.waits.at, a.next)
		return
	}
	p.absent = append(p.absent, absence{part: part, since: c.now, next: c.now + payloadAgain, wait: payloadAgain, looked: c.now})
	c.waits.at = min(c.waits.at, c.now+payloadAgain)
}

// tickLines looks up missing lines again, or gives the lines up. tickLines returns the
// time of the next look.
func (c *Core) tickLines(j *job) (next time.Duration) {
	next = filch.Never
	for i := range j.payloads.absent {
		a := &j.payloads.absent[i]
		if a.asking {
			continue
		}
		if a.next > c.now {
			next = min(next, a.next)
			continue
		}
		a.asking = true
		if a.looked+jobAgain <= c.now {
			a.looked = c.now
			c.lookJob(j)
		}
		if offs := c.lostLines(j, a); len(offs) > 0 {
			c.giveUp(j, a.part, offs)
			continue
		}
		delete(j.payloads.parts, a.part)
		c.fetch(j, a.part)
	}
	return next
}

// lostLines are the tasks of a payload record whose line no node will write, as far as
// this node knows.
func (c *Core) lostLines(j *job, a *absence) (offs []uint8) {
	if j.rec == nil || mutantWaitForDead {
		return nil
	}
	for off := range int32(record.PayloadSize) {
		i := a.part*record.PayloadSize + off
		if i >= j.rec.Total {
			break
		}
		dead := c.now-a.since >= linesWait
		for _, b := range j.rec.Added {
			dead = dead || i >= b.Base && i < b.Base+b.Count && c.cfg.Members.Dead(b.By)
		}
		if dead {
			offs = append(offs, uint8(off))
		}
	}
	return offs
}

// giveUp writes to a payload record that the lines of some tasks will not come.
func (c *Core) giveUp(j *job, part int32, offs []uint8) {
	none := record.Payload{Offs: offs, Lines: make([][]byte, len(offs))}
	c.commits.merge(record.KeyPayload(j.id, part), record.RecordPayload, none.Encode(), func(a Answer) {
		var p *record.Payload
		err := record.ErrMalformed
		if a.Status == AnswerDone && len(a.Value) > 0 {
			p, err = record.DecodePayload(a.Value[1:])
		}
		if err != nil {
			c.missing(j, part)
			return
		}
		gone := 0
		for _, l := range p.Lines {
			if len(l) == 0 {
				gone++
			}
		}
		if gone > 0 {
			c.note(noteWarn, j.id, "%d tasks of job %d, at %d and behind, are lost: who added them died before their lines were written",
				gone, j.id, part*record.PayloadSize+int32(p.Offs[0]))
		}
		j.payloads.found(part)
		j.payloads.has(part, p)
	})
}

// pass ends a task without a line as lost.
func (c *Core) pass(j *job, it item) {
	c.recorder.record(j, it, record.Task{State: filch.Lost, Code: filch.ExitNodeLost})
}
