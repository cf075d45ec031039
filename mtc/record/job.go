package record

import (
	"github.com/filch-hpc/filch"
)

// Job is the record of a job's state.
type Job struct {
	Name   string // for people
	Ticket filch.Ticket
	Leader Owner // the node that leads the job
	Hop    uint32
	Total  int32
	Closed bool // no tasks are added any more
	Graph  bool // a workflow; else a bag
	Lines  bool // each task has a line of its own
	// Partial is set while more of the submission follows: without the first leader the
	// job stays incomplete.
	Partial bool
	Void    filch.State // Cancelled or Skipped: tasks not started yet never start
	Conditions
	Zones []ZoneTally
	Added []Addition // the last additions, so that each counts once
	// Ended is the unix time in ns when the last end was counted, by the clock of the
	// counting node; 0 not yet.
	Ended int64
	// Began is the unix time in ns of the first start of a task on a node that has recorded
	// ends, by the clock of this node; 0: not known, or none has started.
	Began int64
	Orders
	Long int32 // chunks of long texts of a workflow, or of the [Lengths] of a bag
}

// Ordered reports whether the job is a bag with stated lengths.
func (j *Job) Ordered() bool { return j.Long > 0 && !j.Graph }

// OneByOne reports whether the tasks of a bag begin one by one, by their conditions or in the
// order of their lengths: see [Conditions.Singly].
func (j *Job) OneByOne() bool { return j.Singly() || j.Ordered() }

// Leveled reports whether the tasks have levels: of all ready tasks of the job, the one with the
// highest level starts next, and the leader keeps the tasks until they start soon.
func (j *Job) Leveled() bool { return j.Graph || j.Ordered() }

// ZoneTally is a zone's tally as reported to the job.
type ZoneTally struct {
	Zone int32
	Tally
}

// Addition is a growth of an open bag. By writes the lines of the new tasks after the
// addition; when By is dead, missing lines never come.
type Addition struct {
	Token, Base, Count int32
	By                 Owner
}

// MaxName bounds the length of a job's name.
const MaxName = 256

// maxAdditions bounds the remembered additions: more than a client has under way.
const maxAdditions = 64

// maxAfter bounds the jobs that a job waits for.
const maxAfter = 256

// Tally counts the ends of the tasks so far.
func (j *Job) Tally() (t Tally) {
	for _, z := range j.Zones {
		t = t.Plus(z.Tally)
	}
	return t
}

// Finished reports whether all tasks have their end and none will be added.
func (j *Job) Finished() bool { return j.Closed && j.Tally().Sum() >= j.Total }

// State is the job's state according to the record.
func (j *Job) State() filch.State {
	t := j.Tally()
	switch {
	case !j.Finished():
		if t.Sum() == 0 {
			return filch.Waiting
		}
		return filch.Running
	case j.Void == filch.Cancelled: // before the end, as JobVoid changes no finished job
		return filch.Cancelled
	case j.Void == filch.Skipped && t.Bad() == t.Skipped && t.Skipped > 0:
		return filch.Skipped // no task ended badly: another job failed, not this job
	case len(j.Cancels) > 0 && t.Bad() == t.Cancelled+t.Skipped && t.Cancelled > 0:
		return filch.Cancelled // no task ended badly: some were cancelled one by one, and their dependents skipped
	case t.Bad() > 0:
		return filch.Failed
	}
	return filch.OK
}

