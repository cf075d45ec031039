package mtc

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/ends"
	"github.com/filch-hpc/filch/mtc/lines"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/replica"
	"github.com/filch-hpc/filch/mtc/tokens"
)

// Config is the input of [New]; Self and Incarnation must be set.
type Config struct {
	Self        filch.NodeName
	Incarnation uint64
	Group       string // of nodes near to each other
	Labels      filch.Labels
	Role        filch.Role
	Total       filch.Room // the whole room of the node; zero: not known
	Seed        uint64
	WallNS      int64 // unix time at now = 0, for the times in records
	Policy      policy.Policy
	Victims     policy.Victims
	Bounds      policy.Bounds // of waits and bundles
	Walltime    policy.Walltime
	DrainBad    int                             // failures after which the node is bad; see [policy.Health]; 0: no number
	Limit       func(line []byte) time.Duration // a task's limit, by the line; 0: none
	Retry       func(line []byte) *record.Retry // a task's rule for retries, by the line; nil: none
	Need        func(line []byte) int           // the number of a task's need, by the line
	Fits        func(n record.Need) bool        // the nodes of today suffice for a gang; nil: they always do
	Members     *policy.Members                 // shared by a simulator's cores; nil: new
}

// Core is the many-task part of one node.
type Core struct {
	turn
	Gangs    Gangs
	Fills    Fills
	cfg      Config
	self     record.Owner
	jobs     map[filch.JobID]*job
	order    []*job // jobs with tasks here, in the order in which the tasks start
	exec     execution
	drain    drain
	commits  commits
	caps     tokens.Caps
	thief    thief
	copies   replica.Copies
	lines    lines.Reader
	victim   victim
	recorder ends.Recorder
	mover    mover
	orders   orderly
	failover failover
	waits    waits
	pace     pace
	arrivals queue.Arrivals
	rng      filch.Rand
}

// New makes a Core that knows no other member and may use no room yet.
func New(cfg Config) *Core {
	cfg.Bounds = cfg.Bounds.Defaulted()
	if cfg.Members == nil {
		cfg.Members = policy.NewMembers()
	}
	c := &Core{
		cfg: cfg, self: record.Owner{Node: cfg.Self, Incarnation: cfg.Incarnation},
		jobs: make(map[filch.JobID]*job), rng: filch.Rand(cfg.Seed),
	}
	c.waits.at = filch.Never
	c.commits.init(c)
	c.caps = tokens.New(node{c})
	c.exec.init(c)
	c.Gangs.core, c.Fills.core = c, c
	c.recorder = ends.New(node{c}, cfg.Bounds)
	c.failover.init(c)
	c.victim.init(c)
	c.thief.init(c)
	c.copies, c.lines = replica.New(node{c}), lines.NewReader(node{c})
	c.mover.init(c, cfg.Policy)
	c.orders.init(c)
	if p := c.cfg.Members.Get(cfg.Self); p == nil || p.Incarnation != cfg.Incarnation {
		c.cfg.Members.Set(filch.Member{Name: cfg.Self, Incarnation: cfg.Incarnation, Group: cfg.Group, Labels: cfg.Labels, Role: cfg.Role, Total: cfg.Total})
	}
	return c
}

// job is a node's knowledge of a job.
type job struct {
	core       *Core
	id         filch.JobID
	ticket     filch.Ticket
	spec       *record.Spec // nil: not received yet
	rec        *record.Job  // the record as last seen; nil: not received yet
	queue      readyQueue
	running    int32 // with successors
	successors int32
	alone      bool // see [Core.Alone]
	copies     copies
	pending    ends.Pending
	payloads   lines.Lines
	tokens     *tokens.Set // nil as long as the spec is not known
	pace       jobPace
	leader     *leader // where this node is the leader
	void       filch.State
	view       view
	unfit      bool          // this node does not suit the tasks: other nodes run them
	next       *filch.Room   // what the first task takes; the zero Room if that is not known
	need       int           // the number of its need
	gang       record.Gang   // its size; the zero Gang for a process, and if that is not known
	takes      int32         // its tokens; if that is not known, the least of all tasks
	least      int32         // the least number of tokens of a task
	most       int32         // the greatest number
	gatherAt   time.Duration // when the first task, a gang without room here, may gather; 0: not set
	over       bool          // finished: the node queues no more tasks
	follow     bool          // clients here follow the job
}

// readyQueue holds the ready tasks of one job on one node, and counts the tasks that come
// or go.
type readyQueue struct {
	queue.Ready
	listed    bool
	frozen    int64
	pending   int // takeovers and moves under way
	onceKnown []func()
}

// view is a node's view of a job's record. At most one lookup of the record is under way.
type view struct {
	watch   uint64 // tag of the watch; 0: none
	asked   bool   // lookups of spec and record were sent
	looking bool   // a lookup of the record is under way
	// again asks for another lookup after the present lookup, which may be older than a
	// message received since.
	again bool
	// orders is the highest serial of orders in a message: without these orders the node
	// starts nothing of the job.
	orders uint32
}

