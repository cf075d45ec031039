package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/dht/store/record"
)

// The times of an unanswered operation.
const (
	againFirst = 500 * time.Millisecond // until the operation is sent again
	againLast  = 2 * time.Second
	// A home that answers nothing for this long is reported to the proposer. The home's
	// replicas report earlier, as they know better.
	mutedSuspect = 5 * time.Second
	mutedFine    = 12 * time.Second
)

// requests are the pending operations of this node's own users.
type requests struct {
	*input
	disk     *disk
	peers    *peers
	view     *view
	network  *network
	proposer *proposer
	primary  *primary

	first uint64       // the number of open[0]: all below are answered
	open  []*pendingOp // by number
	count int          // of the unanswered operations
}

// call is a Do.
type call struct {
	tag      uint64
	deadline time.Duration
	left     int
	ops      []pendingOp
	pause    time.Duration
}

// pendingOp is an operation of a call.
type pendingOp struct {
	number uint64
	call   *call
	index  int
	op     dht.Op
	at     dht.Point
	shard  dht.Shard
	epoch  uint64
	to     *peer // the node asked
	since  time.Duration
	tries  int
	asked  int // how often the operation was sent
	sent   bool
	queued bool // in the outbound queue
	done   bool
}

// outbound is the queue of operations for one home.
type outbound struct {
	queue []*pendingOp
	out   int // sent, not answered
	pace  pace
}

// Do carries out operations. Each operation is answered exactly once, by tag and index,
// before deadline, which is a time like now.
func (s *Store) Do(now time.Duration, tag uint64, ops []dht.Op, deadline time.Duration, out *Out) {
	s.begin(now, out)
	defer s.end()
	c := &call{tag: tag, deadline: deadline, left: len(ops), ops: make([]pendingOp, len(ops)), pause: againFirst}
	for i := range ops {
		p := &c.ops[i]
		*p = pendingOp{number: s.requests.first + uint64(len(s.requests.open)), call: c, index: i, op: ops[i]}
		s.requests.open = append(s.requests.open, p)
		s.requests.count++
		why := p.op.Check(s.cfg.Kinds)
		switch {
		case p.op.ID == (dht.OpID{}):
			p.op.ID = dht.OpID{Node: s.self.Name, Incarnation: s.self.Incarnation, Seq: p.number | record.OwnSeq}
		case p.op.ID.Seq&record.OwnSeq != 0 && why == "":
			why = fmt.Sprintf("the operation's identity has number %d, of those from %d on the store chooses itself", p.op.ID.Seq, uint64(record.OwnSeq))
		}
		if why != "" {
			s.requests.answered(p, dht.Result{Outcome: dht.Invalid, Err: why}, 0)
			continue
		}
		p.at = dht.PointOf(p.op.Key)
		s.requests.route(p)
	}
	if c.left > 0 {
		s.clock.Push(min(deadline, s.now+c.pause), func() { s.requests.retry(c) })
	}
}

// route sends an operation to its home, if this node knows the home.
func (rq *requests) route(p *pendingOp) {
	rq.release(p)
	r := rq.view.roster
	if r == nil || rq.now >= p.call.deadline {
		// A late operation is not sent again: the caller may have retried elsewhere.
		return
	}
	p.shard = p.at.Shard(r.Depth)
	c := r.Config(p.shard)
	if p.epoch != c.Epoch {
		p.epoch, p.since = c.Epoch, 0
	}
	to := c.Primary()
	if p.op.Code == dht.OpLookup && !p.op.Consistent && p.tries > 0 {
		to = c.Replicas[p.tries%len(c.Replicas)] // any replica will do
	}
	if rq.view.standing(to) >= roster.Away {
		return // until a new config names another home, or the node is back
	}
	rq.deliver(p, rq.peers.know(to.Name))
}

func (rq *requests) deliver(p *pendingOp, to *peer) {
	p.to, p.sent = to, true
	p.asked++
	if p.since == 0 {
		p.since = rq.now
	}
	if to == rq.peers.me {
		rq.primary.serve(job{op: &p.op, from: to, inc: to.inc, number: p.number, epoch: p.epoch}, p.shard, p.epoch)
		return
	}
	p.queued = true
	to.outbound.queue = append(to.outbound.queue, p)
	rq.network.touch(to)
}

// release stops waiting for the asked node's answer.
func (rq *requests) release(p *pendingOp) {
	if p.to == nil {
		return
	}
	if !p.queued && p.to != rq.peers.me {
		p.to.outbound.out--
	}
	p.to, p.queued = nil, false
}

func (rq *requests) flush(p *peer) {
	q := &p.outbound
	for len(q.queue) > 0 {
		if q.out > 0 && len(q.queue) < batchItems && rq.network.gather(&q.pace, p) {
			return
		}
		m := &message.Ops{Floor: rq.first}
		size, i := 0, 0
		for ; i < len(q.queue) && len(m.Ops) < batchItems && size < batchBytes; i++ {
			o := q.queue[i]
			if o.to != p || !o.queued || o.done {
				continue
			}
			o.queued = false
			q.out++
			m.Ops = append(m.Ops, message.Op{Number: o.number, Shard: o.shard, Epoch: o.epoch, Op: o.op})
			size += len(o.op.Key) + len(o.op.Value) + 48
		}
		if i == len(q.queue) {
			clear(q.queue)
			q.queue = q.queue[:0]
		} else {
			q.queue = q.queue[i:]
		}
		if len(m.Ops) > 0 {
			q.pace.sent = rq.now
			rq.network.send(p, m, 0)
		}
	}
}

