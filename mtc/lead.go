package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// leadAgain is how often a steward repeats what others must hear until all of
// the job ended: that it was cancelled.
const leadAgain = time.Second

// lead is the steward's part in a job: the one that keeps it going.
type lead struct {
	open    bool // accepted, and what it waits for is over
	parts   int  // records of the submission that are not committed yet
	after   []filch.JobID
	graph   *Graph
	tracker *Tracker
	total   int32 // tasks of a bag that were queued
	voidAt  time.Duration
	failing bool // FailStop: something failed
	orphan  bool // taken over; tasks that are ready may have been begun
	loading bool // taken over, and the graph is being read back
	from    Owner
	away    map[int32]filch.NodeName // tasks of a graph that others have
	left    *leftover                // of an instance of before, not queued yet
	tried   map[int32]item           // tasks of a graph that were tried there
	leadLooks
}

// leadLooks are what a steward asks of the store, and asks again.
type leadLooks struct {
	lookAt  time.Duration // at the jobs that this one waits for
	looking int           // how many of them are being looked up
	readAt  time.Duration // at the ends of a graph; 0: all that are counted were heard of
	reading int           // how many of its blocks are being looked up
}

// Submit takes a job whose clients are here. What is wrong with it is the
// error; what comes of it later is told.
func (c *Core) Submit(now time.Duration, s Submission, out *Out) error {
	if err := s.check(); err != nil {
		return err
	}
	if c.jobs[s.Job] != nil {
		return filch.Errorf(filch.Invalid, "job %d exists", s.Job)
	}
	var g *Graph
	if len(s.Nodes) > 0 {
		var err error
		if g, err = NewGraph(len(s.Nodes), func(i int) []int32 { return s.Nodes[i].Parents }); err != nil {
			return err
		}
		if _, cycle := g.Order(); cycle != nil {
			return CycleError(cycle, func(i int32) string { return s.Nodes[i].Name })
		}
		s.Total = int32(len(s.Nodes))
		s.Spec.Payloads = true
		for i := range s.Nodes {
			s.Lines = append(s.Lines, s.Nodes[i].Encode())
		}
		if err := checkLines(s.Lines); err != nil {
			return err
		}
	}
	j := c.job(s.Job)
	j.ticket, j.asked = s.Ticket, true
	spec := s.Spec
	j.spec = &spec
	if spec.Expect == 0 {
		spec.Expect = c.pace.habits.Limit(spec.Like)
	}
	j.rec = &Job{Name: s.Name, Ticket: s.Ticket, Steward: c.self, Total: s.Total, Closed: !s.Open, Graph: g != nil, Lines: spec.Payloads, Partial: s.Partial && s.Open, After: s.After}
	j.lead = &lead{after: slices.Clone(s.After), graph: g, voidAt: filch.Never, away: make(map[int32]filch.NodeName)}
	if g != nil {
		j.lead.tracker = NewTracker(g, spec.OnFail)
	}
	c.putJob(j, s.Lines, out)
	c.settle(now, out)
	return nil
}

func (s *Submission) check() error {
	switch {
	case s.Job <= 0:
		return filch.Errorf(filch.Invalid, "a job has a positive number, not %d", s.Job)
	case s.Total < 0 || s.Total > MaxTasks || len(s.Nodes) > MaxTasks:
		return filch.Errorf(filch.Invalid, "a job has at most %d tasks", MaxTasks)
	case s.Total == 0 && len(s.Nodes) == 0 && !s.Open:
		return filch.Errorf(filch.Invalid, "a job without tasks")
	case len(s.Nodes) > 0 && s.Open:
		return filch.Errorf(filch.Invalid, "a workflow cannot grow")
	case len(s.Nodes) == 0 && s.Spec.Payloads && len(s.Lines) != int(s.Total):
		return filch.Errorf(filch.Invalid, "%d lines for %d tasks", len(s.Lines), s.Total)
	case len(s.Name) > MaxName:
		return filch.Errorf(filch.Invalid, "the name of a job has at most %d bytes, not %d", MaxName, len(s.Name))
	case len(s.After) > maxAfter:
		return filch.Errorf(filch.Invalid, "a job waits for at most %d others, not %d", maxAfter, len(s.After))
	case len(s.Spec.Like) > MaxLike:
		return filch.Errorf(filch.Invalid, "the kind of a job has at most %d bytes, not %d", MaxLike, len(s.Spec.Like))
	case len(s.Spec.Picks) > MaxPicks:
		return filch.Errorf(filch.Invalid, "a job has at most %d runs of numbers, not %d", MaxPicks, len(s.Spec.Picks))
	}
	if n := len(s.Spec.Encode()); n > maxSpec {
		return filch.Errorf(filch.Invalid, "the specification of a job has %d bytes, at most %d", n, maxSpec)
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if len(n.Parents) > maxInputs || len(n.Name) > maxGraphName {
			return filch.Errorf(filch.Invalid, "task %q waits for %d tasks; at most %d, with a name of %d bytes",
				n.Name, len(n.Parents), maxInputs, maxGraphName)
		}
	}
	return checkLines(s.Lines)
}

