package dht

import (
	"cmp"
	"time"

	"github.com/filch-hpc/filch"
)

// Sizes of what the store takes in.
const (
	// MaxKey is the length of a [Key] at most.
	MaxKey = 512
	// MaxValue is the size of a record's value at most: a message carries at
	// least two of them.
	MaxValue = 256 << 10
	// MaxStoreMessage is the size of an encoded [StoreMessage] at most.
	MaxStoreMessage = 1 << 20
	// KeepRemoved is how long a removed record is remembered unless an
	// operation says otherwise: longer than anybody repeats an operation.
	KeepRemoved = 10 * time.Minute
)

// Version orders the contents of a record: by the epoch of its shard's
// config, then by a count of its primary. The zero Version is that of no
// record.
type Version struct{ Epoch, Seq uint64 }

// Less reports whether v is older than w.
func (v Version) Less(w Version) bool {
	return v.Epoch < w.Epoch || v.Epoch == w.Epoch && v.Seq < w.Seq
}

// OpID is the identity of an operation: repeated under the same OpID it has
// the same answer and no second effect. Node and Incarnation are of who
// issued it, Seq grows by one from 1 and stays below 1<<63. The zero OpID lets
// the store choose.
type OpID struct {
	Node        filch.NodeName
	Incarnation uint64
	Seq         uint64
}

// OpCode says what an operation does.
type OpCode uint8

// The operations; they cross the wire: append only.
const (
	OpInsert OpCode = iota + 1 // makes the record, unless there is one: exists, with what is there
	OpLookup
	OpRemove // of version Expect, or of any when that is zero
	OpAppend // of Value to a record of KindList, made if absent
	OpSwap   // to Value, if the record has version Expect; a zero Expect means that there is none
	OpMerge  // of Value by the rule of Kind, made if absent
	OpJoin   // as OpMerge, but a record that was removed stays so for as long as that is remembered: absent
	opCodes
)

// Op is one operation on one record.
type Op struct {
	ID     OpID
	Code   OpCode
	Key    Key
	Kind   Kind // of a record that is made; of an existing one it must be the same, 0 takes any
	Value  []byte
	Expect Version
	// Consistent is for OpLookup: what is answered was true between question and
	// answer. Without it the answer may be as old as the asked node's view of the
	// configs, and says so by Result.Stale.
	Consistent bool
	// Durable operations are answered when every replica has them on disk,
	// others when every replica has them in memory; a consistent lookup, when
	// every replica has on disk what it shows.
	Durable bool
	// Keep is how long a removed record is remembered, so that an operation
	// that arrives late finds it removed; 0 is KeepRemoved.
	Keep time.Duration
}

// Outcome is how an operation ended.
type Outcome uint8

// The outcomes; they cross the wire: append only.
const (
	Done         Outcome = iota + 1
	Exists               // OpInsert: there is a record already; it comes along
	Absent               // there is no such record
	Mismatch             // the record has another version than expected; it comes along
	Conflict             // the record is of another kind, or the merge refused; Err says which
	Unknown              // sent, not answered in time: it may have been carried out or not, now or later
	Unavailable          // not carried out: its shard cannot be reached, or the node cannot log
	Full                 // the record would be too large
	Invalid              // the operation makes no sense; Err says why
	outcomeMoved         // between stores only: asked the wrong node
	outcomes
)

var outcomeNames = [...]string{"none", "done", "exists", "absent", "mismatch", "conflict", "unknown", "unavailable", "full", "invalid", "moved"}

func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "outcome-?"
}

// Result answers one operation. Version is that of the last change of the
// record's contents; it stays the same when replicas come and go.
type Result struct {
	Outcome Outcome
	Kind    Kind
	Version Version
	// Value is the record for OpLookup, OpInsert that finds one, OpSwap that
	// mismatches; the reply of the rule for OpMerge and OpJoin. It must not be changed.
	Value []byte
	Stale bool // answered without asking the other replicas
	Err   string
}

// StoreResult answers operation Index of Do, or tells of a change that was
// watched under Tag.
type StoreResult struct {
	Tag    uint64
	Index  int
	Watch  bool
	Result Result
}

// StoreSend is a message for another node's store.
type StoreSend struct {
	To      filch.NodeName
	Message StoreMessage
}

// LogEntry is for the disk: the latest Value under Key counts, nil removes.
// Numbers begin at 1 with a Store and grow by one, [Store.Rejoin] or not.
type LogEntry struct {
	Number uint64
	Key    string
	Value  []byte
}

