package store

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store/message"
)

// Answer is the result of operation Index of a Do, or a change of the record watched
// under Tag.
type Answer struct {
	Tag    uint64
	Index  int
	Watch  bool
	Result dht.Result
}

// Send is a message for another node's store.
type Send struct {
	To      filch.NodeName
	Message message.Message
}

// LogEntry is for the disk: the latest Value under Key counts, nil removes. Numbers begin
// at 1 with a Store and grow by one, even across a [Store.Rejoin].
type LogEntry struct {
	Number uint64
	Key    string
	Value  []byte
}

// HomeChange reports that this node became, or ceased to be, the primary of a shard.
type HomeChange struct {
	Shard dht.Shard
	Home  bool
}

// Config of a Store.
type Config struct {
	Self        filch.NodeName
	Incarnation uint64
	Seed        uint64    // of the random pauses
	Kinds       dht.Kinds // besides the built-in kinds
	// Primaries report changes of records with this prefix in Out.Changed; "" reports
	// none.
	Tell dht.Key
}

// Out lists the actions for the shell, in the order of its fields. Out has no message or
// result that depends on entries not yet on the disk: the store keeps these until
// [Store.Synced].
type Out struct {
	Notes []Note
	Logs  []LogEntry
	// An action waits for the disk to have the entries up to this number; 0: no new
	// request.
	Hurry   uint64
	Sends   []Send
	Results []Answer
	Homes   []HomeChange
	Changed []HomedRecord // see [Config.Tell]; without a value: removed
	Left    bool          // after Leave: this node keeps nothing any more
}

// Reset empties o and keeps the allocated memory.
func (o *Out) Reset() {
	clear(o.Notes)
	clear(o.Logs)
	clear(o.Sends)
	clear(o.Results)
	clear(o.Changed)
	*o = Out{Changed: o.Changed[:0], Notes: o.Notes[:0], Logs: o.Logs[:0], Sends: o.Sends[:0], Results: o.Results[:0], Homes: o.Homes[:0]}
}

// NoteKind is a kind of [Note].
type NoteKind uint8

// The kinds of notes.
const (
	NoteRoster     NoteKind = iota // a new roster with N members
	NoteAcceptors                  // new acceptors: N is the generation
	NoteShrunk                     // a shard lost the replica Peer
	NoteGrown                      // a shard gained the replica Peer
	NoteRecovering                 // a shard waits for the disks of other nodes
	NoteRecovered                  // a shard was recovered from disks: N records
	NoteLossTaken                  // a lost shard was created again, empty, on request
	NoteDisk                       // the disk failed (with Text) or is back (no Text)
	// The roster was lost and replaced, based on the roster of Epoch that Peer knew. N
	// shards wait for disks.
	NoteForced
	NoteDropped // Peer sent a malformed message, with Text
)

// The log shows these names, as docs and scripts know them.
var noteNames = [...]string{"roster", "seats", "shrunk", "grown", "recovering", "recovered", "loss-taken", "disk", "anew", "dropped"}

func (k NoteKind) String() string { return noteNames[k] }

// Note is an event for logs and metrics.
type Note struct {
	Kind  NoteKind
	Shard dht.Shard
	Epoch uint64
	Peer  filch.NodeName
	N     int
	Text  string
}

// Status is for people: `filch roster` shows a Status.
type Status struct {
	Known      bool // this node knows a roster
	Epoch      uint64
	Generation uint64
	// This node, as an acceptor, has accepted that other nodes become the acceptors. The
	// move may complete, whichever nodes die.
	Sealed     bool
	Acceptors  []filch.NodeName
	Acceptor   bool // this node is an acceptor and knows its promises
	Members    []dht.Replica
	Shards     int
	Replicas   int         // shards of which this node is a full replica
	Homes      int         // of those, the primary
	Short      int         // shards with fewer replicas than there could be
	Lost       []dht.Shard // shards without any live replica
	Learners   int         // shards that are growing, in the whole instance
	Records    int         // held here, removed ones included
	Pending    int         // operations of this node that wait for an answer
	DiskReason string      // why the disk accepts no entries, "" while the disk works
}

// HomedRecord is a record whose primary is this node.
type HomedRecord struct {
	Key     dht.Key
	Kind    dht.Kind
	Version dht.Version
	Value   []byte
}