// maxSpec bounds a spec in bytes: the store takes not much more.
const maxSpec = 200 << 10

func checkLines(lines [][]byte) error {
	for i, l := range lines {
		if len(l) == 0 {
			return filch.Errorf(filch.Invalid, "line %d is empty: not even a kind", i+1)
		}
		if len(l) > MaxPayload {
			return filch.Errorf(filch.Invalid, "line %d has %d bytes, at most %d", i+1, len(l), MaxPayload).
				WithHint("write long input to a file and name that")
		}
	}
	return nil
}

// putJob writes the records of a submission, the job's last: who sees it sees
// all of it.
func (c *Core) putJob(j *job, lines [][]byte, out *Out) {
	l := j.lead
	part := func(_ time.Duration, a Answer, out *Out) {
		if a.Status != AnswerDone || len(a.Value) > 0 && verdict(a.Value[0]) != vDone {
			c.refuse(j, "a record of it could not be written", out)
			return
		}
		if l.parts--; l.parts == 0 && c.jobs[j.id] == j {
			c.createJob(j, out)
		}
	}
	l.parts = 1
	c.merge(KeySpec(j.id), RecordFact, j.spec.Encode(), out, part)
	l.parts += c.putLines(j, 0, lines, out, part)
}

// putLines writes the payloads of the tasks from base on; it returns how many
// records that takes.
func (c *Core) putLines(j *job, base int32, lines [][]byte, out *Out, then func(time.Duration, Answer, *Out)) (parts int) {
	for k := 0; k < len(lines); {
		i := base + int32(k)
		p := Payload{}
		for off := i % PayloadSize; off < PayloadSize && k < len(lines); off++ {
			p.Offs = append(p.Offs, uint8(off))
			p.Lines = append(p.Lines, lines[k])
			k++
		}
		c.merge(KeyPayload(j.id, i/PayloadSize), RecordPayload, p.Encode(), out, then)
		parts++
	}
	return parts
}

func (c *Core) refuse(j *job, why string, out *Out) {
	if c.jobs[j.id] != j || j.lead == nil {
		return
	}
	out.Tells = append(out.Tells, Tell{
		Job: j.id, What: TellRefused, Error: filch.Errorf(filch.Unavailable, "cannot submit job %d: %s", j.id, why),
	})
	j.lead = nil
	j.follow = false
	c.forget(j, out)
}

func (c *Core) createJob(j *job, out *Out) {
	c.merge(KeyJob(j.id), RecordJob, encodeJobOp(jobOp{kind: jCreate, job: j.rec}), out, func(now time.Duration, a Answer, out *Out) {
		v, rec, err := decodeJobReply(a.Value)
		if a.Status != AnswerDone || err != nil || v != vDone || rec == nil {
			c.refuse(j, "its number is taken", out)
			return
		}
		out.Tells = append(out.Tells, Tell{Job: j.id, What: TellAccepted, Total: rec.Total})
		c.watchJob(j, out)
		c.sawRecord(now, j, rec, out)
		c.openJob(now, j, out)
	})
}

// openJob lets a job's tasks become ready, unless it waits for other jobs.
func (c *Core) openJob(now time.Duration, j *job, out *Out) {
	if j.lead == nil || j.lead.open || j.lead.loading || j.rec == nil {
		return
	}
	if len(j.lead.after) > 0 && j.void == 0 && !mutantNoAfter {
		c.lookAfter(j, out)
		return
	}
	j.lead.open = true
	c.requeue(now, j, out)
	if j.void != 0 {
		c.voidLed(now, j, out)
		return
	}
	if j.lead.graph == nil {
		c.grown(now, j, out)
		return
	}
	for i := range int32(j.lead.graph.Len()) {
		if j.lead.tracker.Ready(i) && j.queue.held[i] == (stamp{}) {
			c.ready(now, j, i, out)
		}
	}
}

