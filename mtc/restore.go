package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/graph"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/report"
)

// leftover is the tasks to queue of a job from an earlier instance, once the job may
// begin.
type leftover struct {
	queue.Left
	skipped []int32 // of a graph: tasks whose parents did not end well
	bad     bool    // a task did not end well
}

// Restore goes on with a settled job of an earlier instance; the job's number must be
// free. The clients receive the same news as for a submission. For a finished job,
// Restore writes the record and no more.
func (c *Core) Restore(now time.Duration, r *queue.RecoveredJob, out *Out) error {
	c.enter(now, out)
	if c.jobs[r.ID] != nil {
		return filch.Errorf(filch.Invalid, "job %d exists", r.ID)
	}
	rec := *r.Job
	rec.Leader, rec.Hop = c.self, 0
	if rec.Finished() {
		c.commits.merge(record.KeyJob(r.ID), record.RecordJob, record.EncodeJobOp(record.JobOp{Kind: record.JobCreate, Job: &rec}), func(a record.Answer) {
			t := report.Tell{Job: r.ID, What: report.TellAccepted, Total: rec.Total}
			if v, _, err := record.DecodeJobReply(a.Value); a.Status != record.AnswerDone || err != nil || v != record.VerdictDone {
				t.What, t.Error = report.TellRefused, filch.Errorf(filch.Unavailable, "cannot restore job %d: its number is taken", r.ID)
			}
			c.out.Tells = append(c.out.Tells, t)
		})
		return nil
	}
	l := newLeader(r.ID, &rec, r.Lengths())
	l.total, l.left = rec.Total, &leftover{Left: r.Left()}
	if rec.Graph {
		nodes, err := r.Nodes()
		if err != nil {
			return err
		}
		g, err := graph.Of(nodes)
		if err != nil {
			return err
		}
		l.take(c, g, nodes, r.Spec.OnFail)
	}
	if rec.Graph || l.each != nil {
		l.restoreSingles(r)
	}
	if rec.Zones = r.Tallies(); rec.Finished() && rec.Ended == 0 {
		rec.Ended = c.wall(now)
	}
	j := c.job(r.ID)
	j.ticket, j.view.asked, j.rec, j.leader, j.void = rec.Ticket, true, &rec, l, rec.Void
	c.specify(j, r.Spec)
	c.putJob(j, r.Puts(c.self), func(a record.Answer) bool { return a.Status == record.AnswerDone })
	c.settle()
	return nil
}

// restoreSingles takes in the ends of a job whose tasks begin one by one.
func (l *leader) restoreSingles(r *queue.RecoveredJob) {
	l.tried = l.left.Singly()
	ended := make(map[int32]bool)
	var skipped []int32
	for index, t := range r.Ends() {
		if l.each != nil {
			l.each.Took(index)
			continue
		}
		ended[index] = true
		_, s := l.tracker.End(index, t.State, t.Bytes, t.By.Node)
		l.plan.Ended(index, t.State, t.By.Node, t.Ran(), t.Bytes)
		skipped = append(skipped, s...)
		l.left.bad = l.left.bad || graph.Stops(t.State)
	}
	l.left.skipped = slices.DeleteFunc(skipped, func(i int32) bool { return ended[i] })
}

// requeue queues the remaining tasks of a recovered job.
func (c *Core) requeue(j *job) {
	left := j.leader.left
	if left == nil {
		return
	}
	j.leader.left = nil
	j.queue.Requeue(&left.Left)
	for _, i := range left.skipped {
		c.record(j, queue.Item{Index: i, Attempt: record.FirstAttempt}, record.Task{State: filch.Skipped})
	}
	if left.bad && j.spec.OnFail == record.FailStop && !j.leader.failing && j.void == 0 {
		j.leader.failing = true
		c.voidJob(j, filch.Skipped)
	}
	c.active(j)
	c.orders.obey(j)
}
