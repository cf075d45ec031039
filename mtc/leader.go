package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/before"
	"github.com/filch-hpc/filch/mtc/graph"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/mtc/plan"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/report"
	"github.com/filch-hpc/filch/mtc/submit"
)

// leader is the leader's part in a job: the leader queues the job's tasks and takes in
// their ends.
type leader struct {
	open    bool         // accepted, and the jobs before this job are over
	parts   int          // records of the submission without a commit yet
	wait    *before.Wait // for other jobs, or a time; nil: the job may begin
	each    *before.Each // the tasks that wait one by one; nil: none do
	graph   *graph.Graph
	tracker *graph.Tracker
	plan    *plan.Plan
	total   int32 // tasks of a bag that the leader queued
	voidAt  time.Duration
	failing bool // FailStop: a task failed
	skipped bool // the wait is in vain, and the skip is being recorded
	orphan  bool // taken over; another leader may have started the ready tasks
	loading bool // taken over, and the graph is being read back
	from    record.Owner
	away    map[int32]filch.NodeName // tasks of a graph that other nodes have
	left    *leftover                // tasks of an earlier instance's job, not queued yet
	tried   map[int32]queue.Item     // tasks of a graph that the earlier instance tried
	reads   graphReads
	orders  policy.Spread
	spread  policy.Spreading // of the bag, when the bag is queued
}

// graphReads are the lookups of a graph's blocks for ends that no node reported.
type graphReads struct {
	at     time.Duration // of the next; 0: all ends in the job's tally are known
	blocks int           // blocks with a lookup under way
}

// Submit takes a job of clients at this node. Submit returns an error for an invalid
// submission; later results go to the clients as [report.Tell].
func (c *Core) Submit(now time.Duration, s submit.Job, out *Out) error {
	c.enter(now, out)
	if err := s.Check(); err != nil {
		return err
	}
	if c.jobs[s.Job] != nil {
		return filch.Errorf(filch.Invalid, "job %d exists", s.Job)
	}
	g, err := s.Graph()
	if err != nil {
		return err
	}
	j := c.job(s.Job)
	j.ticket, j.view.asked, j.follow = s.Ticket, true, j.follow || s.Follow
	spec := s.Spec
	c.specify(j, &spec)
	if spec.Expect == 0 {
		spec.Expect = c.pace.estimates.Limit(spec.Like)
	}
	j.rec = &record.Job{Name: s.Name, Ticket: s.Ticket, Leader: c.self, Total: s.Total, Closed: !s.Open, Graph: g != nil, Lines: spec.Payloads, Partial: s.Partial && s.Open, Conditions: s.Conditions, Long: int32(len(s.Long))}
	if s.HeldBy != "" {
		j.rec.Orders = record.Orders{Serial: 1, Held: true, By: s.HeldBy}
	}
	j.leader = newLeader(j.id, j.rec, s.Long)
	j.leader.spread = s.Spread
	if g != nil {
		j.leader.take(c, g, s.Nodes, spec.OnFail)
	}
	list := []record.Put{{Key: record.KeySpec(j.id), Kind: record.RecordFact, Delta: spec.Encode()}}
	list = slices.Concat(list, record.LongPuts(j.id, s.Long), record.LinePuts(j.id, 0, s.Lines))
	c.putJob(j, list, func(a record.Answer) bool {
		return a.Status == record.AnswerDone && (len(a.Value) == 0 || record.Verdict(a.Value[0]) == record.VerdictDone)
	})
	c.settle()
	return nil
}

// newLeader makes the leader's part in a job with a record; of a bag, long is the lengths.
func newLeader(id filch.JobID, rec *record.Job, long record.Lengths) *leader {
	return &leader{wait: before.New(id, rec.Name, &rec.Conditions), each: before.NewEach(rec, long), voidAt: filch.Never, away: make(map[int32]filch.NodeName)}
}

// take makes the graph the leader's, with no task ended.
func (l *leader) take(c *Core, g *graph.Graph, nodes []record.GraphNode, mode record.FailMode) {
	l.graph, l.tracker = g, graph.NewTracker(g, mode)
	l.plan = plan.New(g, func(i int32) *record.GraphNode { return &nodes[i] }, &c.pace.estimates, c.mover.Guess)
}

// replan computes the levels of a graph anew, if the estimates have changed by much.
func (c *Core) replan(j *job) {
	if j.leader == nil || j.leader.plan == nil {
		return
	}
	chosen := j.leader.plan.Choice.Kind
	if j.leader.plan.Update(c.now) && !mutants.OldLevels {
		j.queue.Relevel(j.leader.plan.Level)
		if c.mover.Kind == policy.Auto && j.leader.plan.Choice.Kind != chosen && !mutants.OldPlaces {
			c.mover.again(j)
		}
	}
	c.waits.at = min(c.waits.at, j.leader.plan.Due())
}

