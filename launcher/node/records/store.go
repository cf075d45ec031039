package records

import (
	"iter"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/record"
)

// Records is the interface of a node to the records kept by the nodes of an instance
// together: store.Store, or a simulator's replacement with the same behavior. The Node
// owns the Records, and forwards inputs to them. All methods have the contract of
// [store.Store].
//
// Each operation is answered once, by tag and index, at its deadline at the latest.
// Operations on the same key take effect in sequence, each at a moment between question
// and answer. An operation answered with dht.Unknown may take effect later.
type Store interface {
	// Operations needed by the Node.
	Do(now time.Duration, tag uint64, ops []dht.Op, deadline time.Duration, out *store.Out)
	Watch(now time.Duration, tag uint64, key dht.Key, from dht.Version, out *store.Out)
	Unwatch(now time.Duration, tag uint64, out *store.Out)
	Homed(prefix dht.Key) iter.Seq[store.HomedRecord]
	AcceptLoss(now time.Duration, tag uint64, shards []dht.Shard, out *store.Out)
	Status() store.Status
	View(k dht.Key) (shard dht.Shard, epoch uint64, replicas []dht.Replica)
	EachMember(f func(filch.NodeName))

	// Changes in the state of this node and of others.
	Found(now time.Duration, out *store.Out)
	Member(now time.Duration, p dht.Peer, out *store.Out)
	Leave(now time.Duration, out *store.Out)
	Return(now time.Duration, out *store.Out)
	Rejoin(now time.Duration, incarnation uint64, out *store.Out)

	// Inputs of the network, the disk and the clock.
	Message(now time.Duration, from filch.NodeName, m message.Message, out *store.Out)
	Restore(images []store.LogEntry, damaged bool)
	Synced(now time.Duration, upto uint64, out *store.Out)
	DiskFailed(now time.Duration, reason string, out *store.Out)
	DiskBack(now time.Duration, out *store.Out)
	Tick(now time.Duration, out *store.Out)
	Deadline() time.Duration

	Check() // panics if an invariant is broken
}

var _ Store = (*store.Store)(nil)

// StoreConfig returns the store's configuration for a node configured with c.
func StoreConfig(c *local.Config) store.Config {
	s := store.Config{Self: c.Name, Incarnation: c.Incarnation, Seed: c.Seed, Kinds: Kinds()}
	if c.Tasks.Mirror {
		s.Tell = record.Prefix
	}
	return s
}

// kindTasks is where the kinds of mtc's records begin among the store's.
const kindTasks dht.Kind = 64

// Kinds returns the merges of the records of jobs.
func Kinds() dht.Kinds {
	kinds := dht.Kinds{launcher.KindJob: launcher.MergeJob, kindIDs: MergeIDs}
	for kind, merge := range record.Merges() {
		kinds[kindTasks+dht.Kind(kind)] = dht.Merge(merge)
	}
	return kinds
}

// TaskKind returns the kind of an mtc record; false if k is not a kind of mtc records.
func TaskKind(k dht.Kind) (record.RecordKind, bool) {
	if k < kindTasks {
		return 0, false
	}
	return record.RecordKind(k - kindTasks), true
}

// TaskOp returns the store operation for a proposal to merge or to look up. The number of
// a job is used only once, so TaskOp never recreates a record of a dropped job: a node
// behind the others would start tasks already ended.
func TaskOp(p *mtc.Proposal) dht.Op {
	op := dht.Op{Code: dht.OpJoin, Key: dht.Key(p.Key), Kind: kindTasks + dht.Kind(p.Kind), Value: p.Delta, Durable: p.Durable}
	if mutantMadeAgain {
		op.Code = dht.OpMerge
	}
	if p.Op == mtc.OpLookup {
		op.Code, op.Consistent, op.Value = dht.OpLookup, true, nil
	}
	return op
}

// TaskAnswer returns the meaning of a result for mtc's core.
func TaskAnswer(r *dht.Result) mtc.Answer {
	switch r.Outcome {
	case dht.Done:
		return mtc.Answer{Status: mtc.AnswerDone, Value: r.Value}
	case dht.Absent:
		return mtc.Answer{Status: mtc.AnswerAbsent}
	case dht.Conflict, dht.Full, dht.Invalid:
		return mtc.Answer{Status: mtc.AnswerInvalid}
	}
	return mtc.Answer{Status: mtc.AnswerUnknown}
}
