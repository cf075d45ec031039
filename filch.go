package filch

import (
	"fmt"
	"strconv"
	"time"
)

// Version is the released version that this tree becomes.
const Version = "0.1.0"

// Build names a binary: the version and the commit. Launchers show each other their
// builds.
func Build(commit string) string { return Version + "+" + commit }

// Never is the deadline of something without a due time.
const Never = time.Duration(1<<63 - 1)

// NodeName names a node of an instance; unique among its live members.
// At most [MaxNodeName] bytes of letters, digits, '-', '_' and '.'.
type NodeName string

// Limits of an instance.
const (
	// MaxNodeName is the maximum length of a [NodeName] in bytes.
	MaxNodeName = 63
	// MaxNodes bounds the lists of an instance's nodes: the member list and a
	// roster accept no more nodes.
	MaxNodes = 10_000
)

// JobID names a job within an instance: a positive decimal int32, printed
// bare and never reused while the instance lives.
type JobID int32

func (j JobID) String() string { return strconv.Itoa(int(j)) }

// Attempt counts the starts of a job or task, from 1.
type Attempt int32

// Rank numbers a process of a run, dense from 0.
type Rank int32

// LeaseID names a promise of slots made by one node to one job. A LeaseID is unique
// within the lender's incarnation, which is part of it.
type LeaseID struct {
	Incarnation uint64 // of the lender
	Serial      uint64
}

// Ident is the identity of one attempt of a job outside its instance: process
// marks, PMI kvsname and PMIx namespace are made from an Ident.
type Ident struct {
	Instance string // the instance's uuid
	Job      JobID
	Attempt  Attempt
}

// String has no spaces and at most 64 bytes, as required of a PMI kvsname.
func (i Ident) String() string { return fmt.Sprintf("%s.%d.%d", i.Instance, i.Job, i.Attempt) }

// Ticket orders jobs waiting for slots: first the class, then the time of the first
// submission, then the id. A Ticket is fixed for the life of a job, also over the
// job's attempts; so a waiting job comes before all later jobs of its class.
type Ticket struct {
	Class  int32 // lower goes first; 0 unless a priority was asked for
	UnixNS int64 // first submission, by the clock of the submitting node
	Job    JobID
}

// Older reports whether t goes before u.
func (t Ticket) Older(u Ticket) bool {
	if t.Class != u.Class {
		return t.Class < u.Class
	}
	if t.UnixNS != u.UnixNS {
		return t.UnixNS < u.UnixNS
	}
	return t.Job < u.Job
}

// State is the state of a job or task. States at and after [OK] are final.
type State uint8

// The states, in the order of a life.
const (
	Waiting State = iota // for slots, or for another job
	Ready                // slots locked, keepers being made ready
	Running
	OK        // ended with 0
	Failed    // ended with another code, or could not be started
	Killed    // ended by a limit of ours: time, memory
	Lost      // the node was lost while the job or task ran
	Skipped   // never started, since a dependency failed
	Cancelled // on request
)

var stateNames = [...]string{"waiting", "ready", "running", "ok", "failed", "killed", "lost", "skipped", "cancelled"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "state-" + strconv.Itoa(int(s))
}

// StateOf returns the state with a name.
func StateOf(name string) (State, bool) {
	for i, n := range stateNames {
		if n == name {
			return State(i), true
		}
	}
	return 0, false
}

// Final reports whether s is an end.
func (s State) Final() bool { return s >= OK }

// Exit codes of our own; see the table in docs/exit-codes.md.
const (
	ExitUsage      = 2
	ExitNodeLost   = 122
	ExitDown       = 123 // the instance went down while a command waited
	ExitTimeLimit  = 124
	ExitOurs       = 125 // filch failed, or the request can never fit
	ExitNotExec    = 126
	ExitNotFound   = 127
	ExitInterrupt  = 130
	ExitCancelled  = 143
	ExitSignalBase = 128
)

// Kind classes an error; the list is closed and crosses the wire: append only.
type Kind uint8

// The kinds.
const (
	Internal Kind = iota // a fault of ours
	Invalid              // the request makes no sense
	Denied               // not allowed
	NoFit                // can never fit
	Busy                 // cannot be done now
	NotFound             // no such job, node, file
	NodeLost
	Timeout
	Canceled
	Unavailable // a peer, the launcher or the store does not answer
)

// Error is an error message for a user: the attempt, with numbers, and the next
// thing to do. Text is lower case without a full stop; Hint may be empty.
type Error struct {
	Kind Kind
	Text string
	Hint string
}

func (e *Error) Error() string { return e.Text }

// Errorf makes an [Error] without a hint.
func Errorf(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Text: fmt.Sprintf(format, args...)}
}

// WithHint returns a copy of e with a hint.
func (e *Error) WithHint(format string, args ...any) *Error {
	return &Error{Kind: e.Kind, Text: e.Text, Hint: fmt.Sprintf(format, args...)}
}
