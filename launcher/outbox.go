package launcher

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// ClientID names a connection of a local client while it lasts.
type ClientID uint64

// NodeRanks is one node's part in a job: its place in the tree of launches is
// its index in Launch.Nodes, and Nodes[0] is the root.
type NodeRanks struct {
	Node  filch.NodeName
	Lease filch.LeaseID
	Ranks []Span
}

// Launch is what every keeper of an attempt is told. It goes down a tree of
// TreeWidth children: the parent of index i is (i-1)/TreeWidth.
type Launch struct {
	Ident    filch.Ident
	Name     string
	Origin   filch.NodeName // where the job's client and the decisions are
	Parent   filch.JobID
	Task     uint64 // of Parent, whose step it is; 0 none
	Size     int32
	Nodes    []NodeRanks
	Base     Room // what the ranks of a node hold together
	Each     Room // and each of them
	KillWait time.Duration
	Detach   bool
	Timed    bool // it has a time limit
	Order    []byte
	Hop      int32 // how often the job was taken over
	Copy     *Copy // what every node needs before it is ready; nil nothing
}

// TreeWidth is the number of children in the trees of launches and fences:
// three levels reach 4,368 nodes.
const TreeWidth = 16

// Start makes a keeper of this node take a job: it checks all that can be
// checked before an exec (the working directory, the programs, the files) and
// answers Ready. With Go set it starts the ranks at once (a job of one node).
type Start struct {
	Launch Launch
	Index  int32    // this node's place in Launch.Nodes
	Cores  []int32  // the cpus lent; empty: bind nothing
	Spare  int32    // cpus that no other run or task has, as far as slots tell
	Net    string   // the address of this node by which the job's others reach it; empty: not known
	Slots  []int32  // their numbers in the ledger, for a launcher that is restarted
	GPUs   []string // names of the GPUs lent
	Memory int64    // bytes lent, 0 no limit
	Go     bool

	Archive string        // of Launch.Copy, on this node: the daemon fills it in
	Lease   time.Duration // how long the ranks may run on without a launcher, as [Node.Lease] says; 0 for ever
}

// Deed is something that the daemon does to a keeper of this node.
type Deed struct {
	Ident  filch.Ident
	Kind   DeedKind
	Signal int32         // DeedSignal: the signal, DeedStop: the first one (TERM)
	Grace  time.Duration // DeedStop: from the signal to KILL; DeedLease: how long
	Reason string        // told in the keeper's last line
}

// DeedKind is a kind of [Deed].
type DeedKind uint8

// The deeds.
const (
	DeedGo     DeedKind = iota // exec the ranks
	DeedSignal                 // forward a signal to every rank
	DeedStop                   // CONT, Signal, and after Grace KILL until nothing is left
	DeedForget                 // all is known: flush and leave
	DeedLease                  // the ranks may run on for that long without a launcher
)

// Send is a message to another node, never to this one.
type Send struct {
	To      filch.NodeName
	Message Message
}

// Message travels between the brains of two nodes. Handlers are idempotent:
// the network drops, repeats, delays and reorders. Messages are pointers to
// the structs of messages.go; the receiver keeps parts of them, so that a
// sender never changes one that was sent.
type Message interface{ isMessage() }

// Reply is an event for a local client.
type Reply struct {
	Client ClientID
	Event  Event
}

// Event is what a client of a job is told.
type Event interface{ isEvent() }

// Record is something to be durable before anything after it is acted on:
// the origin's own memory of a job, for a launcher that is restarted. At most
// one of Job and Part is set; with neither the key is removed.
type Record struct {
	Key  string
	Job  *JobRecord
	Part *PartRecord
}

// Note is an event for the log, metrics and traces: kind, job and a line.
type Note struct {
	Level int8 // as slog
	Text  string
	Job   filch.JobID
	Node  filch.NodeName
}

// Outbox is what is to be done, in the order of its fields. The caller reuses
// it; the brain only appends.
//
// Logs are to be appended to the disk in their order and told of by
// [Node.StoreSynced]; what must wait for that is not in an Outbox before.
type Outbox struct {
	Notes   []Note
	Logs    []dht.LogEntry
	Hurry   uint64 // something waits for the entries up to this one
	Mirror  []byte // lines for this node's file of the queue's mirror
	Records []Record
	Starts  []Start
	Deeds   []Deed
	Sends   []Send
	Stores  []dht.StoreSend
	Replies []Reply
	Tasks   []TaskLaunch
	Look    bool // all nodes are to say what is tied on them; see [Node.Knot]
	TaskEnding
}

// TaskEnding is what is to be done about tasks that were started.
type TaskEnding struct {
	TaskStops   []TaskStop
	TaskForgets []filch.JobID
}

// Reset empties o and keeps its memory.
func (o *Outbox) Reset() {
	o.Notes, o.Starts = o.Notes[:0], o.Starts[:0]
	if !mutantStaleRecords {
		o.Records = o.Records[:0]
	}
	o.Deeds, o.Sends, o.Replies = o.Deeds[:0], o.Sends[:0], o.Replies[:0]
	o.Tasks, o.TaskStops, o.TaskForgets = o.Tasks[:0], o.TaskStops[:0], o.TaskForgets[:0]
	o.Logs, o.Stores, o.Hurry = o.Logs[:0], o.Stores[:0], 0
	o.Mirror, o.Look = o.Mirror[:0], false
}