// lookAfter asks how the jobs that this one waits for stand, unless it did and
// has no answer yet.
func (c *Core) lookAfter(j *job, out *Out) {
	l := j.lead
	if l.looking > 0 {
		return
	}
	for _, id := range l.after {
		l.looking++
		c.lookup(KeyJob(id), RecordJob, out, func(now time.Duration, a Answer, out *Out) {
			l.looking--
			if j.lead != l || !slices.Contains(l.after, id) {
				return
			}
			rec, err := DecodeJob(a.Value)
			switch {
			case a.Status == AnswerAbsent || err != nil:
				note(out, noteWarn, j.id, "job %d waits for job %d, which does not exist", j.id, id)
				c.voidJob(now, j, filch.Skipped, out)
				return
			case !rec.Finished():
				c.waits.at = min(c.waits.at, now+afterAgain)
				return
			case rec.State() != filch.OK:
				c.voidJob(now, j, filch.Skipped, out)
				return
			}
			j.lead.after = slices.DeleteFunc(j.lead.after, func(k filch.JobID) bool { return k == id })
			c.openJob(now, j, out)
		})
	}
}

// afterAgain is how often a job that waits for others looks how they stand.
const afterAgain = 200 * time.Millisecond

// grown queues the tasks of a bag that are not queued yet: at first all.
func (c *Core) grown(now time.Duration, j *job, out *Out) {
	l := j.lead
	if l == nil || l.graph != nil || !l.open || j.void != 0 || j.rec.Total <= l.total {
		return
	}
	if l.orphan {
		c.inherit(j, out)
		return
	}
	j.queue.addRange(span{next: l.total, hi: j.rec.Total, front: l.total, hop: j.firstHop()})
	l.total = j.rec.Total
	c.active(j)
}

// ready queues a task of a graph of which all parents ended.
func (c *Core) ready(now time.Duration, j *job, i int32, out *Out) {
	t := j.lead.tracker
	it := item{index: i, attempt: firstAttempt, tracked: true}
	if k, ok := j.lead.tried[i]; ok {
		it = k
	}
	it.inputs = t.Inputs(i)
	for _, in := range it.inputs {
		it.bytes += in.Bytes
	}
	if j.lead.orphan {
		if j.lead.open { // else all are looked at when it is
			c.inheritTask(j, it, out)
		}
		return
	}
	c.place(now, j, it, out)
}

// Close says that nothing is added to a bag any more.
func (c *Core) Close(now time.Duration, id filch.JobID, out *Out) {
	j := c.job(id)
	c.merge(KeyJob(id), RecordJob, encodeJobOp(jobOp{kind: jClose, at: c.wall(now)}), out, func(now time.Duration, a Answer, out *Out) {
		if _, rec, err := decodeJobReply(a.Value); err == nil && rec != nil {
			c.sawRecord(now, j, rec, out)
		}
		c.forget(j, out)
	})
	c.settle(now, out)
}

// Cancel says that no task of a job is to start any more, and that those which
// run are to be ended.
func (c *Core) Cancel(now time.Duration, id filch.JobID, out *Out) {
	c.voidJob(now, c.job(id), filch.Cancelled, out)
	c.settle(now, out)
}

// voidJob commits it; the steward and everybody else hear of it from there.
func (c *Core) voidJob(now time.Duration, j *job, s filch.State, out *Out) {
	c.merge(KeyJob(j.id), RecordJob, encodeJobOp(jobOp{kind: jVoid, void: s, at: c.wall(now)}), out, func(now time.Duration, a Answer, out *Out) {
		_, rec, err := decodeJobReply(a.Value)
		if err != nil || rec == nil {
			out.Tells = append(out.Tells, Tell{
				Job: j.id, What: TellRefused, Error: filch.Errorf(filch.NotFound, "there is no job %d", j.id),
			})
			c.forget(j, out)
			return
		}
		if rec.Steward.Node != c.self.Node && rec.Void != 0 {
			c.send(rec.Steward.Node, &Void{j.id, rec.Void}, out)
		}
		c.sawRecord(now, j, rec, out)
		c.forget(j, out)
	})
}

// Follow tells of a job's progress and end from now on.
func (c *Core) Follow(now time.Duration, id filch.JobID, out *Out) {
	j := c.job(id)
	j.follow = true
	switch {
	case j.lead != nil && j.watch == 0:
		return // it is being submitted here
	case j.watch != 0 && j.rec != nil:
		c.tellProgress(j, out)
		return
	}
	c.watchJob(j, out)
	c.lookJob(j, out)
	c.settle(now, out)
}

// Unfollow ends that.
func (c *Core) Unfollow(id filch.JobID, out *Out) {
	if j := c.jobs[id]; j != nil {
		j.follow = false
		if j.lead == nil {
			c.unwatch(j, out)
		}
		c.forget(j, out)
	}
}
