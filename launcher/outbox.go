package launcher

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/mtc/report"
)

// ClientID names a connection of a local client while the connection lasts.
type ClientID uint64

// NodeRanks is a node's part in a job. The node's place in the tree of launches is its
// index in Launch.Nodes, and Nodes[0] is the root.
type NodeRanks struct {
	Node  filch.NodeName
	Lease filch.LeaseID
	Ranks []Span
	Slots int32 // of the whole node, for a job that takes whole nodes; 0 for others
}

// CountRanks returns the number of ranks in spans.
func CountRanks(spans []Span) (k int32) {
	for _, s := range spans {
		k += s.Count
	}
	return k
}

// Launch is the description of an attempt sent to every keeper. A launch goes down a tree
// with TreeWidth children for each node: the parent of index i is (i-1)/TreeWidth.
type Launch struct {
	Ident    filch.Ident
	Name     string
	Origin   filch.NodeName // the node of the job's client and of the decisions
	Parent   filch.JobID
	Task     uint64 // of Parent, if the job is a step of this task; 0 none
	Step     int32  // the number of the step in Parent, from 0
	Size     int32
	Universe int32 // the most ranks of this kind on the nodes that the job may use: MPI_UNIVERSE_SIZE
	Nodes    []NodeRanks
	Base     filch.Room // the room held by the ranks of a node together
	Each     filch.Room // and by each rank
	KillWait time.Duration
	Detach   bool
	Timed    bool // the job has a time limit
	Keep     bool // the room of ended ranks stays with the job: see [slots.Spares]
	Order    []byte
	Of       TaskID // the task that is this gang; the zero value of a run
	Life     uint64 // of a gang: the incarnation of Origin
	Staged   bool   // as in [Request]
	Hop      int32  // how often the job was taken over
	Copy     *Copy  // files needed by every node before the node is ready; nil none
	Ticket   filch.Ticket
	Idle     int32 // attempts before this one without a launch, as far as known
}

// Try is the number of the start as the ranks and people see the number. It counts launches: a
// program that finds a number above 1 may look for the files of an earlier start. The attempt
// distinguishes leases too, and goes up where a waiting job begins to gather anew.
func (l *Launch) Try() filch.Attempt { return max(l.Ident.Attempt-filch.Attempt(l.Idle), 1) }

// PrepareWait is how long the keepers may take until all are ready.
const PrepareWait = 60 * time.Second

// StageWait is how much longer the keepers may take where the nodes first fetch the inputs
// of a gang's task, which may have any size. A node that dies meanwhile ends the wait.
const StageWait = time.Hour

// TreeWidth is the number of children in the trees of launches and fences:
// three levels reach 4,368 nodes.
const TreeWidth = 16

// Start makes a keeper of this node take a job. The keeper does every check possible
// before an exec (the working directory, the programs, the files) and answers Ready. With
// Go set the keeper starts the ranks at once (a job of a single node).
type Start struct {
	Launch Launch
	Index  int32 // this node's place in Launch.Nodes
	// The processors lent, in the order of ranks; empty: bind nothing.
	Processors []filch.Processor
	Spare      int32    // processors without another run or task, as far as slots tell
	Net        string   // this node's address for the job's other nodes; empty: not known
	Home       string   // the address of Launch.Origin; empty: not known
	Slots      []int32  // the slots' numbers in the ledger, for a restarted launcher
	GPUs       []string // names of the GPUs lent
	ParentGPUs []string // GPUs of the job around on this node, for a step without GPUs of its own
	Memory     int64    // bytes lent, 0 no limit
	Go         bool

	Archive string // of Launch.Copy, on this node: the daemon sets Archive
	// Of Launch.Staged, the folder of the ranks on this node, in place of the order's: the
	// daemon sets Folder.
	Folder string
	// How long the ranks may run on without a launcher, as Node.Lease says; 0 forever.
	Lease time.Duration
}

// Deed is an action of the daemon on a keeper of this node.
type Deed struct {
	Ident  filch.Ident
	Kind   DeedKind
	Signal int32         // DeedSignal: the signal, DeedStop: the first signal (TERM)
	Grace  time.Duration // DeedStop: from the signal to KILL; DeedLease: how long
	Reason string        // printed in the keeper's last line
}

