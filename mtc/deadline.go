package mtc

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// needs is the longest duration of a task: the task's own limit, else the job's expected
// duration; 0 if unknown. Own reports whether the task has a limit.
func (c *Core) needs(j *job, it *queue.Item) (need time.Duration, own bool) {
	if j.spec.Limits && c.cfg.Limit != nil {
		if need = c.ownLimit(j, j.payloads.Of(it.Index)); need > 0 {
			return need, true
		}
	}
	return c.expected(j), false
}

// ownLimit returns the limit that the payload of a task states, 0 for none.
func (c *Core) ownLimit(j *job, line []byte) time.Duration {
	if !j.spec.Limits || c.cfg.Limit == nil {
		return 0
	}
	return c.cfg.Limit(j.body(line))
}

// setAside keeps a task that cannot finish here apart from the tasks that can. The task
// becomes a single task, and a thief with more time may take the task.
func (c *Core) setAside(j *job, it queue.Item) bool {
	if !j.spec.Limits || c.cfg.Walltime.End == 0 {
		return false
	}
	need, own := c.needs(j, &it)
	if c.cfg.Walltime.Fits(c.now, need) {
		return false
	}
	if !own {
		need = 0 // the expected duration changes
	}
	j.queue.SetAside(it, need)
	c.victim.Fresh = true
	c.caps.Late(j)
	return true
}

// reconsider queues tasks again that were kept aside for the job's expected duration, if
// the expected duration has become less.
func (c *Core) reconsider(j *job) {
	if len(j.queue.Late) > 0 && c.fits(j) {
		j.queue.Reconsider()
	}
}

// means are this node's free room and tokens, remaining time and class of tasks. Without free
// room, the room is of idle slots held for a gang.
func (c *Core) means() message.Means {
	m := message.Means{Caps: c.caps.Words(), Free: c.exec.room.Left(&c.exec.used), Lengths: c.copies.Words()}
	if m.Fill = c.exec.idleGap(); m.Fill.Held() {
		m.Free = c.exec.gap.Room.Left(&c.exec.lent)
	} else {
		m.Class, m.Better = c.thief.class()
	}
	if end := c.cfg.Walltime.End; end > 0 {
		m.Left = max(end-c.now, 1)
	}
	return m
}

// inTime returns whether a task of a length can finish at a thief, and not here.
func (v *victim) inTime(m *message.Means) func(need time.Duration) bool {
	return func(need time.Duration) bool { return v.core.cfg.Walltime.Suits(m.Left, need) }
}

// lateRest is how long a node with tasks that cannot finish here does not look for more
// work: the node would take tasks from nodes with more time.
const lateRest = 5 * time.Second

// pace is a node's knowledge of how long tasks take.
type pace struct {
	estimates policy.Estimates
	late      time.Duration // until then the node does not look for work; see lateRest
}

// jobPace is the same knowledge for a single job.
type jobPace struct {
	durations policy.Durations
	late      bool // a task of the job was not started here: too little time is left
	backoff   policy.Backoff
	told      time.Duration // how long the tasks usually take, from the victim of a steal; 0: not told
}

// expected is the expected duration of a job's task: the job's limit, else an estimate
// from the job's ended tasks, else an estimate from earlier tasks of the job's kind; 0 if
// unknown. The tasks of a workflow differ, so a workflow has only its limit.
func (c *Core) expected(j *job) time.Duration {
	switch {
	case j.spec.Limit > 0 || c.cfg.Walltime.Blind || j.rec != nil && j.rec.Graph:
		return j.spec.Limit
	case j.pace.durations.Count() > 0:
		return j.pace.durations.Limit()
	}
	return j.spec.Expect
}

// fits reports whether a task of a job can finish here, as far as is known.
func (c *Core) fits(j *job) bool {
	return c.cfg.Walltime.End == 0 || c.cfg.Walltime.Fits(c.now, c.expected(j))
}

// mayStart reports whether the node looks at tasks of a job for a start. For tasks with
// limits of their own, setAside decides task by task.
func (j *job) mayStart() bool {
	if j.spec.Limits {
		return len(j.queue.Late) < policy.LateMax
	}
	return j.core.fits(j)
}

// tooLate notes that the node keeps tasks and does not start them any more, and notifies
// thieves.
func (c *Core) tooLate(j *job) {
	if !j.pace.late {
		j.pace.late, c.victim.Fresh = true, true
	}
	c.pace.late = c.now + lateRest
	c.caps.Late(j)
}

// learn takes in how long a task ran, and of a task that ended well how long the task had its
// slot.
func (c *Core) learn(r *run, e *End) {
	j, took := r.job, r.ran(c.now)
	ran := max(took-e.In-e.Out, 0)
	c.mover.ends.Ended(ran)
	if e.State != filch.OK {
		return
	}
	j.pace.durations.Add(took)
	j.pace.late = false // the new estimate may be less
	c.reconsider(j)
	kind := j.spec.Like
	if j.Graph() {
		n, _ := record.DecodeGraphNode(r.payload)
		kind = n.Kind
	}
	if j.spec.Copied() {
		c.copies.Learn(r.kind, took)
	}
	if j.leader == nil || j.leader.plan == nil { // else the plan learns the end with its record
		c.pace.estimates.Add(kind, c.cfg.Self, ran)
	}
}

// Learn takes in the duration of tasks of a name from an ended instance.
func (c *Core) Learn(name string, took time.Duration) { c.pace.estimates.Add(name, "", took) }
