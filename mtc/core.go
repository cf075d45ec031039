package mtc

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Config is what a [Core] is made with; Self and Incarnation must be set.
type Config struct {
	Self        filch.NodeName
	Incarnation uint64
	Group       string // of nodes near to each other
	Seed        uint64
	WallNS      int64 // unix time at now = 0, for the times in records
	Policy      Policy
	Victims     Victims
	PollMax     time.Duration // bound of the doubling wait of a thief; 0 is [PollMax]
	Walltime    Walltime
	Limit       func(line []byte) time.Duration // a task's own, by its line; 0 none
	Members     *Members                        // shared by a simulator's cores; nil: one of its own
}

// Core is the many-task part of one node.
type Core struct {
	cfg     Config
	self    Owner
	members *Members
	jobs    map[filch.JobID]*job
	order   []*job // those with tasks here, in the order in which they start
	space
	runs    runs
	commits commits
	thief   thief
	victim  victim
	dirty   dirty
	policy  mover
	sweeps  sweeps
	waits   waits
	pace    pace
	rng     rng
}

// space is what tasks may use on a node, and what they do.
type space struct {
	room, used Room
	shed       shed
}

// New makes a Core that knows no member but itself and may use no room yet.
func New(cfg Config) *Core {
	if cfg.PollMax <= 0 {
		cfg.PollMax = PollMax
	}
	if cfg.Members == nil {
		cfg.Members = NewMembers()
	}
	c := &Core{
		cfg: cfg, self: Owner{cfg.Self, cfg.Incarnation}, members: cfg.Members,
		jobs: make(map[filch.JobID]*job), rng: rng(cfg.Seed),
	}
	c.commits.open = make(map[uint64]*commit)
	c.commits.retryAt, c.sweeps.at, c.waits.at = filch.Never, filch.Never, filch.Never
	c.sweeps.unseen = make(map[filch.NodeName]time.Duration)
	c.victim.init()
	c.thief.init()
	c.policy.init(cfg.Policy)
	if p := c.members.find(cfg.Self); p == nil || p.Incarnation != cfg.Incarnation {
		c.members.Set(Member{Name: cfg.Self, Incarnation: cfg.Incarnation, Up: true, Group: cfg.Group})
	}
	return c
}

// job is what a node knows of a job that it has to do with.
type job struct {
	id       filch.JobID
	ticket   filch.Ticket
	spec     *Spec // nil: asked for
	rec      *Job  // its record as last seen; nil: asked for
	queue    queue
	running  int32
	records  records
	payloads payloads
	tokens   tokens
	pace     jobPace
	lead     *lead // where this node is the steward
	void     filch.State
	looks
	over   bool // finished: nothing is queued any more
	follow bool // clients here want to hear of it
	watch  uint64
}

// looks are what was asked of the store.
type looks struct {
	asked   bool // spec and record were asked for
	looking bool // the record is being looked up
	again   bool // and is to be once more: it may be older than what somebody heard of it
}

// stamp tells the times apart at which the same index came to a node.
type stamp struct {
	index   int32
	attempt filch.Attempt
	hop     uint32
}

func (c *Core) job(id filch.JobID) *job {
	j := c.jobs[id]
	if j == nil {
		j = &job{id: id}
		j.queue.held = make(map[int32]stamp)
		c.jobs[id] = j
	}
	return j
}

// active puts a job among those that start tasks here.
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
}

// idle takes a job with nothing left off that list, and forgets it when
// nothing is owed for it any more.
func (c *Core) idle(j *job) {
	if j.queue.listed && j.queue.empty() {
		j.queue.listed = false
		c.order = slices.DeleteFunc(c.order, func(k *job) bool { return k == j })
	}
}

// forget drops what is known of jobs that are over here. Who asks may have waited
// for an answer so long that the job was forgotten and came here again since.
func (c *Core) forget(j *job, out *Out) {
	if c.jobs[j.id] != j || j.lead != nil || j.follow || j.running > 0 || !j.queue.empty() ||
		j.records.owed() || j.queue.frozen > 0 || j.queue.pending > 0 ||
		!j.over && (j.tokens.held > 0 || j.tokens.asking) {
		return
	}
	c.idle(j)
	c.unwatch(j, out)
	delete(c.jobs, j.id)
}

