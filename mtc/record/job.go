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
	After   []filch.JobID
	Zones   []ZoneTally
	Added   []Addition // the last additions, so that each counts once
	// Ended is the unix time in ns when the last end was counted, by the clock of the
	// counting node; 0 not yet.
	Ended int64
}

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

// MaxAfter bounds the jobs that a job waits for.
const MaxAfter = 256

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
	case j.Void == filch.Cancelled && t.Cancelled+t.Skipped > 0:
		return filch.Cancelled
	case j.Void == filch.Skipped && t.Bad() == t.Skipped && t.Skipped > 0:
		return filch.Skipped // no task ended badly: another job failed, not this job
	case t.Bad() > 0:
		return filch.Failed
	}
	return filch.OK
}

// Encode is the record's bytes.
func (j *Job) Encode() []byte {
	var w Writer
	w.Bytes([]byte(j.Name))
	w.ticket(j.Ticket)
	w.Owner(j.Leader)
	w.Uint(uint64(j.Hop))
	w.Uint(uint64(j.Total))
	w.Bool(j.Closed)
	w.Bool(j.Graph)
	w.Bool(j.Lines)
	w.Bool(j.Partial)
	w.U8(uint8(j.Void))
	w.Uint(uint64(len(j.After)))
	for _, a := range j.After {
		w.Int(int64(a))
	}
	w.Uint(uint64(len(j.Zones)))
	for _, z := range j.Zones {
		w.Uint(uint64(z.Zone))
		w.tally(z.Tally)
	}
	w.Uint(uint64(len(j.Added)))
	for _, a := range j.Added {
		w.Uint(uint64(a.Token))
		w.Uint(uint64(a.Base))
		w.Uint(uint64(a.Count))
		w.Owner(a.By)
	}
	w.Int(j.Ended)
	return w.B
}

// DecodeJob reads a job's record.
func DecodeJob(v []byte) (*Job, error) {
	r := NewReader(v)
	j := &Job{Name: string(r.Bytes(MaxName)), Ticket: r.ticket(), Leader: r.Owner(), Hop: r.U32(), Total: r.Index()}
	j.Closed, j.Graph, j.Lines, j.Partial, j.Void = r.Bool(), r.Bool(), r.Bool(), r.Bool(), r.State()
	j.After = make([]filch.JobID, r.Count(MaxAfter, 1))
	for i := range j.After {
		j.After[i] = filch.JobID(r.I32())
	}
	j.Zones = make([]ZoneTally, r.Count(MaxTasks/ZoneSize+1, 7))
	for i := range j.Zones {
		j.Zones[i] = ZoneTally{r.Index(), r.tally()}
		if i > 0 && j.Zones[i].Zone <= j.Zones[i-1].Zone {
			r.Fail()
		}
	}
	j.Added = make([]Addition, r.Count(maxAdditions, 5))
	for i := range j.Added {
		j.Added[i] = Addition{r.Index(), r.Index(), r.Index(), r.Owner()}
	}
	j.Ended = r.Int()
	return j, r.Done()
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
}

type JobOpKind uint8

const (
	JobCreate JobOpKind = iota + 1
	JobAdd
	JobClose
	JobVoid
	JobLose
	JobZoneTally
)

func EncodeJobOp(p JobOp) []byte {
	w := Writer{[]byte{uint8(p.Kind)}}
	switch p.Kind {
	case JobCreate:
		w.B = append(w.B, p.Job.Encode()...)
	case JobAdd:
		w.Uint(uint64(p.Add.Token))
		w.Uint(uint64(p.Add.Count))
		w.Owner(p.Add.By)
		w.Bool(p.Lines)
	case JobVoid:
		w.U8(uint8(p.Void))
		w.Int(p.At)
	case JobClose:
		w.Int(p.At)
	case JobLose:
		w.Owner(p.From)
		w.Owner(p.To)
	case JobZoneTally:
		w.Uint(uint64(p.Tally.Zone))
		w.tally(p.Tally.Tally)
		w.Int(p.At)
	}
	return w.B
}

func decodeJobOp(v []byte) (p JobOp, err error) {
	r := NewReader(v)
	p.Kind = JobOpKind(r.U8())
	switch p.Kind {
	case JobCreate:
		p.Job, err = DecodeJob(r.B)
		return p, err
	case JobAdd:
		p.Add = Addition{Token: r.Index(), Count: r.Index(), By: r.Owner()}
		p.Lines = r.Bool()
	case JobVoid:
		p.Void, p.At = r.State(), r.Int()
	case JobLose:
		p.From, p.To = r.Owner(), r.Owner()
	case JobZoneTally:
		p.Tally, p.At = ZoneTally{r.Index(), r.tally()}, r.Int()
	case JobClose:
		p.At = r.Int()
	default:
		r.Fail()
	}
	return p, r.Done()
}