// putJob writes the records of a job, the job's record last: a node that sees the job's
// record sees the whole job.
func (c *Core) putJob(j *job, list []record.Put, wrote func(record.Answer) bool) {
	l := j.leader
	l.parts = c.put(list, func(a record.Answer) {
		if !wrote(a) {
			c.refuse(j, "a record of it could not be written")
			return
		}
		if l.parts--; l.parts == 0 && c.jobs[j.id] == j {
			c.createJob(j)
		}
	})
}

// put proposes merges and returns their number.
func (c *Core) put(list []record.Put, then func(record.Answer)) int {
	for _, p := range list {
		c.commits.merge(p.Key, p.Kind, p.Delta, then)
	}
	return len(list)
}

func (c *Core) refuse(j *job, why string) {
	if c.jobs[j.id] != j || j.leader == nil {
		return
	}
	c.out.Tells = append(c.out.Tells, report.Tell{
		Job: j.id, What: report.TellRefused, Error: filch.Errorf(filch.Unavailable, "cannot submit job %d: %s", j.id, why),
	})
	j.leader = nil
	j.follow = false
	c.forget(j)
}

func (c *Core) createJob(j *job) {
	c.commits.merge(record.KeyJob(j.id), record.RecordJob, record.EncodeJobOp(record.JobOp{Kind: record.JobCreate, Job: j.rec}), func(a record.Answer) {
		v, rec, err := record.DecodeJobReply(a.Value)
		if a.Status != record.AnswerDone || err != nil || v != record.VerdictDone || rec == nil {
			c.refuse(j, "its number is taken")
			return
		}
		c.out.Tells = append(c.out.Tells, report.Tell{Job: j.id, What: report.TellAccepted, Total: rec.Total})
		c.watchJob(j)
		c.onRecord(j, rec)
		c.openJob(j)
	})
}

// openJob lets a job's tasks become ready, unless it waits for other jobs.
func (c *Core) openJob(j *job) {
	if j.leader == nil || j.leader.open || j.leader.loading || j.rec == nil {
		return
	}
	if j.leader.wait != nil && j.void == 0 && !mutants.NoAfter {
		c.lookBefore(j)
		return
	}
	j.leader.open = true
	c.replan(j)
	c.requeue(j)
	if j.void != 0 {
		c.voidLed(j)
		return
	}
	if j.leader.graph == nil {
		c.grown(j)
		return
	}
	for _, i := range j.leader.plan.Urgent(j.leader.tracker.AllReady()) {
		if !j.queue.Knows(i) {
			c.ready(j, i)
		}
	}
	c.orders.obey(j)
}

// lookBefore looks up the records of the jobs that j waits for, where a look is due, and
// opens or skips j when the records say so.
func (c *Core) lookBefore(j *job) {
	l, w := j.leader, j.leader.wait
	c.lookUp(w.Looks(c.now), func(k *before.Look, answers []record.Answer) {
		if w.Answered(c.now, k, answers); j.leader == l && l.wait == w {
			l.judge(c, j)
		}
	})
	l.judge(c, j)
}

// lookUp proposes the lookups of looks, and calls then with the answers to each look.
func (c *Core) lookUp(looks []before.Look, then func(k *before.Look, answers []record.Answer)) {
	for _, k := range looks {
		answers, missing := make([]record.Answer, len(k.Proposals)), len(k.Proposals)
		for i, p := range k.Proposals {
			c.commits.propose(p, func(a record.Answer) {
				answers[i] = a
				if missing--; missing == 0 {
					then(&k, answers)
				}
			})
		}
	}
}

// judge opens the leader's job if the wait is over, and ends the job if the wait is in vain.
func (l *leader) judge(c *Core, j *job) {
	met, never := l.wait.Verdict(c.wall(c.now))
	switch {
	case j.void != 0 || l.skipped:
	case never != "":
		l.skipped = true
		c.skip(j, never)
	case met:
		l.wait = nil
		c.openJob(j)
	default:
		c.waits.at = min(c.waits.at, l.wait.Next(c.now, c.wall(c.now)))
	}
}

// skip ends a job whose wait for another job is in vain.
func (c *Core) skip(j *job, why string) {
	c.note(noteWarn, j.id, "job %d is skipped: %s", j.id, why)
	c.commitVoid(j, record.JobOp{Kind: record.JobVoidWhy, Void: filch.Skipped, At: c.wall(c.now), Orders: record.Orders{Reason: why}})
}

