package dht

import (
	"cmp"
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
)

// MaxKey is the maximum length of a [Key] in bytes.
const MaxKey = 512

// MaxValue is the maximum size of a record's value: a message carries at least two
// values.
const MaxValue = 256 << 10

// KeepRemoved is how long a removed record is remembered unless an operation says
// otherwise: longer than any caller repeats an operation.
const KeepRemoved = 10 * time.Minute

// Version orders the contents of a record: by the epoch of the shard's config, then
// by a count of the primary. The zero Version is the version of a missing record.
type Version struct{ Epoch, Seq uint64 }

// Less reports whether v is older than w.
func (v Version) Less(w Version) bool {
	return v.Epoch < w.Epoch || v.Epoch == w.Epoch && v.Seq < w.Seq
}

// OpID is the identity of an operation: repeated under the same OpID, the operation
// has the same answer and no second effect. Node and Incarnation are the issuer's,
// Seq grows by one from 1 and stays below 1<<63. With the zero OpID the store
// chooses.
type OpID struct {
	Node        filch.NodeName
	Incarnation uint64
	Seq         uint64
}

// OpCode says what an operation does.
type OpCode uint8

// The operations; they cross the wire: append only.
const (
	OpInsert OpCode = iota + 1 // makes the record; Exists, with the contents, if there is one
	OpLookup
	OpRemove // of version Expect, or of any version if Expect is zero
	OpAppend // of Value to a record of KindList, made if absent
	OpSwap   // to Value, if the record has version Expect; a zero Expect means no record
	OpMerge  // of Value by the rule of Kind, made if absent
	OpJoin   // as OpMerge, but a removed record stays removed while remembered: Absent
	OpCodes
)

// Op is one operation on one record.
type Op struct {
	ID     OpID
	Code   OpCode
	Key    Key
	Kind   Kind // of a new record; must match an existing record's, 0 matches any
	Value  []byte
	Expect Version
	// Consistent is for OpLookup: the answer was true at some time between question
	// and answer. Without Consistent the answer may be as old as the asked node's
	// view of the configs; then Result.Stale is set.
	Consistent bool
	// Durable operations are answered when every replica has the operation on disk,
	// others when every replica has the operation in memory. A durable consistent
	// lookup is answered when every replica has the returned contents on disk.
	Durable bool
	// Keep is how long a removed record is remembered, so a late operation finds
	// the record removed; 0 is KeepRemoved.
	Keep time.Duration
}

// Outcome is how an operation ended.
type Outcome uint8

// The outcomes; they cross the wire: append only.
const (
	Done         Outcome = iota + 1
	Exists               // OpInsert: there is a record already; Value holds it
	Absent               // there is no such record
	Mismatch             // the version is not the expected; Value holds the record
	Conflict             // the record is of another kind, or the merge refused; Err says why
	Unknown              // sent, not answered in time: it may have been carried out or not, now or later
	Unavailable          // not carried out: shard unreachable, or the node cannot log
	Full                 // the record would be too large
	Invalid              // the operation makes no sense; Err says why
	OutcomeMoved         // between stores only: asked the wrong node
	Outcomes
)

var outcomeNames = [...]string{"none", "done", "exists", "absent", "mismatch", "conflict", "unknown", "unavailable", "full", "invalid", "moved"}

func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "outcome-?"
}

// Result answers one operation. Version is the version of the last change of the
// record's contents; it stays the same when replicas come and go.
type Result struct {
	Outcome Outcome
	Kind    Kind
	Version Version
	// Value is the record for OpLookup, for OpInsert finding a record, and for
	// OpSwap with a mismatch; for OpMerge and OpJoin it is the reply of the rule.
	// Value must not be changed.
	Value []byte
	Stale bool // answered without asking the other replicas
	Err   string
}

// PeerState is a store's knowledge of another node's state.
type PeerState uint8

// The states of a peer.
const (
	PeerUp PeerState = iota
	PeerSuspect
	PeerGone // as the state Gone of a member: gets no requests, and may be back
	PeerDead
	PeerLeft
)

// Peer is an incarnation of another node, as listed by the members.
type Peer struct {
	Name        filch.NodeName
	Incarnation uint64
	State       PeerState
	// Partial, of this node itself: its member list is not whole. A node missing from
	// the list may live.
	Partial bool
}

// Replica is one incarnation of a node in a config.
type Replica struct {
	Name        filch.NodeName
	Incarnation uint64
}

func (r Replica) Compare(o Replica) int {
	return cmp.Or(cmp.Compare(r.Name, o.Name), cmp.Compare(r.Incarnation, o.Incarnation))
}

// Check returns why an operation makes no sense, or "" for a valid operation.
func (o *Op) Check(kinds Kinds) string {
	switch {
	case o.Code == 0 || o.Code >= OpCodes:
		return fmt.Sprintf("operation %d is not known", o.Code)
	case len(o.Key) > MaxKey:
		return fmt.Sprintf("the key has %d bytes, at most %d", len(o.Key), MaxKey)
	case o.Key == "":
		return "the key is empty"
	case len(o.Value) > MaxValue:
		return fmt.Sprintf("the value has %d bytes, at most %d", len(o.Value), MaxValue)
	case o.Merges() && kinds[o.Kind] == nil:
		return fmt.Sprintf("records of kind %d have no rule to merge by", o.Kind)
	case o.ID.Seq == 0 && o.ID != OpID{} || len(o.ID.Node) > filch.MaxNodeName:
		return "the operation's identity is malformed"
	case o.Keep < 0:
		return "a negative time to keep"
	}
	return ""
}

func (o *Op) Reads() bool { return o.Code == OpLookup }

func (o *Op) Merges() bool { return o.Code == OpMerge || o.Code == OpJoin }
