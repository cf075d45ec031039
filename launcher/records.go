package launcher

import (
	"iter"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/mtc"
)

// Records are what the nodes of an instance keep together, as one node reaches it:
// dht.Store, or in a simulator something that looks the same from here. The Node
// owns it, and hands on what comes for it. All methods are those of [dht.Store].
//
// Each operation is answered once, by tag and index, at its deadline at the latest.
// Operations on one key take effect one after the other, each at a moment between
// question and answer; one that is answered with dht.Unknown may take effect later.
type Records interface {
	// What the Node wants of records.
	Do(now time.Duration, tag uint64, ops []dht.Op, deadline time.Duration, out *dht.StoreOut)
	Watch(now time.Duration, tag uint64, key dht.Key, from dht.Version, out *dht.StoreOut)
	Unwatch(now time.Duration, tag uint64, out *dht.StoreOut)
	Homed(prefix dht.Key) iter.Seq[dht.HomedRecord]
	AcceptLoss(now time.Duration, tag uint64, shards []dht.Shard, out *dht.StoreOut)
	Status() dht.StoreStatus
	EachMember(f func(filch.NodeName))

	// What becomes of this node and of others.
	Found(now time.Duration, out *dht.StoreOut)
	Member(now time.Duration, p dht.Peer, out *dht.StoreOut)
	Leave(now time.Duration, out *dht.StoreOut)
	Return(now time.Duration, out *dht.StoreOut)
	Rejoin(now time.Duration, incarnation uint64, out *dht.StoreOut)

	// What the network, the disk and the clock say.
	Message(now time.Duration, from filch.NodeName, m dht.StoreMessage, out *dht.StoreOut)
	Restore(images []dht.LogEntry, damaged bool)
	Synced(now time.Duration, upto uint64, out *dht.StoreOut)
	DiskFailed(now time.Duration, reason string, out *dht.StoreOut)
	DiskBack(now time.Duration, out *dht.StoreOut)
	Tick(now time.Duration, out *dht.StoreOut)
	Deadline() time.Duration

	Check() // panics where an invariant is broken
}

var _ Records = (*dht.Store)(nil)

// StoreConfig is that of the store of a node with this configuration.
func StoreConfig(c *Config) dht.StoreConfig {
	s := dht.StoreConfig{Self: c.Name, Incarnation: c.Incarnation, Seed: c.Seed, Kinds: Kinds()}
	if c.Tasks.Mirror {
		s.Tell = mtc.Prefix
	}
	return s
}

// kindTasks is where the kinds of mtc's records begin among the store's.
const kindTasks dht.Kind = 64

// Kinds are the merges of the records that jobs are made of.
func Kinds() dht.Kinds {
	kinds := dht.Kinds{KindJob: MergeJob, KindIDs: MergeIDs}
	for kind, merge := range mtc.Merges() {
		kinds[kindTasks+dht.Kind(kind)] = dht.Merge(merge)
	}
	return kinds
}

// TaskKind is the kind of one of mtc's records; false if it is none of them.
func TaskKind(k dht.Kind) (mtc.RecordKind, bool) {
	if k < kindTasks {
		return 0, false
	}
	return mtc.RecordKind(k - kindTasks), true
}

// TaskOp is what a proposal to merge or to look up asks of records. The number of a
// job is used once: of one that was dropped nothing is made again. Who is behind
// would start tasks of it that have ended.
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

// TaskAnswer is what a result means to mtc's core.
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