func (c *Core) job(id filch.JobID) *job {
	j := c.jobs[id]
	if j == nil {
		j = &job{id: id, core: c}
		c.jobs[id] = j
	}
	return j
}

// active puts a job among the jobs with startable tasks here.
func (c *Core) active(j *job) {
	if j.queue.listed || j.over || j.spec == nil || j.rec == nil {
		return
	}
	j.queue.listed = true
	i, _ := slices.BinarySearchFunc(c.order, j, func(a, b *job) int {
		if a.ticket.Older(b.ticket) {
			return -1
		}
		return 1
	})
	c.order = slices.Insert(c.order, i, j)
	c.victim.Fresh = true // thieves that the tasks of other jobs do not suit
}

// idle takes a job with empty queues off c.order.
func (c *Core) idle(j *job) {
	if j.queue.listed && j.queue.Empty() {
		j.queue.listed = false
		c.order = slices.DeleteFunc(c.order, func(k *job) bool { return k == j })
	}
}

// forget drops a job that has no work here and nothing left to send. The caller may have
// waited so long for an answer that the node forgot the job and received the job again
// since.
func (c *Core) forget(j *job) {
	if c.jobs[j.id] != j || j.leader != nil || j.follow || j.running > 0 || !j.queue.Empty() ||
		j.pending.Owed() || j.queue.frozen > 0 || j.queue.pending > 0 || j.copies.here > 0 ||
		!j.over && j.tokens.Open() {
		return
	}
	c.idle(j)
	c.unwatch(j)
	delete(c.jobs, j.id)
}

// settle ends an input: settle starts the tasks that fit, sends due records and messages,
// and looks for work if the node has none.
func (c *Core) settle() {
	c.thief.before()
	c.caps.Grant()
	c.exec.fill()
	c.copies.Start()
	clear(c.victim.gifts)
	c.victim.giveAway()
	c.mover.give()
	c.recorder.Flush()
	c.victim.offerNews()
	c.thief.Seek()
}

// SetRoom sets the total room of tasks, running tasks included. A smaller room ends no
// task: the next task waits.
func (c *Core) SetRoom(now time.Duration, r filch.Room, out *Out) {
	c.enter(now, out)
	c.exec.room = r
	c.settle()
}

// SetMember takes in the member list's entry of a node.
func (c *Core) SetMember(now time.Duration, m filch.Member, out *Out) {
	c.enter(now, out)
	old, known := c.cfg.Members.Set(m)
	if m.Name == c.cfg.Self {
		return
	}
	dead := m.Standing >= filch.Dead
	gone := known && old.Standing < filch.Dead && (dead || m.Incarnation != old.Incarnation)
	switch {
	case gone:
		c.mover.loads.Forget(m.Name)
		c.failover.onDeath(record.Owner{Node: m.Name, Incarnation: old.Incarnation})
	case m.Standing == filch.Gone && !(known && old.Standing == filch.Gone):
		// The node is gone and may live: only steps that can be undone.
		c.failover.onDeath(record.Owner{Node: m.Name, Incarnation: m.Incarnation})
	case dead && (!known || m.Incarnation != old.Incarnation):
		// This node knows nothing of that incarnation but its end.
		c.failover.onDeath(record.Owner{Node: m.Name, Incarnation: m.Incarnation})
	}
	if c.failover.Seen(m.Name) {
		c.Rehomed(now)
	}
	if m.Standing.Answers() {
		c.failover.remains.Forget(record.Owner{Node: m.Name, Incarnation: m.Incarnation})
	}
	if m.Standing == filch.Up && (!known || old.Standing != filch.Up || gone) {
		c.thief.onArrival(m.Name)
	}
	c.settle()
}

// Message receives a message of another node.
func (c *Core) Message(now time.Duration, from filch.NodeName, m message.Message, out *Out) {
	c.enter(now, out)
	c.victim.Comers.Heard(from)
	switch m := m.(type) {
	case *message.LoadAsk:
		c.victim.onLoadAsk(from, m)
	case *message.LoadSay:
		c.thief.onLoad(from, m)
	case *message.WorkAsk:
		c.mover.send(from, &message.WorkSay{Load: c.mover.load()})
	case *message.WorkSay:
		c.mover.said(from, m)
	case *message.Steal:
		c.victim.onSteal(from, m)
	case *message.Offer:
		c.thief.onOffer(from, m)
	case *message.Done:
		c.victim.onDone(from, m)
	case *message.News:
		c.thief.Urge.Heard(m.Class, from)
		c.thief.News(from, m.Source)
	case *message.CopySay:
		c.copies.Said(from, m)
	case *message.CopyAnswer:
		c.copies.Answered(from, m)
	case *message.Void:
		if j := c.jobs[m.Job]; j != nil {
			c.void(j, m.State)
		}
	case *message.Told:
		c.onTold(from, m)
	case *message.ToldAck:
		c.onToldAck(m)
	case *message.Ordered:
		c.orders.onOrdered(from, m)
	case *message.OrderedAck:
		c.orders.onOrderedAck(from, m)
	case *message.Grown:
		if j := c.jobs[m.Job]; j != nil && j.leader != nil {
			c.lookJob(j)
		}
	}
	c.settle()
}

