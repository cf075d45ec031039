package launcher

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// The terms of a job at its origin.
const (
	// SayAfter and SayEvery are when a client hears that its job still waits.
	SayAfter = 5 * time.Second
	SayEvery = 30 * time.Second
	// refreshBefore is how long before that the busiest places are asked anew.
	refreshBefore = 200 * time.Millisecond
	// RepeatMin doubles up to RepeatMax between repetitions of what a
	// participant did not answer.
	RepeatMin = 500 * time.Millisecond
	RepeatMax = 4 * time.Second
	// PrepareWait is how long the keepers may take until all are ready.
	PrepareWait = 60 * time.Second
	// RenewEvery is the time between renewals of the leases of running jobs,
	// aggregated by peer. JobTerm is how long a participant keeps ranks without
	// a word of the origin; from PullAfter on it asks for one every PullEvery,
	// so that a renewal that was lost costs nothing.
	RenewEvery = 6 * time.Second
	JobTerm    = 10 * time.Second
	PullAfter  = 6500 * time.Millisecond
	PullEvery  = time.Second
	// ReadoptWait is how long a participant whose launcher was restarted may
	// take to say that its ranks are still there.
	ReadoptWait = 7 * time.Second
	// FailGrace is the time between TERM and KILL for the ranks of a job that
	// a rank, a keeper or a node already ended: all is gone within 2 s.
	FailGrace = time.Second
	// MaxAttempts bounds the starts of a job that lost nodes (--requeue), and
	// MaxGates the launches that failed behind the gate.
	MaxAttempts = 5
	MaxGates    = 20
)

// job is a job at its origin, until it ended.
type job struct {
	id      filch.JobID
	attempt filch.Attempt
	ticket  filch.Ticket
	req     Request
	need    stealer.Need
	seen    audience
	state   filch.State
	times
	gather *stealer.Gather
	run    *run
	step   *step
	hosting
	lined bool // waits for its turn to gather
	clock jobClock
	kept  kept
	due   time.Duration // of its entry in the agenda
}

// hosting is a job's side as the parent of steps.
type hosting struct {
	guests []*guest
	task   *host // a task that has steps, in the shape of a job; see host
}

// times is how long a job has waited.
type times struct {
	submitted time.Duration
	waited    time.Duration
}

// audience is who is told of a job.
type audience struct {
	client ClientID // whose end ends an attached job
	here   bool     // that client is connected
}

// jobClock is the moments of a waiting job.
type jobClock struct {
	say     time.Duration // StillWaiting is due
	refresh time.Duration
	patient time.Duration // gives up
	reclaim time.Duration // attached, restored: the client must be back
	fence   time.Duration // what was lost may run until then: no attempt before; Never: none
	ask     time.Duration // for what was lost
	losses  int32         // attempts that lost a node
	gates   int32         // launches that failed behind the gate
}

func (j *job) key() slots.Key { return slots.Key{Job: j.id, Attempt: j.attempt} }

func (n *Node) newJob(now time.Duration, id filch.JobID, r Request, need stealer.Need, unixNS int64) *job {
	j := &job{
		id: id, attempt: 1, req: r, need: need, times: times{submitted: now}, due: filch.Never,
		ticket: filch.Ticket{Class: r.Class, UnixNS: unixNS, Job: id},
	}
	j.clock = jobClock{say: filch.Never, refresh: filch.Never, patient: filch.Never, reclaim: filch.Never, fence: filch.Never, ask: filch.Never}
	n.jobs[id] = j
	return j
}

// tell sends an event to the client of a job.
func (n *Node) tell(j *job, e Event, out *Outbox) {
	if j.seen.here {
		out.Replies = append(out.Replies, Reply{j.seen.client, e})
	}
}

// deadline is when tickJob is due.
func (j *job) deadline() time.Duration {
	c := &j.clock
	d := min(c.say, c.refresh, c.patient, c.reclaim, c.fence, c.ask)
	if j.gather != nil {
		d = min(d, j.gather.Deadline())
	}
	if j.step != nil && j.run == nil {
		d = min(d, j.step.again)
	}
	if j.run != nil {
		d = min(d, j.run.deadline())
	}
	return d
}

func (n *Node) tickJob(now time.Duration, j *job, out *Outbox) {
	switch {
	case j.clock.patient <= now:
		n.impatient(now, j, out)
	case j.clock.reclaim <= now-stoodStill:
		j.clock.reclaim = now + ReclaimWait
	case j.clock.reclaim <= now:
		j.clock.reclaim = filch.Never
		n.clientLost(now, j, out)
	case j.clock.fence <= now:
		n.unfence(now, j, out)
	case j.clock.ask <= now:
		n.askLost(now, j, out)
	case j.run != nil:
		n.tickRun(now, j, out)
	case j.step != nil:
		n.tickStep(now, j, out)
	case j.gather != nil:
		n.tickGather(now, j, out)
	}
	n.tickSay(now, j, out)
	if n.jobs[j.id] == j {
		n.wakeJob(j, j.deadline())
	}
}

// impatient ends a job that was to start at once or by some time (-I).
func (n *Node) impatient(now time.Duration, j *job, out *Outbox) {
	j.clock.patient = filch.Never
	if j.run != nil {
		return
	}
	why := ""
	if need := n.expectedRun(&j.req, j.need.Ranks); need > 0 {
		why = ", and now it could not finish: " + habitText(&j.req, j.need.Ranks, need)
	}
	err := filch.Errorf(filch.Timeout, "cannot start job %d: no room for %d ranks within %s%s", j.id, j.need.Ranks, shortly(j.req.Patient), why).
		WithHint("%s", n.missing(j))
	n.letGo(now, j, nil, out)
	n.refuse(now, j, err, out)
}

// refuse ends a job that could not be started.
func (n *Node) refuse(now time.Duration, j *job, err *filch.Error, out *Outbox) {
	e := EndRecord{State: filch.Failed, Code: filch.ExitOurs, Cause: Cause{Kind: CauseOurs, Rank: -1, Text: err.Text}}
	n.dismiss(now, j, e, Refused{Err: *err, Code: filch.ExitOurs}, out)
}