// grown queues the tasks of a bag that are not queued yet: at first all.
func (c *Core) grown(j *job) {
	l := j.leader
	switch {
	case l == nil || l.graph != nil || !l.open || j.void != 0:
		return
	case l.each != nil:
		c.step(j)
		return
	case j.rec.Total <= l.total:
		return
	case l.orphan:
		c.inherit(j)
		return
	}
	j.queue.Ranges.Add(policy.Range{Next: l.total, Hi: j.rec.Total, Front: l.total, Hop: j.firstHop()})
	c.arrivals.Add(j.id, l.total, j.rec.Total, "", c.now)
	l.total = j.rec.Total
	c.active(j)
	c.orders.obey(j)
	c.victim.spread(j)
}

// ready queues a task of a graph after the ends of all of the task's parents.
func (c *Core) ready(j *job, i int32) {
	t := j.leader.tracker
	it := queue.Item{Index: i, Attempt: record.FirstAttempt, Tracked: true}
	if k, ok := j.leader.tried[i]; ok {
		it = k
	}
	it.Inputs, it.Level, it.Since = t.Inputs(i), j.leader.plan.Level(i), queue.Stamp(c.now)
	it.Bytes = t.Read(i) + j.leader.plan.Initial(i)
	if j.leader.orphan {
		if j.leader.open { // else openJob queues all ready tasks later
			c.failover.inheritTask(j, it)
		}
		return
	}
	c.arrivals.Add(j.id, i, i+1, "", c.now)
	c.mover.place(j, it)
}

// Close states that no more tasks will be added to a bag.
func (c *Core) Close(now time.Duration, id filch.JobID, out *Out) {
	c.enter(now, out)
	j := c.job(id)
	c.commits.merge(record.KeyJob(id), record.RecordJob, record.EncodeJobOp(record.JobOp{Kind: record.JobClose, At: c.wall(now)}), func(a record.Answer) {
		if _, rec, err := record.DecodeJobReply(a.Value); err == nil && rec != nil {
			c.onRecord(j, rec)
		}
		c.forget(j)
	})
	c.settle()
}

// Cancel stops a job: no more tasks of the job start, and the running tasks are ended. The
// record keeps the reason; "" is none.
func (c *Core) Cancel(now time.Duration, id filch.JobID, reason string, out *Out) {
	c.enter(now, out)
	op := record.JobOp{Kind: record.JobVoid, Void: filch.Cancelled, At: c.wall(c.now)}
	if reason != "" {
		op.Kind, op.Reason = record.JobVoidWhy, reason
	}
	c.commitVoid(c.job(id), op)
	c.settle()
}

func (c *Core) voidJob(j *job, s filch.State) {
	c.commitVoid(j, record.JobOp{Kind: record.JobVoid, Void: s, At: c.wall(c.now)})
}

// commitVoid commits the void state; the leader and all other nodes learn the state from
// the record.
func (c *Core) commitVoid(j *job, op record.JobOp) {
	c.commits.merge(record.KeyJob(j.id), record.RecordJob, record.EncodeJobOp(op), func(a record.Answer) {
		_, rec, err := record.DecodeJobReply(a.Value)
		if err != nil || rec == nil {
			c.out.Tells = append(c.out.Tells, report.Tell{
				Job: j.id, What: report.TellRefused, Error: filch.Errorf(filch.NotFound, "there is no job %d", j.id),
			})
			c.forget(j)
			return
		}
		if rec.Leader.Node != c.self.Node && rec.Void != 0 {
			c.send(rec.Leader.Node, &message.Void{Job: j.id, State: rec.Void})
		}
		c.onRecord(j, rec)
		c.forget(j)
	})
}

// Follow starts progress and end news of a job for the clients here.
func (c *Core) Follow(now time.Duration, id filch.JobID, out *Out) {
	c.enter(now, out)
	j := c.job(id)
	j.follow = true
	switch {
	case j.leader != nil && j.view.watch == 0:
		return // a submission of the job is under way here
	case j.view.watch != 0 && j.rec != nil:
		c.tellProgress(j)
		return
	}
	c.watchJob(j)
	c.lookJob(j)
	c.settle()
}

// Unfollow ends the news of [Core.Follow].
func (c *Core) Unfollow(id filch.JobID, out *Out) {
	c.enter(c.now, out)
	if j := c.jobs[id]; j != nil {
		j.follow = false
		if j.leader == nil {
			c.unwatch(j)
		}
		c.forget(j)
	}
}