func (rq *requests) onReplies(p *peer, m *message.Replies) {
	for i := range m.Replies {
		r := &m.Replies[i]
		if o := rq.get(r.Number); o != nil {
			rq.onReply(o, p, r.Epoch, r.Result, 0)
		}
	}
	rq.network.touch(p)
}

func (c *requests) get(number uint64) *pendingOp {
	if number < c.first || number >= c.first+uint64(len(c.open)) {
		return nil
	}
	if p := c.open[number-c.first]; !p.done {
		return p
	}
	return nil
}

// onReply handles a home's reply to an operation. A reply of an epoch before the latest
// try does not count: the home of the later epoch may do an operation that the earlier
// home could not.
func (rq *requests) onReply(o *pendingOp, p *peer, epoch uint64, res dht.Result, after uint64) {
	switch {
	case res.Outcome == dht.OutcomeMoved:
	case !o.op.Reads() && epoch < o.epoch:
		return
	case !o.op.Reads() && res.Outcome == dht.Unavailable && o.asked > 1:
		res.Outcome = dht.Unknown // an earlier home may have begun the operation
		fallthrough
	default:
		rq.answered(o, res, after)
		return
	}
	if o.to != p || epoch < o.epoch {
		return // the operation was already sent on
	}
	stuck := o.epoch
	rq.release(o)
	if c := rq.view.roster.Config(o.at.Shard(rq.view.roster.Depth)); c.Epoch != stuck {
		rq.route(o)
	} // otherwise the call's timer retries the operation
}

// answered returns an operation's result to the user.
func (rq *requests) answered(o *pendingOp, res dht.Result, after uint64) {
	rq.release(o)
	o.done = true
	rq.count--
	o.call.left--
	rq.disk.result(Answer{Tag: o.call.tag, Index: o.index, Result: res}, o.op.Reads(), after)
	n := 0
	for n < len(rq.open) && rq.open[n].done {
		rq.open[n] = nil
		n++
	}
	rq.open = rq.open[n:]
	rq.first += uint64(n)
}

// reroute sends operations whose home changed to the new home. The shards on this node
// have already sent on their own operations.
func (rq *requests) reroute() {
	for _, o := range slices.Clone(rq.open) {
		if o.done || o.to == rq.peers.me {
			continue
		}
		if c := rq.view.roster.Config(o.shard); o.to == nil || c == nil || c.Epoch != o.epoch {
			rq.route(o)
		}
	}
}

// retryAt releases the operations sent to a node that is gone.
func (rq *requests) retryAt(p *peer) {
	p.outbound.queue = nil
	for _, o := range rq.open {
		if !o.done && o.to == p {
			rq.release(o)
		}
	}
	p.outbound.out = 0
}

// retry retries the unanswered operations of a call, or ends them at the deadline.
func (rq *requests) retry(c *call) {
	if c.left == 0 {
		return
	}
	late := rq.now >= c.deadline
	var asks []roster.Change
	for i := range c.ops {
		o := &c.ops[i]
		switch {
		case o.done:
		case late && (o.op.Reads() || !o.sent):
			rq.answered(o, dht.Result{Outcome: dht.Unavailable, Err: rq.whyNot(o)}, 0)
		case late:
			rq.answered(o, dht.Result{Outcome: dht.Unknown, Err: rq.whyNot(o)}, 0)
		case o.to != rq.peers.me:
			o.tries++
			if w, ok := rq.muted(o); ok && (len(asks) == 0 || asks[len(asks)-1] != w) {
				asks = append(asks, w)
			}
			rq.route(o)
		}
	}
	rq.proposer.ask(asks...)
	if c.left > 0 {
		c.pause = min(2*c.pause, againLast)
		rq.clock.Push(min(c.deadline, rq.now+c.pause), func() { rq.retry(c) })
	}
}

// muted returns the wish to exclude a home that answers nothing.
func (rq *requests) muted(o *pendingOp) (roster.Change, bool) {
	if o.to == nil {
		return roster.Change{}, false
	}
	limit := mutedFine
	if o.to.state >= dht.PeerSuspect {
		limit = mutedSuspect
	}
	if rq.now < max(o.since, rq.peers.woke)+limit {
		return roster.Change{}, false
	}
	o.since = rq.now
	return roster.Change{What: roster.ChangeExclude, Shard: o.shard, Epoch: o.epoch, Who: o.to.replica()}, true
}

// whyNot explains to people why an operation was not answered.
func (rq *requests) whyNot(o *pendingOp) string {
	if rq.view.roster == nil {
		return "no roster is known yet"
	}
	c := rq.view.roster.Config(o.at.Shard(rq.view.roster.Depth))
	if rq.view.lost(c) {
		return "no node that holds its shard lives"
	}
	return "no answer from " + string(c.Primary().Name)
}