// HomeChange tells that this node became, or ceased to be, the primary of a
// shard.
type HomeChange struct {
	Shard Shard
	Home  bool
}

// PeerState is what a store wants to know of another node.
type PeerState uint8

// The states of a peer.
const (
	PeerUp PeerState = iota
	PeerSuspect
	PeerGone // as the state Gone of a member: nothing is asked of it, and it may be back
	PeerDead
	PeerLeft
)

// Peer is an incarnation of another node, as the member list sees it.
type Peer struct {
	Name        filch.NodeName
	Incarnation uint64
	State       PeerState
}

// Replica is one incarnation of a node in a config.
type Replica struct {
	Name        filch.NodeName
	Incarnation uint64
}

func (r Replica) compare(o Replica) int {
	return cmp.Or(cmp.Compare(r.Name, o.Name), cmp.Compare(r.Incarnation, o.Incarnation))
}

// StoreConfig of a Store.
type StoreConfig struct {
	Self        filch.NodeName
	Incarnation uint64
	Seed        uint64 // of the random pauses
	Kinds       Kinds  // besides the built-in ones
	Tell        Key    // changes of records with this prefix are told by their primary; "" of none
}

// StoreOut is what is to be done, acted on in the order of its fields. What
// rests on entries that the disk does not have yet is not in it: the store keeps
// that until [Store.Synced].
type StoreOut struct {
	Notes   []StoreNote
	Logs    []LogEntry
	Hurry   uint64 // something waits for the disk to have the entries up to this one; 0 nothing new
	Sends   []StoreSend
	Results []StoreResult
	Homes   []HomeChange
	Changed []HomedRecord // see [StoreConfig.Tell]; without a value: removed
	Left    bool          // after Leave: nothing is kept here any more
}

// Reset empties o and keeps its memory.
func (o *StoreOut) Reset() {
	clear(o.Notes)
	clear(o.Logs)
	clear(o.Sends)
	clear(o.Results)
	clear(o.Changed)
	*o = StoreOut{Changed: o.Changed[:0], Notes: o.Notes[:0], Logs: o.Logs[:0], Sends: o.Sends[:0], Results: o.Results[:0], Homes: o.Homes[:0]}
}

// StoreNoteKind is a kind of [StoreNote].
type StoreNoteKind uint8

// The kinds of notes.
const (
	NoteRoster     StoreNoteKind = iota // a new roster is known: N is its epoch
	NoteSeats                           // the roster moved to other seats: N is the generation
	NoteShrunk                          // a shard lost a replica: Peer is it
	NoteGrown                           // a shard gained a replica: Peer is it
	NoteRecovering                      // a shard of this node's disk waits for the disks of others
	NoteRecovered                       // a shard was brought back from disks: N records
	NoteLossTaken                       // a shard was made anew, empty, on request
	NoteDisk                            // the disk failed (Text says why) or is back (Text is empty)
	NoteAnew                            // the roster was lost and is begun anew from that of Epoch, which Peer knew: N shards wait for disks
	NoteDropped                         // a message made no sense: Text says why, Peer sent it
)

var storeNoteNames = [...]string{"roster", "seats", "shrunk", "grown", "recovering", "recovered", "loss-taken", "disk", "anew", "dropped"}

func (k StoreNoteKind) String() string { return storeNoteNames[k] }

// StoreNote tells of something that a log or a metric may want.
type StoreNote struct {
	Kind  StoreNoteKind
	Shard Shard
	Epoch uint64
	Peer  filch.NodeName
	N     int
	Text  string
}

// StoreStatus is for people: what `filch roster` shows.
type StoreStatus struct {
	Known      bool // this node knows a roster
	Epoch      uint64
	Generation uint64
	Sealed     bool // this node, as a seat, has accepted that others take the seats: it may come true whoever dies
	Seats      []filch.NodeName
	Seated     bool // this node is one of them and knows what it promised as such
	Members    []Replica
	Shards     int
	Replicas   int     // shards of which this node is a full replica
	Homes      int     // of those, the primary
	Short      int     // shards with fewer replicas than there could be
	Lost       []Shard // shards without any live replica
	Learners   int     // shards that are growing, in the whole instance
	Records    int     // held here, removed ones included
	Pending    int     // operations of this node that wait for an answer
	DiskReason string  // why the disk does not take anything, "" when it does
}

// HomedRecord is a record whose primary is this node.
type HomedRecord struct {
	Key     Key
	Kind    Kind
	Version Version
	Value   []byte
}