// wall is the time of day in unix ns.
func (c *Core) wall(at time.Duration) int64 { return c.cfg.WallNS + int64(at) }

// Tick does the work that is due at now.
func (c *Core) Tick(now time.Duration, out *Out) {
	c.enter(now, out)
	out.Proposals = c.commits.Again(now, out.Proposals)
	c.victim.tick()
	c.thief.Tick()
	c.mover.tick()
	c.copies.Tick()
	c.tickWaits()
	if c.failover.Due(now) {
		out.Sweep = true
	}
	c.settle()
}

// Deadline is when [Core.Tick] is due.
func (c *Core) Deadline() time.Duration {
	return min(c.commits.At(), c.victim.at, c.thief.At(), c.mover.at, c.waits.at, c.failover.At(), c.recorder.At(), c.copies.At())
}

// Short is the need of the next task to start, if that task finds no room; false if no
// task waits for room. A gang that never fits here waits as runs wait.
func (c *Core) Short(now time.Duration) (filch.Room, bool) {
	c.enter(now, c.out)
	for _, j := range c.order {
		if !j.queue.Startable() && !c.caps.Due(j) || j.barred() || !j.mayStart() {
			continue
		}
		if !c.exec.room.HoldsBeside(&c.exec.used, j.next) && !c.exec.mustGather(j) {
			return *j.next, true
		}
	}
	return filch.Room{}, false
}

// Queues counts the tasks of all jobs of the node.
func (c *Core) Queues() (q queue.Counts) {
	for _, j := range c.jobs { // any order: sums
		q.Add(j.queues())
	}
	return q
}

func (j *job) queues() queue.Counts {
	q := queue.Counts{
		Dedicated: int64(len(j.queue.Dedicated) + len(j.queue.Resting) + int(j.successors)), Shared: j.queue.Shareable() + int64(len(j.queue.Unfit)), Frozen: j.queue.frozen,
		Running: int64(j.running - j.copies.run - j.successors), Complete: j.pending.Unsaid(),
	}
	if j.leader != nil && j.leader.graph != nil {
		q.Waiting = int64(j.leader.tracker.Waiting())
	} else if j.leader != nil && j.leader.each != nil {
		q.Waiting = int64(j.leader.each.Waiting())
	}
	return q
}

// JobStatus is this node's knowledge of a job: the node's own part, and the record as
// last seen (nil before).
type JobStatus struct {
	Job     filch.JobID
	Here    queue.Counts
	Opening int64 // part of Running: the node is recording the start
	Spec    *record.Spec
	Record  *record.Job
	Leads   bool
	Ending  bool // the node records ends of tasks, or has the job count them
	Pace    policy.Pace
	Need    int   // number of the need of a task that waits here, as in [record.Spec.Need]
	Takes   int32 // what a task that waits here takes of the job's license
	Began   int64 // unix ns of the first start on this node; 0 none
}

// Job is the node's knowledge of a job.
func (c *Core) Job(id filch.JobID) (JobStatus, bool) {
	j := c.jobs[id]
	if j == nil {
		return JobStatus{}, false
	}
	s := JobStatus{Job: id, Here: j.queues(), Spec: j.spec, Record: j.rec, Leads: j.leader != nil, Ending: j.pending.Owed(), Began: j.pending.Began()}
	for _, r := range c.exec.list.All() {
		switch {
		case r.job != j:
		case !r.started || r.opening:
			s.Opening++
		case r.gang().Ranks > 0 && r.stage != launched:
			s.Here.Running--
			s.Here.Dedicated++
		}
	}
	switch s.Need = j.need; {
	case j.queue.Startable():
	case len(j.queue.Unfit) > 0:
		s.Need = int(j.queue.Unfit[0].Need) - 1
	case len(j.queue.Lacking) > 0:
		s.Need = int(j.queue.Lacking[0].Need) - 1
	}
	if j.spec != nil {
		s.Takes = j.Wants()
		s.Pace = policy.Pace{Expected: c.expected(j), Of: j.pace.durations.Count(), Late: j.pace.late && !j.queue.Empty(), Aside: int64(len(j.queue.Late)), Resting: int64(len(j.queue.Resting)), Again: j.queue.Again()}
	}
	return s, true
}

// Idle reports whether the node knows no job.
func (c *Core) Idle() bool { return len(c.jobs) == 0 }

func (c *Core) sortedJobs() []*job {
	list := make([]*job, 0, len(c.jobs))
	for _, j := range c.jobs { // any order: sorted below
		list = append(list, j)
	}
	slices.SortFunc(list, func(a, b *job) int { return cmp.Compare(a.id, b.id) })
	return list
}
