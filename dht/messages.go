package dht

import "github.com/filch-hpc/filch"

// StoreMessage travels between the stores of two nodes. It is immutable and
// may be delivered late, twice or never.
type StoreMessage interface{ head() *envelope }

// envelope is what all messages begin with.
type envelope struct {
	from   uint64 // incarnation of the sender
	to     uint64 // incarnation that is meant; 0 is any
	roster uint64 // epoch of the roster that the sender knows
}

func (e *envelope) head() *envelope { return e }

// The messages of the register. What they call value is a roster as a delta
// from nothing.
type (
	msgPrepare struct {
		envelope
		generation uint64
		ballot     ballot
		have       ballot // of the value that the proposer knows already
	}
	msgPromise struct {
		envelope
		generation uint64
		ballot     ballot
		accepted   ballot
		value      *rosterDelta // nil if the proposer has it
	}
	msgAccept struct {
		envelope
		generation uint64
		ballot     ballot
		base       ballot // value begins at the one accepted under it; zero: at nothing
		value      *rosterDelta
	}
	msgAccepted struct {
		envelope
		generation uint64
		ballot     ballot
	}
	// msgRefuse answers a proposer that cannot go on: another one is ahead
	// (promised), this node is not seated, or needs the whole value.
	msgRefuse struct {
		envelope
		generation uint64
		ballot     ballot
		promised   ballot
		unseated   bool
		whole      bool
	}
	msgInstall struct {
		envelope
		accepted ballot // under which the sender's seat has the value; none: it was chosen
		value    *rosterDelta
	}
)

// Messages about the roster.
type (
	msgRoster struct { // chosen values, each after the one before
		envelope
		deltas []*rosterDelta
	}
	msgWant struct{ envelope } // the roster, if the receiver's is newer
	msgHave struct{ envelope } // the sender's epoch is in the envelope
	msgAsk  struct {           // wishes, to the steward
		envelope
		changes []change
	}
)

// wireOp is an operation on its way to a home. Its number is the caller's
// own; epoch is the config under which the caller believes the node to be the
// home: in no other one it is carried out there.
type wireOp struct {
	number uint64
	shard  Shard
	epoch  uint64
	op     Op
}

// wireReply says in which epoch the operation was carried out: an answer of an
// epoch before the one in which the caller asked again may be overtaken by what
// was done there.
type wireReply struct {
	number uint64
	epoch  uint64
	result Result
}

// The operations between caller and home.
type (
	msgOps struct {
		envelope
		floor uint64 // the caller has all answers to numbers below
		ops   []wireOp
	}
	msgReplies struct {
		envelope
		replies []wireReply
	}
)

// What an item is; they cross the wire: append only.
const (
	itemRecord  = iota + 1 // a version of a record
	itemConfirm            // are we still in this epoch?
	itemDrop               // forget a removed record, of this stamp
)

// item is one thing that a primary tells another replica or its learner.
type item struct {
	what    uint8
	shard   Shard
	epoch   uint64
	session uint64 // of the learner; 0 for a replica
	key     Key
	rec     *record
	stamp   Version // itemDrop
	flight  *flight // here only: who waits for the acknowledgment
}

// Messages between the replicas of a shard.
type (
	msgReplicate struct {
		envelope
		batch   uint64
		durable bool // to be acknowledged when it is on disk
		items   []item
	}
	msgAck struct {
		envelope
		batches []batchAck
	}
	msgSnapshot struct { // a piece of what a shard holds, to a learner
		envelope
		shard   Shard
		epoch   uint64
		session uint64
		piece   uint64
		last    bool
		items   []keyed
	}
	msgSnapshotAck struct {
		envelope
		shard   Shard
		epoch   uint64
		session uint64
		piece   uint64
	}
)

// batchAck says that everything in a batch is held, but for what is of an
// epoch that is over.
type batchAck struct {
	number uint64
	over   []uint32 // by place in the batch
}

type keyed struct {
	key Key
	rec *record
}

// Messages of watches.
type (
	wireWatch struct {
		number  uint64
		shard   Shard
		epoch   uint64
		key     Key
		version Version // the last one seen
		end     bool    // no watch any more
	}
	msgWatch struct {
		envelope
		watches []wireWatch
	}
	msgChanged struct { // or Watching, as the answer to a msgWatch
		envelope
		changes []wireChange
	}
	wireChange struct {
		number uint64
		shard  Shard
		epoch  uint64
		key    Key
		result Result
	}
	msgSeen struct { // acknowledges msgChanged
		envelope
		seen []wireSeen
	}
	wireSeen struct {
		number  uint64
		shard   Shard
		key     Key
		version Version
		end     bool // there is no such watch any more
	}
)

// Messages by which lost shards are brought back from disks.
type (
	wireOffer struct {
		shard       Shard
		epoch       uint64
		incarnation uint64 // the one that was a replica
		guess       bool   // the disk is damaged and may have nothing of it
	}
	msgOffer struct {
		envelope
		offers []wireOffer
	}
	msgRecover struct {
		envelope
		shard Shard
		epoch uint64
		from  []Replica // who offered, the receiver included
	}
	msgFetch struct {
		envelope
		shard Shard
		epoch uint64
		after Key
	}
	msgImages struct {
		envelope
		shard Shard
		epoch uint64
		after Key
		items []keyed
		more  bool
	}
)

// Messages by which a roster that is lost is begun anew.
type (
	msgCount struct { // what do you know of the roster?
		envelope
		nonce uint64
	}
	msgCounted struct {
		envelope
		nonce  uint64
		busy   bool // the sender is at it itself, and goes first
		seat   uint64
		chosen bool
		stamp  uint64
		astray bool
		known  *rosterDelta // nil: none
		images []wireOffer  // if it knows no chosen one
	}
)

// ballot orders proposals.
type ballot struct {
	n           uint64
	name        filch.NodeName
	incarnation uint64
}

func (b ballot) less(c ballot) bool {
	if b.n != c.n {
		return b.n < c.n
	}
	if b.name != c.name {
		return b.name < c.name
	}
	return b.incarnation < c.incarnation
}
