package launcher

import (
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// Job ids come in blocks from one counter in the store: whoever raises it by
// compare-and-swap owns the ids in between. A node has one block in use and
// fetches the next when half of it is gone, so that nobody waits for one.

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
	n.ask(now, []dht.Op{{Code: dht.OpLookup, Key: counterKey, Kind: dht.KindRegister, Consistent: true}}, StoreWait,
		func(now time.Duration, rs []dht.Result, out *Outbox) { n.counted(now, &rs[0]) })
}

// counted knows where the counter stands, and raises it.
func (n *Node) counted(now time.Duration, r *dht.Result) {
	b := &n.meta.block
	op := dht.Op{Code: dht.OpSwap, Key: counterKey, Kind: dht.KindRegister, Expect: r.Version}
	first := n.cfg.IDs.After + 1
	switch r.Outcome {
	case dht.Done:
		v, err := strconv.ParseInt(string(r.Value), 10, 32)
		if err != nil || v < 1 {
			v = int64(b.top) + 1
		}
		first = filch.JobID(v)
	case dht.Absent:
		op.Code, op.Expect = dht.OpInsert, dht.Version{}
		if b.top > 0 {
			first = b.top + BlockMax // the counter was lost
		}
	default:
		n.noBlock(now)
		return
	}
	next := int64(first) + int64(b.size)
	if next > maxJobID {
		n.noBlock(now)
		return
	}
	op.Value = strconv.AppendInt(nil, next, 10)
	n.ask(now, []dht.Op{op}, StoreWait, func(now time.Duration, rs []dht.Result, out *Outbox) {
		if rs[0].Outcome != dht.Done {
			n.noBlock(now)
			if rs[0].Outcome == dht.Mismatch || rs[0].Outcome == dht.Exists {
				n.meta.block.again = now // another node was first
			}
			return
		}
		n.gotBlock(now, first, filch.JobID(next), out)
	})
}

// maxJobID leaves the last ids of an int32 alone.
const maxJobID = 1<<31 - 1 - BlockMax

// noBlock tries again later. Whether the counter was raised may not be known:
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
	if n.meta == nil {
		return
	}
	b := &n.meta.block
	left := b.waiting[:0]
	for _, u := range b.waiting {
		if u.client != client {
			left = append(left, u)
		}
	}
	b.waiting = left
}
