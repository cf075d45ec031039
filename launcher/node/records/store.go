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

const kindTasks = launcher.KindTasks

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

// taskOp returns the store operation for a proposal to merge or to look up. The number of
// a job is used only once, so taskOp never recreates a record of a dropped job: a node
// behind the others would start tasks already ended.
func taskOp(p *record.Proposal) dht.Op {
	op := dht.Op{Code: dht.OpJoin, Key: dht.Key(p.Key), Kind: kindTasks + dht.Kind(p.Kind), Value: p.Delta, Durable: p.Durable}
	if mutantMadeAgain {
		op.Code = dht.OpMerge
	}
	if p.Op == record.OpLookup {
		op.Code, op.Consistent, op.Value = dht.OpLookup, true, nil
	}
	if p.Kind == record.RecordBefore {
		op.Kind = kindTasks + dht.Kind(record.RecordJob)
	}
	return op
}

// TaskOps returns the store operations for a proposal of mtc's core to merge or to look up.
// Of a job that another job waits for, the record of the run with this number is read too.
func TaskOps(p *record.Proposal) []dht.Op {
	ops := []dht.Op{taskOp(p)}
	if key, ok := record.ParseKey(p.Key); ok && p.Kind == record.RecordBefore {
		ops = append(ops, dht.Op{Code: dht.OpLookup, Key: launcher.JobKey(key.Job), Kind: launcher.KindJob, Consistent: true})
	}
	return ops
}

// TaskAnswers returns the meaning of the results of [TaskOps].
func TaskAnswers(rs []dht.Result) record.Answer {
	a := TaskAnswer(&rs[0])
	if len(rs) == 1 || a.Status != record.AnswerAbsent {
		return a
	}
	if a = TaskAnswer(&rs[1]); a.Status != record.AnswerDone {
		return a
	}
	e, err := launcher.DecodeJobEntry(rs[1].Value)
	if err != nil {
		return record.Answer{Status: record.AnswerInvalid}
	}
	s := filch.Waiting
	switch {
	case e.Ended():
		s = endOf(e.Info.State)
	case e.Info.State == filch.Running.String():
		s = filch.Running
	}
	a.Value = record.Before(s).Encode()
	return a
}

// endOf is the end with that name; a name of no end counts as a failure.
func endOf(name string) filch.State {
	for s := filch.OK; s <= filch.Cancelled; s++ {
		if s.String() == name {
			return s
		}
	}
	return filch.Failed
}

// TaskAnswer returns the meaning of a result for mtc's core.
func TaskAnswer(r *dht.Result) record.Answer {
	switch r.Outcome {
	case dht.Done:
		return record.Answer{Status: record.AnswerDone, Value: r.Value}
	case dht.Absent:
		return record.Answer{Status: record.AnswerAbsent}
	case dht.Conflict, dht.Full, dht.Invalid:
		return record.Answer{Status: record.AnswerInvalid}
	}
	return record.Answer{Status: record.AnswerUnknown}
}
