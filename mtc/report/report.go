// Package report has what a Core reports beside its work: news for clients, notes for the
// log, events for people who watch, and the jobs that have ended.
package report

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// Tell is news for the clients of a job at this node.
type Tell struct {
	Job      filch.JobID
	What     TellKind
	Tally    record.Tally
	Total    int32
	State    filch.State
	Error    *filch.Error // TellRefused
	Token    int32        // TellAdded
	Base     int32        // TellAdded: the index of the first task
	Finished bool
}

// TellKind is a kind of [Tell].
type TellKind uint8

// The kinds of news.
const (
	TellAccepted TellKind = iota // every record of the submission is committed
	TellRefused
	TellAdded
	TellProgress // to clients that follow the job
	TellFinished // to clients that follow the job
)

// Over is a job that has ended, with its last record.
type Over struct {
	Job    filch.JobID
	Record *record.Job
}

// Note is an event for the log: level as slog has it.
type Note struct {
	Level int8
	Text  string
	Job   filch.JobID
}

// Event is an event of a node's search for work, for people who watch the node.
type Event struct {
	Kind  EventKind
	Job   filch.JobID
	Task  int32 // Moved: the first task, by its number for people
	Count int32 // tasks
	Peer  filch.NodeName
}

// EventKind is a kind of [Event].
type EventKind uint8

// The kinds of events.
const (
	Tried EventKind = iota // the node asks Peer for tasks
	Won                    // Count tasks of Peer are here now
	Moved                  // consecutive tasks of Peer are here now
	Given                  // Peer has Count tasks of this node
)

// Loser is a task that ended well here after another end was recorded: its files are in vain.
type Loser struct {
	Job  filch.JobID
	Name int32 // for people
}
