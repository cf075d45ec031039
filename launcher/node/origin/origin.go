package origin

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/launcher/node/tasks"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/slots"
)

// Origin holds the jobs of this node's clients, from the submission to the end, and the
// jobs taken over from a lost node. Origin numbers the jobs, gathers their slots,
// launches them and decides how they end. A job is in jobs exactly until the client is
// told the job's end.
type Origin struct {
	*local.Self
	*joblist
	*numbering
	*gatherqueue
	*attempts
	*lostranks
	*parents
	*endings
	*explainer
	*returns
	*knot
	*walltime
	*scout
	*reservations
	*requeues
	*arrays
	*awaits
	*spares
	Gangs   *Gangs
	records *records.Records
	ranks   ownRanks
	tasks   ownTasks

	handedOver map[filch.JobID]time.Duration // jobs given up for another node
}

// ownRanks is the interface of the origin to this node's own part in attempts, besides
// messages.
type ownRanks interface {
	// TakePart starts a launch on slots already lent by this node to itself.
	TakePart(t *local.Turn, l *launcher.Launch, index int32, loan slots.Loan, open bool)
	LaunchOf(k slots.Key) *launcher.Launch
	LaunchIn(job filch.JobID) *launcher.Launch
	RunsAlone(job filch.JobID) *launcher.Launch
	AwaitHeir(t *local.Turn, id filch.JobID)
}

// ownTasks is the interface of the origin to the tasks running here.
type ownTasks interface {
	TaskOf(parent filch.JobID, task uint64) *tasks.Running
	Reserve(t *local.Turn, id filch.JobID, p record.License)
	Unreserve(t *local.Turn, id filch.JobID, p record.License)
}

// New makes the part of a node that owns the jobs of its clients.
func New(s *local.Self, m *records.Records, h ownRanks, w ownTasks, gangs gangTasks) *Origin {
	jobs := &joblist{Self: s, jobs: make(map[filch.JobID]*job)}
	o := &Origin{
		Self: s, joblist: jobs, records: m, ranks: h, tasks: w, handedOver: make(map[filch.JobID]time.Duration),
	}
	o.Gangs = &Gangs{joblist: jobs, origin: o, tasks: gangs}
	o.walltime = newWalltime(s)
	o.returns = &returns{Self: s}
	o.scout = &scout{Self: s, sought: make(map[filch.NodeName]search)}
	o.reservations = &reservations{joblist: jobs, tasks: w, origin: o}
	o.parents = &parents{joblist: jobs, tasks: w, hosts: make(map[uint64]*job)}
	o.gatherqueue = &gatherqueue{joblist: jobs, origin: o, recorder: m, walltime: o.walltime}
	o.lostranks = &lostranks{joblist: jobs, origin: o, ranks: h, line: o.gatherqueue}
	o.numbering = &numbering{joblist: jobs, records: m, ranks: h, origin: o, say: filch.Never}
	o.attempts = &attempts{
		joblist: jobs, origin: o, records: m, ranks: h, line: o.gatherqueue, lost: o.lostranks, parents: o.parents, tasks: gangs, renewAt: filch.Never,
	}
	o.spares = &spares{joblist: jobs, attempts: o.attempts}
	o.gatherqueue.spares = o.spares
	o.knot = &knot{joblist: jobs, origin: o, ranks: h, tasks: w, line: o.gatherqueue, parents: o.parents, at: filch.Never}
	o.endings = &endings{joblist: jobs, records: m, origin: o, clients: make(map[launcher.ClientID][]filch.JobID), forgets: filch.Never}
	o.requeues = &requeues{joblist: jobs, attempts: o.attempts, endings: o.endings}
	o.arrays = &arrays{joblist: jobs, origin: o, groups: make(map[string]*array)}
	o.awaits = &awaits{joblist: jobs, records: m, origin: o}
	o.explainer = &explainer{joblist: jobs, records: m, endings: o.endings, line: o.gatherqueue, knot: o.knot, walltime: o.walltime, scout: o.scout}
	return o
}

// Next returns when the next timer of a job expires.
func (o *Origin) Next() time.Duration { return o.timers.Next() }

// TickNext handles the job whose timer expires next.
func (o *Origin) TickNext(t *local.Turn) {
	e := o.timers.Pop()
	if j := o.jobs[e.Key.Job]; j != nil && j.due == e.At {
		j.due = filch.Never
		o.tickJob(t, j)
	}
}

// Tick does everything due besides the timers of single jobs.
func (o *Origin) Tick(t *local.Turn) {
	if o.attempts.renewAt <= t.Now {
		o.attempts.renewAll(t)
	}
	o.returns.resendStepDone(t)
	o.spares.between.Tick(t)
}

// Deadline is when a timer of a job or of a smaller part is due.
func (o *Origin) Deadline() time.Duration {
	next := o.timers.NextValid(func(e local.Timer) bool { j := o.jobs[e.Key.Job]; return j != nil && j.due == e.At })
	d := min(next, o.attempts.renewAt, o.knot.at, o.endings.forgets, o.walltime.drainAt, o.numbering.say, o.spares.between.At())
	for i := range o.returns.owed {
		d = min(d, o.returns.owed[i].again)
	}
	return d
}
