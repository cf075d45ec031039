package store

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/dht/store/record"
)

// callers answers the operations of other nodes, and of this node. The state is in the
// caller of each peer.
type callers struct {
	*input
	disk     *disk
	peers    *peers
	network  *network
	requests *requests
	watchers *watchers
}

// caller is the state for one node whose operations this node carries out.
type caller struct {
	dedup   record.Dedup
	replies []message.Reply
	durable []durableReply
}

// durableReply is a reply that waits for the disk.
type durableReply struct {
	reply message.Reply
	after uint64
}

// answeredBefore reports whether the caller of an operation is known to have the answer,
// or to be gone.
func (cs *callers) answeredBefore(node []byte, incarnation, seq uint64) bool {
	if seq&record.OwnSeq == 0 {
		return false
	}
	p := cs.peers.index[filch.NodeName(node)]
	switch {
	case p == nil || p.inc != incarnation:
		return false
	case p == cs.peers.me:
		return seq&^record.OwnSeq < cs.requests.first
	}
	return seq&^record.OwnSeq < p.caller.dedup.Floor
}

// givenUp reports whether the caller of a job no longer waits for the answer. Such a job
// must not begin: the records may no longer remember whether the operation was carried
// out, and nodes that clean up after a dead caller may have read the records.
func (cs *callers) givenUp(j *job) bool {
	switch {
	case j.from == nil || j.watch != nil:
		return false
	case j.from.inc != j.inc || j.from.state == dht.PeerDead:
		return true
	case j.from == cs.peers.me:
		return cs.requests.get(j.number) == nil
	}
	return j.number < j.from.caller.dedup.Floor
}

// answer returns the result of a job to the caller.
func (cs *callers) answer(j job, res dht.Result, after uint64) {
	switch {
	case j.watch != nil:
		cs.watchers.onLookedUp(j.watch, res)
	case j.from == nil || j.from.inc != j.inc:
	case j.from == cs.peers.me:
		if o := cs.requests.get(j.number); o != nil {
			cs.requests.onReply(o, j.from, j.epoch, res, after)
		}
	default:
		j.from.caller.dedup.End(j.number, record.Reply{Epoch: j.epoch, Result: res, After: after})
		cs.reply(j.from, message.Reply{Number: j.number, Epoch: j.epoch, Result: res}, after)
	}
}

func (cs *callers) reply(p *peer, r message.Reply, after uint64) {
	if after > cs.disk.synced {
		p.caller.durable = append(p.caller.durable, durableReply{r, after})
	} else {
		p.caller.replies = append(p.caller.replies, r)
	}
	cs.network.touch(p)
}

func (cs *callers) flush(p *peer) {
	for len(p.caller.replies) > 0 {
		size, n := 0, 0
		for n < len(p.caller.replies) && n < batchItems && size < batchBytes {
			size += len(p.caller.replies[n].Result.Value) + 32
			n++
		}
		cs.network.send(p, &message.Replies{Replies: p.caller.replies[:n:n]}, 0)
		p.caller.replies = p.caller.replies[n:]
	}
	p.caller.replies = nil
	if len(p.caller.durable) == 0 {
		return
	}
	m, after, size := &message.Replies{}, uint64(0), 0
	for _, d := range p.caller.durable {
		m.Replies, after = append(m.Replies, d.reply), max(after, d.after)
		if size += len(d.reply.Result.Value) + 32; size > batchBytes {
			cs.network.send(p, m, after)
			m, size = &message.Replies{}, 0
		}
	}
	if len(m.Replies) > 0 {
		cs.network.send(p, m, after)
	}
	p.caller.durable = nil
}
