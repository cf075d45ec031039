package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/report"
)

// Add gives an open bag more tasks; repeated additions with the same token count once.
func (c *Core) Add(now time.Duration, id filch.JobID, token, count int32, lines [][]byte, out *Out) error {
	c.enter(now, out)
	if count <= 0 || token <= 0 || token > record.MaxTasks || len(lines) > 0 && int(count) != len(lines) {
		return filch.Errorf(filch.Invalid, "cannot add %d tasks with %d lines to job %d under token %d", count, len(lines), id, token)
	}
	if err := record.CheckLines(lines); err != nil {
		return err
	}
	j := c.job(id)
	op := record.JobOp{Kind: record.JobAdd, Add: record.Addition{Token: token, Count: count, By: c.self}, Lines: len(lines) > 0}
	c.commits.merge(record.KeyJob(id), record.RecordJob, record.EncodeJobOp(op), func(a record.Answer) {
		v, rec, err := record.DecodeJobReply(a.Value)
		why := "it is not an open bag"
		switch {
		case v == record.VerdictInvalid && err == nil && rec != nil && rec.Lines:
			why = "each of its tasks has a line of its own"
		case v == record.VerdictInvalid && err == nil && rec != nil:
			why = "its tasks have no line of their own"
		case a.Status == record.AnswerDone && err == nil && v == record.VerdictDone && rec != nil:
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
	c.out.Tells = append(c.out.Tells, report.Tell{
		Job: j.id, What: report.TellRefused, Token: token,
		Error: filch.Errorf(filch.Invalid, "cannot add %d tasks to job %d: %s", count, j.id, why),
	})
	c.forget(j)
}

// added writes the lines of a bag's new tasks and notifies the bag's leader.
func (c *Core) added(j *job, rec *record.Job, a record.Addition, lines [][]byte) {
	left, late := 1, false
	done := func(answer record.Answer) {
		late = late || answer.Status != record.AnswerDone || len(answer.Value) > 0
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
		c.out.Tells = append(c.out.Tells, report.Tell{Job: j.id, What: report.TellAdded, Token: a.Token, Base: a.Base, Total: rec.Total})
		c.forget(j)
	}
	left += c.put(record.LinePuts(j.id, a.Base, lines), done)
	done(record.Answer{})
}

// pass ends a task without a line as lost.
func (c *Core) pass(j *job, it queue.Item) {
	c.record(j, it, record.Task{State: filch.Lost, Code: filch.ExitNodeLost})
}
