package records

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/varint"
)

// Job ids come in blocks from a single counter in the store. The primary of the counter
// adds, so nodes that begin at once need one addition each. A node uses a block of ids
// and fetches the next block when half of the ids are gone, so no request waits.
//
// A block counts once disks have the addition: if the last replicas of the counter end
// before, the counter comes back with an older value and gives the same ids again. The
// additions themselves are not durable, as each would wait for the syncs of all additions
// before. A durable lookup follows, and a single round of syncs serves all waiting
// lookups.

// Sizes of blocks. A node takes a block twice as large when the block before lasted less
// than blockBrief.
const (
	BlockMin   = 32
	BlockMax   = 8192
	blockBrief = 10 * time.Second
	// blockAgain is the pause after a failed request for a block.
	blockAgain = time.Second
)

// Keys of the counters. A counter is the first id not yet handed out.
const (
	jobsKey  dht.Key = "ids"
	gangsKey dht.Key = "ids/gangs"
)

// firstGang is the first id of the runs of gangs, which no user sees: the ids of jobs stay
// small where a job has many gangs.
const firstGang filch.JobID = 1 << 30

// ids hands out the ids of jobs: first next to end-1, then the spare block. No id is
// handed out twice, on any node.
type ids struct {
	*local.Self
	store asker
	key   dht.Key             // of the counter
	user  func(t *local.Turn) // called when ids came, for requests that wait

	next, end   filch.JobID
	spare, last filch.JobID   // the next block; last 0: none
	size        int32         // of the requested block
	taken       time.Duration // when the spare block came
	asking      bool
	again       time.Duration
	top         filch.JobID // the highest id known to this node
}

// HaveID reports whether an id is at hand.
func (b *ids) HaveID() bool {
	if b.next == b.end && b.last > 0 {
		b.next, b.end, b.spare, b.last = b.spare, b.last, 0, 0
	}
	return b.next < b.end
}

// NextID takes an id at hand; the next tick fetches more ids when few are left.
func (b *ids) NextID() filch.JobID {
	b.next++
	if b.low() {
		b.again = 0
	}
	return b.next - 1
}

// low reports whether the next block is to be fetched.
func (b *ids) low() bool {
	return !b.asking && b.last == 0 && int32(b.end-b.next) <= b.size/2
}

// SawID records an id in use. Ids of gangs are used once, by the node that fetched them.
func (b *ids) SawID(id filch.JobID) {
	if id < firstGang || b.key == gangsKey {
		b.top = max(b.top, id)
	}
}

// FetchBlock requests the next block from the store.
func (b *ids) FetchBlock(t *local.Turn) {
	if !b.low() {
		return
	}
	b.asking = true
	b.again = filch.Never
	switch {
	case b.size == 0:
		b.size = BlockMin
	case t.Now-b.taken < blockBrief:
		b.size = min(2*b.size, BlockMax)
	}
	delta := varint.AppendUvarints(nil, uint64(max(b.Cfg.After, b.top)+1), uint64(b.size))
	if b.key == gangsKey {
		delta = varint.AppendUvarints(nil, uint64(max(firstGang, b.top+1)), uint64(b.size))
	}
	b.store.Ask(t, []dht.Op{{Code: dht.OpMerge, Key: b.key, Kind: kindIDs, Value: delta}}, StoreWait, func(t *local.Turn, rs []dht.Result) { b.onBlock(t, &rs[0]) })
}

// onBlock handles the first id of a block, and asks the store whether disks have the
// addition.
func (b *ids) onBlock(t *local.Turn, r *dht.Result) {
	d := varint.Reader{B: r.Value}
	first := d.Uvarint()
	if r.Outcome != dht.Done || d.Bad || first == 0 || first > maxJobID {
		b.noBlock(t)
		return
	}
	op := dht.Op{Code: dht.OpLookup, Key: b.key, Kind: kindIDs, Consistent: true, Durable: true}
	b.store.Ask(t, []dht.Op{op}, StoreWait, func(t *local.Turn, rs []dht.Result) {
		switch v := rs[0].Version; {
		case rs[0].Outcome != dht.Done:
			b.noBlock(t)
		case v.Epoch != r.Version.Epoch || v.Less(r.Version):
			// The counter may have lost the block, and gone on.
			b.asking = false
			b.FetchBlock(t)
		default:
			b.gotBlock(t, filch.JobID(first), filch.JobID(first)+filch.JobID(b.size))
		}
	})
}

// kindIDs is the kind of the counter of job ids; see [MergeIDs].
const kindIDs dht.Kind = 17

// MergeIDs takes a block of ids from the counter. The delta is the lowest acceptable id,
// above all ids known to the node, and the number of ids. The record is the first id not
// yet handed out, the reply the first id of the block. All are varints. MergeIDs fails
// when not enough ids are left.
func MergeIDs(old, delta []byte) (value, reply []byte, err error) {
	d, o := varint.Reader{B: delta}, varint.Reader{B: old}
	floor, count, first := d.Uvarint(), d.Uvarint(), o.Uvarint()
	if d.Bad || d.Left() != 0 || count < 1 || count > BlockMax || len(old) > 0 && (o.Bad || o.Left() != 0) {
		return nil, nil, filch.Errorf(filch.Invalid, "a block of job ids makes no sense")
	}
	// The counter of jobs ends before the first id of a gang: at that id the counter would
	// go on as the counter of gangs.
	end := uint64(firstGang) - 1
	if first = max(first, floor, 1); first > end {
		end = maxJobID + 1
	}
	if first+count > end {
		return nil, nil, filch.Errorf(filch.Invalid, "no job ids are left: the next one is %d, the last one %d", first, end-1)
	}
	next := first + count
	if mutantSameBlock {
		next = first
	}
	return varint.AppendUvarints(nil, next), varint.AppendUvarints(nil, first), nil
}

// maxJobID is the last id of a gang; it leaves the last ids of an int32 unused.
const maxJobID = 1<<31 - 1 - BlockMax

// noBlock schedules the next try. The store may have raised the counter without an
// answer: then those ids are lost.
func (b *ids) noBlock(t *local.Turn) {
	b.asking = false
	b.again = t.Now + blockAgain
}

func (b *ids) gotBlock(t *local.Turn, first, end filch.JobID) {
	b.asking, b.again, b.taken = false, filch.Never, t.Now
	b.SawID(end - 1)
	b.spare, b.last = first, end
	b.user(t)
}