// settle ends an input: it starts what can start, sends off what is due and
// looks for work where there is none.
func (c *Core) settle(now time.Duration, out *Out) {
	c.fill(now, out)
	c.giveAway(now, out)
	c.flush(now, out)
	c.offerNews(now, out)
	c.seek(now, out)
}

// SetRoom says what tasks may use in all from now on, those that run included.
// A smaller room ends nothing: the next task waits.
func (c *Core) SetRoom(now time.Duration, r Room, out *Out) {
	c.room = r
	c.settle(now, out)
}

// SetMember takes in what the member list says of a node.
func (c *Core) SetMember(now time.Duration, m Member, out *Out) {
	old, known := c.members.Set(m)
	if m.Name == c.cfg.Self {
		return
	}
	gone := known && !old.Dead && (m.Dead || m.Incarnation != old.Incarnation)
	switch {
	case gone:
		c.died(now, Owner{m.Name, old.Incarnation}, out)
	case m.Gone && !m.Dead && !(known && old.Gone):
		c.died(now, Owner{m.Name, m.Incarnation}, out) // as far as can be undone
	case m.Dead && (!known || m.Incarnation != old.Incarnation):
		c.died(now, Owner{m.Name, m.Incarnation}, out) // of that life nothing was heard but its end
	}
	c.seen(now, m.Name)
	if m.Up && (!known || !old.Up || gone) {
		c.arrived(now, m.Name)
	}
	c.settle(now, out)
}

// Message takes in a message of another node.
func (c *Core) Message(now time.Duration, from filch.NodeName, m Message, out *Out) {
	switch m := m.(type) {
	case *LoadAsk:
		c.loadAsked(now, from, m, out)
	case *LoadSay:
		c.loadSaid(now, from, m, out)
	case *Steal:
		c.stolen(now, from, m, out)
	case *Offer:
		c.offered(now, from, m, out)
	case *Done:
		c.taken(now, from, m, out)
	case *News:
		c.heardNews(now, out)
	case *Void:
		if j := c.jobs[m.Job]; j != nil {
			c.void(now, j, m.State, out)
		}
	case *Told:
		c.told(now, from, m, out)
	case *ToldAck:
		c.toldAck(m)
	case *Grown:
		if j := c.jobs[m.Job]; j != nil && j.lead != nil {
			c.lookJob(j, out)
		}
	}
	c.settle(now, out)
}

// wall is the time of day in unix ns.
func (c *Core) wall(now time.Duration) int64 { return c.cfg.WallNS + int64(now) }

func (c *Core) send(to filch.NodeName, m Message, out *Out) {
	out.Sends = append(out.Sends, Send{To: to, Message: m})
}

// Tick does what is due at now.
func (c *Core) Tick(now time.Duration, out *Out) {
	c.retryCommits(now, out)
	c.tickXfers(now, out)
	c.tickThief(now, out)
	c.tickMover(now)
	c.tickWaits(now, out)
	if c.sweeps.at <= now {
		c.sweeps.at = filch.Never
		c.sweeps.asked = true
		out.Sweep = true
	}
	c.settle(now, out)
}

// Deadline is when [Core.Tick] is due.
func (c *Core) Deadline() time.Duration {
	return min(c.commits.retryAt, c.victim.at, c.thief.deadline(), c.policy.at, c.waits.at, c.sweeps.at, c.dirty.at())
}

// Short is what the task takes that is to start next and finds no room; false
// when none waits for room.
func (c *Core) Short(now time.Duration) (Room, bool) {
	if c.shed.on {
		return Room{}, false
	}
	for _, j := range c.order {
		if !j.queue.startable() || j.void != 0 || j.lead != nil && !j.lead.open || j.pace.barren.until > now || !c.mayStart(now, j) {
			continue
		}
		if !c.room.minus(c.used).holds(j.spec.Each) {
			return j.spec.Each, true
		}
	}
	return Room{}, false
}

