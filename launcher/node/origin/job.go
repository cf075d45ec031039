package origin

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/mtc/before"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// The terms of a job at its origin.
const (
	// SayAfter and SayEvery are when the client of a waiting job gets a StillWaiting.
	SayAfter = 5 * time.Second
	SayEvery = 30 * time.Second
	// refreshBefore is how long before a StillWaiting some lenders are asked again.
	refreshBefore = 200 * time.Millisecond
	// repeatMin is the pause before an unanswered message to a participant is repeated;
	// the pause doubles up to RepeatMax.
	repeatMin = 500 * time.Millisecond
	RepeatMax = 4 * time.Second
	// renewEvery is the time between renewals of the leases of running jobs,
	// aggregated by peer.
	renewEvery = 6 * time.Second
	// ReadoptWait is how long a participant may take after a restart of its
	// launcher to report its ranks.
	ReadoptWait = 7 * time.Second
	// MaxAttempts bounds the starts of a job that lost nodes (--requeue), and
	// maxGates the launches that failed behind the gate.
	MaxAttempts = 5
	maxGates    = 20
)

// job is a job at its origin, until the end of the job.
type job struct {
	id         filch.JobID
	attempt    filch.Attempt // distinguishes leases and launches
	unlaunched int32         // attempts before this one without a launch; see try
	launched   bool          // under this attempt
	ticket     filch.Ticket
	req        launcher.Request
	need       stealer.Need
	seen       audience
	state      filch.State
	submitted  time.Duration
	waited     time.Duration // until the gate opened
	gather     *stealer.Gather
	spares     local.Kept // room kept for the next attempt
	run        *run
	step       *step
	guests     []*guest
	steps      int32  // submitted so far
	task       *int32 // the index of a task with steps in the shape of a job; see host
	gang       uint64 // the serial of the task that this run is; 0: a run of its own
	lined      bool   // in line to gather
	reserving  reserving
	wait       *before.Wait // for other jobs, or a time; nil: for none
	behind     bool         // waits for the end of another job of its array
	clock      jobClock
	kept       kept
	due        time.Duration // the earliest timer
}

// audience is the client that gets the events of a job.
type audience struct {
	client launcher.ClientID // an attached job ends with this client
	here   bool              // the client is connected
}

// jobClock is the moments of a waiting job.
type jobClock struct {
	say       time.Duration // StillWaiting is due
	refresh   time.Duration
	patient   time.Duration // gives up
	reclaim   time.Duration // attached, restored: the client must be back
	lostUntil time.Duration // lost ranks may run until then: no attempt before; Never: none
	ask       time.Duration // nodes for lost ranks
	look      time.Duration // at the jobs that the job waits for
	losses    int32         // attempts with a lost node
	gates     int32         // launches that failed behind the gate
}

func (j *job) key() slots.Key { return slots.Key{Job: j.id, Attempt: j.attempt} }

// try is the number of the start as the ranks and people see the number: it counts launches.
func (j *job) try() filch.Attempt { return j.attempt - filch.Attempt(j.unlaunched) }

// next goes on to the next attempt.
func (j *job) next() {
	if !j.launched {
		j.unlaunched++
	}
	j.launched = false
	j.attempt++
}

func (o *Origin) newJob(now time.Duration, id filch.JobID, r launcher.Request, need stealer.Need, unixNS int64) *job {
	j := &job{
		id: id, attempt: 1, req: r, need: need, submitted: now, due: filch.Never,
		ticket: filch.Ticket{Class: r.Class, UnixNS: unixNS, Job: id},
	}
	j.clock = jobClock{say: filch.Never, refresh: filch.Never, patient: filch.Never, reclaim: filch.Never, lostUntil: filch.Never, ask: filch.Never, look: filch.Never}
	o.jobs[id] = j
	return j
}

// tell sends an event to the client of a job.
func (o *Origin) tell(t *local.Turn, j *job, e launcher.Event) {
	if j.seen.here {
		t.Reply(j.seen.client, e)
	}
}

// deadline is when tickJob is due.
func (j *job) deadline() time.Duration {
	c := &j.clock
	d := min(c.say, c.refresh, c.patient, c.reclaim, c.lostUntil, c.ask, c.look)
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

func (o *Origin) tickJob(t *local.Turn, j *job) {
	switch {
	case j.clock.patient <= t.Now:
		o.startTimeout(t, j)
	case j.clock.reclaim <= t.Now-stoodStill:
		j.clock.reclaim = t.Now + ReclaimWait
	case j.clock.reclaim <= t.Now:
		j.clock.reclaim = filch.Never
		o.onClientLost(t, j)
	case j.clock.lostUntil <= t.Now:
		o.lostranks.stopWaiting(t, j)
	case j.clock.ask <= t.Now:
		o.lostranks.askLost(t, j)
	case j.wait != nil:
		if j.clock.look <= t.Now {
			o.awaits.judge(t, j)
		}
	case j.run != nil:
		o.attempts.tickRun(t, j)
	case j.step != nil:
		o.tickStep(t, j)
	case j.gather != nil:
		o.gatherqueue.tickGather(t, j)
	}
	o.tickSay(t, j)
	if o.jobs[j.id] == j {
		o.wakeJob(j, j.deadline())
	}
}

// startTimeout ends a job that did not start in its time (-I).
func (o *Origin) startTimeout(t *local.Turn, j *job) {
	j.clock.patient = filch.Never
	if j.run != nil {
		return
	}
	why := ""
	if need := o.walltime.expectedRun(&j.req, j.need.Ranks); need > 0 {
		why = ", and a job that starts now could not finish: " + durationText(&j.req, j.need.Ranks, need)
	}
	lacks := "no room for " + filch.Plural(j.need.Ranks, "rank")
	if j.wait != nil {
		lacks = "its conditions were not met"
	}
	err := filch.Errorf(filch.Timeout, "cannot start job %d: %s within %s%s", j.id, lacks, filch.ShortTime(j.req.Patient), why).
		WithHint("%s", o.explainer.missing(j))
	o.gatherqueue.releaseHolds(t, j, nil)
	o.refuse(t, j, err)
}

// refuse ends a job that could not be started.
func (o *Origin) refuse(t *local.Turn, j *job, err *filch.Error) {
	e := launcher.EndRecord{State: filch.Failed, Code: filch.ExitOurs, Cause: launcher.Cause{Kind: launcher.CauseOurs, Rank: -1, Text: err.Text}}
	o.dismiss(t, j, e, launcher.Refused{Err: *err, Code: filch.ExitOurs})
}
