package tokens

import (
	"iter"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// Node is the node of [Caps].
type Node interface {
	Now() time.Duration
	Self() record.Owner
	Next() uint64 // the number of the next proposal
	Wake(at time.Duration)
	Merge(key string, kind record.RecordKind, delta []byte, then func(record.Answer))
	Full() bool               // no slot is free
	Tell()                    // tells thieves of work here
	Reserved(run filch.JobID) // takes in that a run has its tokens
	Order() iter.Seq[Job]     // jobs with tasks here, in the order in which the tasks start
	Jobs() iter.Seq[Job]      // all jobs, in any order
}

// Job is a job of the node.
type Job interface {
	ID() filch.JobID
	Spec() *record.Spec // nil: not received yet
	Tokens() *Set       // nil as long as the spec is not known
	Queue() *queue.Ready
	Running() int32
	Wants() int32   // tokens of the next task that waits for tokens
	Slots() int32   // tasks that may start here beside the running tasks
	Over() bool     // finished
	Barred() bool   // no task may start here at the moment, whatever the room
	MayStart() bool // tasks may have time enough to end here
	Sticks() bool   // no task finds room here beside the running tasks
	Forget()        // forgets the job if nothing is left
}

// Set is a node's tokens of a capped job, or of a license, and their record.
type Set struct {
	policy.Tokens
	key     string
	job     Job    // with this cap; nil: a license
	license string // its name
	seq     uint32 // of the last request, or of this node's entry in the record if that is ahead
	asking  bool
}

// own reports whether the tokens are of a job with a cap of its own.
func (t *Set) own() bool { return t != nil && t.job != nil && t.job.Spec().Cap > 0 }

// Asked reports whether the node ever asked for tokens.
func (t *Set) Asked() bool { return t.seq > 0 }

// Open reports whether the node holds tokens of a job's own cap, or asks for some.
func (t *Set) Open() bool { return t.own() && (t.Held > 0 || t.asking) }

// Lacks reports whether the last answer left the node without n idle tokens.
func (t *Set) Lacks(n int32) bool { return n > t.Idle() && !t.asking && t.Asked() }

// MayServe reports whether n tokens may be free, as far as the node knows.
func (t *Set) MayServe(n int32) bool { return !t.Asked() || t.Spare >= n }