// Queues counts a node's tasks by where they are.
type Queues struct {
	Waiting   int64 // for other tasks, of graphs that this node leads
	Dedicated int64 // ready, to be run here
	Shared    int64 // ready, may be stolen
	Frozen    int64 // offered to a thief
	Running   int64
	Complete  int64 // ended, not yet recorded
}

// Queues are the node's queues.
func (c *Core) Queues() (q Queues) {
	for _, j := range c.jobs { // any order: sums
		q.add(j.queues())
	}
	return q
}

func (q *Queues) add(p Queues) {
	q.Waiting += p.Waiting
	q.Dedicated += p.Dedicated
	q.Shared += p.Shared
	q.Frozen += p.Frozen
	q.Running += p.Running
	q.Complete += p.Complete
}

func (j *job) queues() Queues {
	q := Queues{
		Dedicated: int64(len(j.queue.dedicated.list)), Shared: j.queue.shareable(), Frozen: j.queue.frozen,
		Running: int64(j.running), Complete: j.records.unsaid,
	}
	if j.lead != nil && j.lead.graph != nil {
		q.Waiting = int64(j.lead.tracker.waiting)
	}
	return q
}

// JobStatus is what this node knows of a job: its own part, and the record as
// last seen (nil before).
type JobStatus struct {
	Job     filch.JobID
	Here    Queues
	Opening int64 // of the running ones: their start is being recorded
	Spec    *Spec
	Record  *Job
	Leads   bool
	Pace    Pace
}

// Pace is how long a task of a job is taken to take: 0 if nobody knows. Of is how
// many of them ended here, 0 where that is its limit or what others of its kind
// took. Late: no more of them are started here; Aside are those that are not
// though others are.
type Pace struct {
	Expected time.Duration
	Of       int
	Late     bool
	Aside    int64
}

// Job is what is known here of a job.
func (c *Core) Job(id filch.JobID) (JobStatus, bool) {
	j := c.jobs[id]
	if j == nil {
		return JobStatus{}, false
	}
	s := JobStatus{Job: id, Here: j.queues(), Spec: j.spec, Record: j.rec, Leads: j.lead != nil}
	for i := range c.runs.list {
		if r := &c.runs.list[i]; r.job == j && !r.started {
			s.Opening++
		}
	}
	if j.spec != nil {
		s.Pace = Pace{Expected: c.expected(j), Of: j.pace.took.Count(), Late: j.pace.late && !j.queue.empty(), Aside: int64(len(j.queue.late))}
	}
	return s, true
}

// Idle reports whether the node has to do with no job.
func (c *Core) Idle() bool { return len(c.jobs) == 0 }

// sortedCapped are the capped jobs that this node ever asked tokens for.
func (c *Core) sortedCapped() (list []*job) {
	for _, j := range c.jobs { // any order: sorted below
		if j.spec != nil && j.spec.Cap > 0 && j.tokens.seq > 0 && !j.over {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b *job) int { return cmp.Compare(a.id, b.id) })
	return list
}

func (c *Core) sortedJobs() []*job {
	list := make([]*job, 0, len(c.jobs))
	for _, j := range c.jobs { // any order: sorted below
		list = append(list, j)
	}
	slices.SortFunc(list, func(a, b *job) int { return cmp.Compare(a.id, b.id) })
	return list
}

func note(out *Out, level int8, id filch.JobID, format string, args ...any) {
	out.Notes = append(out.Notes, Note{Level: level, Text: fmt.Sprintf(format, args...), Job: id})
}

// The levels of notes, as slog has them.
const (
	noteInfo = 0
	noteWarn = 4
)

// rng is splitmix64: small, seeded, the same everywhere.
type rng uint64

func (r *rng) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *rng) below(n int) int { return int(r.next() % uint64(n)) }
