package message

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/record"
)

// MaxMessage is the largest size of an encoded [Message].
const MaxMessage = 1 << 20

// Message travels between the stores of two nodes. A message is immutable and may be
// delivered late, twice or never.
type Message interface{ Head() *Envelope }

// Envelope is the beginning of every message.
type Envelope struct {
	From   uint64 // incarnation of the sender
	To     uint64 // incarnation of the receiver; 0 is any
	Roster uint64 // epoch of the roster that the sender knows
}

// Head returns the envelope itself.
func (e *Envelope) Head() *Envelope { return e }

// The messages of the register. A value is a roster as a delta from nothing.
type (
	// Prepare asks an acceptor to promise a ballot.
	Prepare struct {
		Envelope
		Generation uint64
		Ballot     Ballot
		Have       Ballot // of the value that the proposer already knows
	}
	// Promise answers a [Prepare] with the value that the acceptor accepted last.
	Promise struct {
		Envelope
		Generation uint64
		Ballot     Ballot
		Accepted   Ballot
		Value      *roster.Delta // nil if the proposer has the value
	}
	// Accept asks an acceptor to accept a value under a promised ballot.
	Accept struct {
		Envelope
		Generation uint64
		Ballot     Ballot
		// The value is a delta from the value accepted under Base; zero: from nothing.
		Base  Ballot
		Value *roster.Delta
	}
	// Accepted answers an [Accept].
	Accepted struct {
		Envelope
		Generation uint64
		Ballot     Ballot
	}
	// Refuse tells a proposer why the acceptor refuses: another proposer is ahead
	// (Promised), this node is no acceptor, or this node needs the whole value.
	Refuse struct {
		Envelope
		Generation uint64
		Ballot     Ballot
		Promised   Ballot
		NoAcceptor bool
		Whole      bool
	}
	// Install makes the receiver an acceptor.
	Install struct {
		Envelope
		Accepted Ballot // of the sender's value; none: the value was chosen
		Value    *roster.Delta
	}
)

// Messages about the roster.
type (
	// Roster has chosen values, each following the value before.
	Roster struct {
		Envelope
		Deltas []*roster.Delta
	}
	// Want asks for the roster, if the receiver has a newer epoch.
	Want struct{ Envelope }
	// Have tells the epoch of the roster that the sender knows.
	Have struct{ Envelope }
	// Ask takes wishes to the proposer.
	Ask struct {
		Envelope
		Changes []roster.Change
	}
)

// Op is an operation on the way to a home. The caller chose Number. Epoch is the
// config under which the caller believes the receiver to be home: the receiver carries
// out the operation in no other epoch.
type Op struct {
	Number uint64
	Shard  dht.Shard
	Epoch  uint64
	Op     dht.Op
}

// Reply carries the epoch in which the operation was carried out. If the caller has
// asked again in a later epoch, a reply of an earlier epoch does not count: the later
// epoch may have another result.
type Reply struct {
	Number uint64
	Epoch  uint64
	Result dht.Result
}

// The operations between caller and home.
type (
	// Ops takes operations to their home.
	Ops struct {
		Envelope
		Floor uint64 // the caller has all answers to numbers below
		Ops   []Op
	}
	// Replies answers operations of [Ops].
	Replies struct {
		Envelope
		Replies []Reply
	}
)

// The kinds of items; these values cross the wire: append only.
const (
	ItemRecord  = iota + 1 // a version of a record
	ItemConfirm            // asks whether the receiver is still in this epoch
	ItemDrop               // drop a removed record with this stamp
)

// Item is one instruction of a primary to another replica or to a learner.
type Item struct {
	What    uint8
	Shard   dht.Shard
	Epoch   uint64
	Session uint64 // of the learner; 0 for a replica
	Key     dht.Key
	Rec     *record.Record
	Stamp   dht.Version // of an ItemDrop
}

// Messages between the replicas of a shard.
type (
	// Replicate is a batch of items of a primary.
	Replicate struct {
		Envelope
		Batch   uint64
		Durable bool // to be acknowledged when the items are on the disk
		Items   []Item
	}
	// Ack acknowledges batches of [Replicate].
	Ack struct {
		Envelope
		Batches []BatchAck
	}
	// Snapshot is a piece of the records of a shard, to a learner.
	Snapshot struct {
		Envelope
		Shard   dht.Shard
		Epoch   uint64
		Session uint64
		Piece   uint64
		Last    bool
		Items   []Keyed
	}
	// SnapshotAck acknowledges a [Snapshot].
	SnapshotAck struct {
		Envelope
		Shard   dht.Shard
		Epoch   uint64
		Session uint64
		Piece   uint64
	}
)

// BatchAck confirms all items of a batch, except the items of an epoch that is over.
type BatchAck struct {
	Number uint64
	Over   []uint32 // by place in the batch
}

// Keyed is a record with its key.
type Keyed struct {
	Key dht.Key
	Rec *record.Record
}

// Messages of watches.
type (
	// WatchedKey begins or ends a watch, at the home of the key.
	WatchedKey struct {
		Number  uint64
		Shard   dht.Shard
		Epoch   uint64
		Key     dht.Key
		Version dht.Version // the last version seen
		End     bool        // the watch ended
	}
	// Watch takes watches to a home.
	Watch struct {
		Envelope
		Watches []WatchedKey
	}
	// Changed reports changes of watched records, and answers a [Watch] with their state.
	Changed struct {
		Envelope
		Changes []Change
	}
	// Change is the state of a watched record.
	Change struct {
		Number uint64
		Shard  dht.Shard
		Epoch  uint64
		Key    dht.Key
		Result dht.Result
	}
	// Seen acknowledges a [Changed].
	Seen struct {
		Envelope
		Seen []SeenVersion
	}
	// SeenVersion is the version that a watch has seen.
	SeenVersion struct {
		Number  uint64
		Shard   dht.Shard
		Key     dht.Key
		Version dht.Version
		End     bool // there is no such watch any more
	}
)

// Messages that recover lost shards from disks.
type (
	// Offer tells the proposer of data of lost shards.
	Offer struct {
		Envelope
		Offers []roster.DiskCopy
	}
	// Recover asks a node that offered data to recover a shard.
	Recover struct {
		Envelope
		Shard   dht.Shard
		Epoch   uint64
		Offered []dht.Replica // the nodes that offered, the receiver included
	}
	// Fetch asks for the records of a shard whose keys follow After.
	Fetch struct {
		Envelope
		Shard dht.Shard
		Epoch uint64
		After dht.Key
	}
	// Images answers a [Fetch].
	Images struct {
		Envelope
		Shard dht.Shard
		Epoch uint64
		After dht.Key
		Items []Keyed
		More  bool
	}
)

// Messages that replace a lost roster.
type (
	// Count asks for the receiver's knowledge of the roster.
	Count struct {
		Envelope
		Nonce uint64
	}
	// Counted answers a [Count].
	Counted struct {
		Envelope
		Nonce    uint64
		Busy     bool // the sender runs an AcceptLoss too, and goes first
		Acceptor uint64
		Chosen   bool
		Stamp    uint64
		Astray   bool
		Known    *roster.Delta     // nil: none
		Images   []roster.DiskCopy // if the sender knows no chosen roster
	}
)

// Ballot orders proposals.
type Ballot struct {
	N           uint64
	Name        filch.NodeName
	Incarnation uint64
}

// Less reports whether b comes before c: by N, then by the proposer.
func (b Ballot) Less(c Ballot) bool {
	if b.N != c.N {
		return b.N < c.N
	}
	if b.Name != c.Name {
		return b.Name < c.Name
	}
	return b.Incarnation < c.Incarnation
}