// DeedKind is a kind of [Deed].
type DeedKind uint8

// The deeds.
const (
	DeedGo     DeedKind = iota // exec the ranks
	DeedSignal                 // forward a signal to every rank
	DeedStop                   // CONT, Signal, and after Grace KILL until nothing is left
	DeedForget                 // everything is known: flush and leave
	DeedLease                  // the ranks may run on for this time without a launcher
)

// Send is a message to another node, never to this one.
type Send struct {
	To      filch.NodeName
	Message Message
}

// Message travels between two Nodes. Handlers are idempotent: the network drops, repeats,
// delays and reorders. Messages are pointers to the structs of messages.go. The receiver
// keeps parts of a message, so a sender never changes a sent message.
type Message interface{ isMessage() }

// Reply is an event for a local client.
type Reply struct {
	Client ClientID
	Event  Event
}

// Event is a report to a client of a job.
type Event interface{ isEvent() }

// Record must be durable before the daemon acts on anything after it: Record is the
// origin's own memory of a job, for a restarted launcher. At most one of Job and Part is
// set; with neither the key is removed.
type Record struct {
	Key         string
	Job         *JobRecord
	Participant *ParticipantRecord
}

// Note is an event for the log, metrics and traces: kind, job and a line.
type Note struct {
	Level int8 // as slog
	Text  string
	Job   filch.JobID
	Node  filch.NodeName
}

// PastJob is a job that has ended, or an attempt of a job that starts again.
type PastJob struct {
	Info  JobInfo
	Again bool
}

// Outbox lists the actions for the caller, in the order of its fields. The caller reuses
// the Outbox; the Node only appends.
//
// The caller appends Logs to the disk in their order and reports them by
// Node.StoreSynced; outputs that depend on an append are not in an Outbox before then.
type Outbox struct {
	Notes   []Note
	Events  []events.Event // without time and number
	Past    []PastJob
	Logs    []store.LogEntry
	Hurry   uint64 // an output waits for the entries up to this entry
	Mirror  []byte // lines for this node's file of the queue's mirror
	Records []Record
	Starts  []Start
	Deeds   []Deed
	Sends   []Send
	Stores  []store.Send
	Replies []Reply
	Tasks   []TaskLaunch
	// Ends of gangs whose ranks are gone: the caller adds what the node kept of their output,
	// and reports the ends as of tasks.
	GangEnds []TaskEnd
	Seeks    []filch.NodeName // nodes to look up; see Node.Sought
	Drain    *Drain           // this node drains by itself; without a reason: it takes work again
	Look     bool             // all nodes report the jobs tied on them; see Node.Knot

	// Actions on started tasks.
	TaskStops   []TaskStop
	TaskLosers  []report.Loser
	TaskForgets []filch.JobID
}

// Reset empties o and keeps the memory allocated for o.
func (o *Outbox) Reset() {
	o.Notes, o.Starts = o.Notes[:0], o.Starts[:0]
	o.Events, o.Past = o.Events[:0], o.Past[:0]
	if !mutantStaleOutbox {
		o.Records = o.Records[:0]
	}
	o.Deeds, o.Sends, o.Replies = o.Deeds[:0], o.Sends[:0], o.Replies[:0]
	o.Tasks, o.GangEnds, o.TaskStops, o.TaskForgets = o.Tasks[:0], o.GangEnds[:0], o.TaskStops[:0], o.TaskForgets[:0]
	o.TaskLosers = o.TaskLosers[:0]
	o.Logs, o.Stores, o.Hurry = o.Logs[:0], o.Stores[:0], 0
	o.Mirror, o.Seeks, o.Look, o.Drain = o.Mirror[:0], o.Seeks[:0], false, nil
}

// Seat returns the participant with index i.
func (l *Launch) Participant(i int) LostParticipant {
	at := &l.Nodes[i]
	return LostParticipant{Node: at.Node, Attempt: l.Ident.Attempt, Index: int32(i), Lease: at.Lease}
}

// Seats returns all participants.
func (l *Launch) Participants() (all []LostParticipant) {
	for i := range l.Nodes {
		all = append(all, l.Participant(i))
	}
	return all
}
