package lines

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// Node is the node of a [Reader].
type Node interface {
	Now() time.Duration
	Wake(at time.Duration)
	Warn(id filch.JobID, format string, args ...any)
	Members() *policy.Members
	Lookup(key string, kind record.RecordKind, then func(record.Answer))
	Merge(key string, kind record.RecordKind, delta []byte, then func(record.Answer))
}

// Job is a job of the node.
type Job interface {
	ID() filch.JobID
	Payloads() *Lines
	HasLines() bool      // each task has a line
	Record() *record.Job // nil: not received yet
	Look()               // looks up the job's record
	// Next calls f with the tasks after index that start next, most important first, until
	// most tasks.
	Next(most int, f func(index int32))
	// Range is the tasks from an index on that the first range has; none: the index is not next
	// to the range.
	Range(index int32) (hi int32)
}

// Reader looks up the lines of tasks, ahead of need.
//
// An addition is committed before its lines are written, since only the commit assigns the
// indices. A node that dies in between leaves tasks without a line. The node that is to start
// such a task, and sees that the adder is dead, gives the task up: the node writes an empty line
// into the payload record, which beats the late messages of the dead adder, and then the end
// `lost`.
type Reader struct{ node Node }

// NewReader makes the Reader of a node.
func NewReader(n Node) Reader { return Reader{n} }

// ahead bounds the payload records that are fetched ahead of need.
const ahead = 32

// Line returns the state of a task's line. If the line is away, Line fetches the line and the
// next lines.
func (r Reader) Line(j Job, index int32) Is {
	if !j.HasLines() {
		return Here
	}
	first := index / record.PayloadSize
	last := first
	if hi := j.Range(index); hi > index {
		last = min(first+ahead, (hi-1)/record.PayloadSize)
	}
	for part := first; part <= last; part++ {
		r.fetch(j, part)
	}
	j.Next(kept/4, func(index int32) { r.fetch(j, index/record.PayloadSize) })
	is, lacks := j.Payloads().State(index)
	if lacks {
		r.missing(j, first)
	}
	return is
}

func (r Reader) fetch(j Job, part int32) {
	if !j.Payloads().Ask(part) {
		return
	}
	r.node.Lookup(record.KeyPayload(j.ID(), part), record.RecordPayload, func(a record.Answer) {
		d, err := record.DecodePayload(a.Value)
		if a.Status != record.AnswerDone || err != nil {
			// Its adder has not written the record yet.
			r.missing(j, part)
			return
		}
		j.Payloads().Keep(part, d)
	})
}

// missing notes that a payload record lacks the line of a waiting task.
func (r Reader) missing(j Job, part int32) {
	r.node.Wake(j.Payloads().Missing(r.node.Now(), part))
}

// Tick looks up missing lines again, or gives the lines up, and returns the time of the next
// look.
func (r Reader) Tick(j Job) (next time.Duration) {
	due, job, next := j.Payloads().Due(r.node.Now())
	if job {
		j.Look()
	}
	for i := range due {
		if j.Record() != nil && !mutantWaitForDead {
			if offs := due[i].Lost(r.node.Now(), j.Record(), r.node.Members().Dead); len(offs) > 0 {
				r.giveUp(j, due[i].Part, offs)
				continue
			}
		}
		j.Payloads().Again(due[i].Part)
		r.fetch(j, due[i].Part)
	}
	return next
}

// giveUp writes to a payload record that the lines of some tasks will not come.
func (r Reader) giveUp(j Job, part int32, offs []uint8) {
	none := record.Payload{Offs: offs, Lines: make([][]byte, len(offs))}
	r.node.Merge(record.KeyPayload(j.ID(), part), record.RecordPayload, none.Encode(), func(a record.Answer) {
		var p *record.Payload
		err := record.ErrMalformed
		if a.Status == record.AnswerDone && len(a.Value) > 0 {
			p, err = record.DecodePayload(a.Value[1:])
		}
		if err != nil {
			r.missing(j, part)
			return
		}
		gone := 0
		for _, l := range p.Lines {
			if len(l) == 0 {
				gone++
			}
		}
		if gone > 0 {
			r.node.Warn(j.ID(), "%d tasks of job %d, at %d and behind, are lost: who added them died before their lines were written",
				gone, j.ID(), part*record.PayloadSize+int32(p.Offs[0]))
		}
		j.Payloads().Found(part)
		j.Payloads().Keep(part, p)
	})
}
