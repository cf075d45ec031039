package launcher

import (
	"encoding/binary"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// Job ids come in blocks from one counter in the store. Its home adds, so that
// nodes that begin at once need one addition each. A node has one block in use
// and fetches the next when half of it is gone, so that no request waits.
//
// A block counts once disks have it: where the last replicas of the counter end
// before, it comes back older than it was, and gives the same ids again. The
// additions themselves are not durable, as each would wait for the syncs of those
// before it. A durable lookup follows, and one round of syncs serves all that wait.

// Sizes of blocks. One is taken twice as large when the one before it lasted
// less than BlockBrief.
const (
	BlockMin   = 32
	BlockMax   = 8192
	BlockBrief = 10 * time.Second
	// blockAgain is the pause after a block could not be had.
	blockAgain = time.Second
)

// counterKey is the first id that nobody has.
const counterKey dht.Key = "ids"

// block is the ids at hand, next to end-1, and those after them.
type block struct {
	next, end   filch.JobID
	spare, last filch.JobID // the block after it; last 0: none
	size        int32
	taken       time.Duration // when the spare one came
	asking      bool
	again       time.Duration
	say         time.Duration // who waits for an id hears so
	top         filch.JobID   // the highest id that this node ever heard of
	waiting     []unnumbered
}

// unnumbered is a request that waits for an id.
type unnumbered struct {
	client ClientID
	req    Request
	unixNS int64
	since  time.Duration
}

// MaxUnnumbered bounds the requests that wait for an id.
const MaxUnnumbered = 4096

// have reports whether an id is at hand.
func (b *block) have() bool {
	if b.next == b.end && b.last > 0 {
		b.next, b.end, b.spare, b.last = b.spare, b.last, 0, 0
	}
	return b.next < b.end
}

// id takes one that is at hand; the next tick fetches more when few are left.
func (b *block) id() filch.JobID {
	b.next++
	if b.low() {
		b.again = 0
	}
	return b.next - 1
}

// low reports whether the next block is to be fetched.
func (b *block) low() bool {
	return !b.asking && b.last == 0 && int32(b.end-b.next) <= b.size/2
}

// saw notes an id that is in use.
func (b *block) saw(id filch.JobID) { b.top = max(b.top, id) }

// fetchBlock asks for the next block.
func (n *Node) fetchBlock(now time.Duration) {
	b := &n.meta.block
	if !b.low() {
		return
	}
	b.asking = true
	b.again = filch.Never
	switch {
	case b.size == 0:
		b.size = BlockMin
	case now-b.taken < BlockBrief:
		b.size = min(2*b.size, BlockMax)
	}
	delta := binary.AppendUvarint(nil, uint64(max(n.cfg.After, b.top)+1))
	delta = binary.AppendUvarint(delta, uint64(b.size))
	n.ask(now, []dht.Op{{Code: dht.OpMerge, Key: counterKey, Kind: KindIDs, Value: delta}}, StoreWait,
		func(now time.Duration, rs []dht.Result, _ *Outbox) { n.counted(now, &rs[0]) })
}

// counted takes in where the block begins, and asks whether disks have that.
func (n *Node) counted(now time.Duration, r *dht.Result) {
	first, k := binary.Uvarint(r.Value)
	if r.Outcome != dht.Done || k <= 0 || first == 0 || first > maxJobID {
		n.noBlock(now)
		return
	}
	op := dht.Op{Code: dht.OpLookup, Key: counterKey, Kind: KindIDs, Consistent: true, Durable: true}
	n.ask(now, []dht.Op{op}, StoreWait, func(now time.Duration, rs []dht.Result, out *Outbox) {
		switch v := rs[0].Version; {
		case rs[0].Outcome != dht.Done:
			n.noBlock(now)
		case v.Epoch != r.Version.Epoch || v.Less(r.Version): // it may have lost the block, and gone on
			n.meta.block.asking = false
			n.fetchBlock(now)
		default:
			n.gotBlock(now, filch.JobID(first), filch.JobID(first)+filch.JobID(n.meta.block.size), out)
		}
	})
}

// KindIDs is the kind of the counter of job ids; see [MergeIDs].
const KindIDs dht.Kind = 17

// MergeIDs takes a block of ids from the counter. The delta is the lowest id that
// will do, above all that its node knows, and how many ids it takes, the record is
// the first id that nobody has, the reply the first of the block: varints all. It
// fails when there are not so many ids left.
func MergeIDs(old, delta []byte) (value, reply []byte, err error) {
	floor, k := binary.Uvarint(delta)
	count, m := binary.Uvarint(delta[max(k, 0):])
	first, o := binary.Uvarint(old)
	if k <= 0 || m <= 0 || k+m != len(delta) || count < 1 || count > BlockMax || old != nil && o != len(old) {
		return nil, nil, filch.Errorf(filch.Invalid, "a block of job ids makes no sense")
	}
	if first = max(first, floor, 1); first+count > maxJobID {
		return nil, nil, filch.Errorf(filch.Invalid, "no job ids are left: the next one is %d, the last one %d", first, maxJobID)
	}
	next := first + count
	if mutantSameBlock {
		next = first
	}
	return binary.AppendUvarint(nil, next), binary.AppendUvarint(nil, first), nil
}

// maxJobID leaves the last ids of an int32 alone.
const maxJobID = 1<<31 - 1 - BlockMax

// noBlock tries again later. It may not be known whether the counter was raised:
// then those ids are lost.
func (n *Node) noBlock(now time.Duration) {
	b := &n.meta.block
	b.asking = false
	b.again = now + blockAgain
}

func (n *Node) gotBlock(now time.Duration, first, end filch.JobID, out *Outbox) {
	b := &n.meta.block
	b.asking, b.again, b.taken = false, filch.Never, now
	b.saw(end - 1)
	b.spare, b.last = first, end
	n.number(now, out)
}

// number gives those that wait their ids.
func (n *Node) number(now time.Duration, out *Outbox) {
	b := &n.meta.block
	for len(b.waiting) > 0 && b.have() {
		u := b.waiting[0]
		b.waiting = b.waiting[1:]
		n.accept(now, u.client, u.req, u.unixNS, u.since, out)
	}
	if len(b.waiting) == 0 {
		b.waiting, b.say = nil, filch.Never
	}
	n.fetchBlock(now)
}

// line up a request until there is an id for it.
func (n *Node) unnumbered(now time.Duration, u unnumbered, out *Outbox) {
	b := &n.meta.block
	if len(b.waiting) >= MaxUnnumbered {
		err := filch.Errorf(filch.Busy, "%d requests wait for a job number already", len(b.waiting))
		out.Replies = append(out.Replies, Reply{u.client, Refused{Err: *err, Code: filch.ExitOurs}})
		return
	}
	b.waiting = append(b.waiting, u)
	b.say = min(b.say, now+SayAfter)
	n.fetchBlock(now)
}

// tickBlock asks again, and tells those that wait why.
func (n *Node) tickBlock(now time.Duration, out *Outbox) {
	b := &n.meta.block
	if b.again <= now {
		b.again = filch.Never
		n.fetchBlock(now)
	}
	if b.say > now {
		return
	}
	b.say = now + SayEvery
	for _, u := range b.waiting {
		if now-u.since >= SayAfter {
			out.Replies = append(out.Replies, Reply{u.client, StillWaiting{Text: "no job number can be had: " + n.storeTrouble()}})
		}
	}
}

// forgetUnnumbered drops the requests of a client that is gone.
func (n *Node) forgetUnnumbered(client ClientID) {
	b := &n.meta.block
	left := b.waiting[:0]
	for _, u := range b.waiting {
		if u.client != client {
			left = append(left, u)
		}
	}
	b.waiting = left
}