func (j *Job) fields(c *Codec) {
	Text(c, &j.Name, MaxName)
	c.ticket(&j.Ticket)
	c.Owner(&j.Leader)
	U32(c, &j.Hop)
	Index(c, &j.Total)
	c.Flag(&j.Closed)
	c.Flag(&j.Graph)
	c.Flag(&j.Lines)
	flags := c.Facts(j.Partial, j.Began > 0)
	j.Partial = flags&jobPartial != 0
	end := uint8(j.Void)
	if j.Serial > 0 {
		end |= jobOrders
	}
	if j.Long > 0 {
		end |= jobLong
	}
	if len(j.When) > 0 {
		end |= jobWhen
	}
	if !j.plain() {
		end |= jobMore
	}
	U8(c, &end)
	j.Void = filch.State(end &^ (jobOrders | jobLong | jobWhen | jobMore))
	c.Require(j.Void <= filch.Cancelled)
	List(c, &j.After, maxAfter, 1, func(id *filch.JobID, c *Codec) { Int32(c, id) })
	if end&jobWhen != 0 {
		j.whens(c)
	}
	if end&jobMore != 0 {
		j.more(c)
	}
	List(c, &j.Zones, MaxTasks/ZoneSize+1, 7, (*ZoneTally).fields)
	for i := range j.Zones {
		c.Require(i == 0 || j.Zones[i].Zone > j.Zones[i-1].Zone)
	}
	List(c, &j.Added, maxAdditions, 5, (*Addition).fields)
	Int(c, &j.Ended)
	if flags&jobBegan != 0 {
		Int(c, &j.Began)
		c.Require(j.Began > 0)
	}
	if end&jobOrders != 0 {
		j.Orders.fields(c)
		c.Require(j.Serial > 0)
	}
	if end&jobLong != 0 {
		Index(c, &j.Long)
		c.Require(j.Long > 0 && j.Long <= LongChunks)
	}
}

// Flags before the byte of Void: Partial, and that Began follows Ended.
const (
	jobPartial = 1 << iota
	jobBegan
)

// Flags in the byte of Void: orders and the number of chunks follow, and behind the list of
// the jobs before a list of their events, and further conditions.
const (
	jobOrders = 1 << 7
	jobLong   = 1 << 6
	jobWhen   = 1 << 5
	jobMore   = 1 << 4
)

func (z *ZoneTally) fields(c *Codec) {
	Index(c, &z.Zone)
	z.Tally.fields(c)
}

func (a *Addition) fields(c *Codec) {
	Index(c, &a.Token)
	Index(c, &a.Base)
	Index(c, &a.Count)
	c.Owner(&a.By)
}

// Encode is the record's bytes.
func (j *Job) Encode() []byte {
	c := Writing(32)
	j.fields(&c)
	return c.B
}

// DecodeJob reads a job's record.
func DecodeJob(v []byte) (*Job, error) {
	c, j := Reading(v), &Job{}
	j.fields(&c)
	return j, c.Done()
}

// JobOp is a proposed change of a job's record.
type JobOp struct {
	Kind  JobOpKind
	Job   *Job // JobCreate
	Add   Addition
	Lines bool // JobAdd: the tasks have lines
	Void  filch.State
	From  Owner
	To    Owner
	Tally ZoneTally
	At    int64 // time of a possible end of the job, as Job.Ended
	Began int64 // JobZoneTally: the first start of a task of the job on the proposing node; 0 none
	// JobOrder: the tasks to cancel, and the reason; if there are none, whether the job is
	// held, by whom, and the serial of the orders that the change goes by. JobVoid: the
	// reason.
	Orders
}

type JobOpKind uint8

const (
	JobCreate JobOpKind = iota + 1
	JobAdd
	JobClose
	JobVoid
	JobLose
	JobZoneTally
	JobOrder
	JobVoidWhy // JobVoid with a reason
)

func (p *JobOp) fields(c *Codec) {
	U8(c, &p.Kind)
	switch p.Kind {
	case JobCreate:
		if !c.Encodes {
			p.Job = &Job{}
		}
		p.Job.fields(c)
	case JobAdd:
		Index(c, &p.Add.Token)
		Index(c, &p.Add.Count)
		c.Owner(&p.Add.By)
		c.Flag(&p.Lines)
	case JobVoid, JobVoidWhy:
		c.State(&p.Void)
		Int(c, &p.At)
		if p.Kind == JobVoidWhy {
			Text(c, &p.Reason, MaxReason)
		}
	case JobOrder:
		p.Orders.fields(c)
	case JobClose:
		Int(c, &p.At)
	case JobLose:
		c.Owner(&p.From)
		c.Owner(&p.To)
	case JobZoneTally:
		p.Tally.fields(c)
		Int(c, &p.At)
		Amount(c, &p.Began)
	default:
		c.Fail()
	}
}

func EncodeJobOp(p JobOp) []byte {
	c := Writing(32)
	p.fields(&c)
	return c.B
}

func decodeJobOp(v []byte) (p JobOp, err error) {
	c := Reading(v)
	p.fields(&c)
	return p, c.Done()
}
