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
	queue  []*pendingOp
	out    int // sent, not answered
	sent   time.Duration
	gather bool // the timer runs
}

func newRequests() requests { return requests{first: 1} }

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
			s.answered(p, dht.Result{Outcome: dht.Invalid, Err: why}, 0)
			continue
		}
		p.at = dht.PointOf(p.op.Key)
		s.route(p)
	}
	if c.left > 0 {
		s.clock.put(min(deadline, s.now+c.pause), c)
	}
}

// route sends an operation to its home, if this node knows the home.
func (s *Store) route(p *pendingOp) {
	s.release(p)
	r := s.roster
	if r == nil || s.now >= p.call.deadline {
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
	if s.standing(to) >= roster.Away {
		return // until a new config names another home, or the node is back
	}
	s.deliver(p, s.peers.know(to.Name))
}

func (s *Store) deliver(p *pendingOp, to *peer) {
	p.to, p.sent = to, true
	p.asked++
	if p.since == 0 {
		p.since = s.now
	}
	if to == s.peers.me {
		s.serve(job{op: &p.op, from: to, inc: to.inc, number: p.number, epoch: p.epoch}, p.shard, p.epoch)
		return
	}
	p.queued = true
	to.outbound.queue = append(to.outbound.queue, p)
	s.touch(to)
}

// release stops waiting for the asked node's answer.
func (s *Store) release(p *pendingOp) {
	if p.to == nil {
		return
	}
	if !p.queued && p.to != s.peers.me {
		p.to.outbound.out--
	}
	p.to, p.queued = nil, false
}

func (s *Store) flushOps(p *peer) {
	q := &p.outbound
	for len(q.queue) > 0 {
		if q.out > 0 && len(q.queue) < batchItems && s.now < q.sent+gather {
			if !q.gather {
				q.gather = true
				s.clock.put(q.sent+gather, timedFunc(func(s *Store) {
					q.gather = false
					s.touch(p)
				}))
			}
			return
		}
		m := &message.Ops{Floor: s.requests.first}
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
			q.sent = s.now
			s.send(p, m, 0)
		}
	}
}

func (s *Store) onReplies(p *peer, m *message.Replies) {
	for i := range m.Replies {
		r := &m.Replies[i]
		if o := s.requests.get(r.Number); o != nil {
			s.onReply(o, p, r.Epoch, r.Result, 0)
		}
	}
	s.touch(p)
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
func (s *Store) onReply(o *pendingOp, p *peer, epoch uint64, res dht.Result, after uint64) {
	switch {
	case res.Outcome == dht.OutcomeMoved:
	case !o.op.Reads() && epoch < o.epoch:
		return
	case !o.op.Reads() && res.Outcome == dht.Unavailable && o.asked > 1:
		res.Outcome = dht.Unknown // an earlier home may have begun the operation
		fallthrough
	default:
		s.answered(o, res, after)
		return
	}
	if o.to != p || epoch < o.epoch {
		return // the operation was already sent on
	}
	stuck := o.epoch
	s.release(o)
	if c := s.roster.Config(o.at.Shard(s.roster.Depth)); c.Epoch != stuck {
		s.route(o)
	} // otherwise the call's timer retries the operation
}

// answered returns an operation's result to the user.
func (s *Store) answered(o *pendingOp, res dht.Result, after uint64) {
	s.release(o)
	o.done = true
	s.requests.count--
	o.call.left--
	s.result(Answer{Tag: o.call.tag, Index: o.index, Result: res}, o.op.Reads(), after)
	c := &s.requests
	n := 0
	for n < len(c.open) && c.open[n].done {
		c.open[n] = nil
		n++
	}
	c.open = c.open[n:]
	c.first += uint64(n)
}

// reroute sends operations whose home changed to the new home. The shards on this node
// have already sent on their own operations.
func (s *Store) reroute() {
	for _, o := range slices.Clone(s.requests.open) {
		if o.done || o.to == s.peers.me {
			continue
		}
		if c := s.roster.Config(o.shard); o.to == nil || c == nil || c.Epoch != o.epoch {
			s.route(o)
		}
	}
}

// retryAt releases the operations sent to a node that is gone.
func (s *Store) retryAt(p *peer) {
	p.outbound.queue = nil
	for _, o := range s.requests.open {
		if !o.done && o.to == p {
			s.release(o)
		}
	}
	p.outbound.out = 0
}

// due retries the unanswered operations of a call, or ends them at the deadline.
func (c *call) due(s *Store) {
	if c.left == 0 {
		return
	}
	late := s.now >= c.deadline
	var asks []roster.Change
	for i := range c.ops {
		o := &c.ops[i]
		switch {
		case o.done:
		case late && (o.op.Reads() || !o.sent):
			s.answered(o, dht.Result{Outcome: dht.Unavailable, Err: s.whyNot(o)}, 0)
		case late:
			s.answered(o, dht.Result{Outcome: dht.Unknown, Err: s.whyNot(o)}, 0)
		case o.to != s.peers.me:
			o.tries++
			if w, ok := s.muted(o); ok && (len(asks) == 0 || asks[len(asks)-1] != w) {
				asks = append(asks, w)
			}
			s.route(o)
		}
	}
	s.ask(asks...)
	if c.left > 0 {
		c.pause = min(2*c.pause, againLast)
		s.clock.put(min(c.deadline, s.now+c.pause), c)
	}
}

// muted returns the wish to exclude a home that answers nothing.
func (s *Store) muted(o *pendingOp) (roster.Change, bool) {
	if o.to == nil {
		return roster.Change{}, false
	}
	limit := mutedFine
	if o.to.state >= dht.PeerSuspect {
		limit = mutedSuspect
	}
	if s.now < max(o.since, s.peers.woke)+limit {
		return roster.Change{}, false
	}
	o.since = s.now
	return roster.Change{What: roster.ChangeExclude, Shard: o.shard, Epoch: o.epoch, Who: o.to.replica()}, true
}

// whyNot explains to people why an operation was not answered.
func (s *Store) whyNot(o *pendingOp) string {
	if s.roster == nil {
		return "no roster is known yet"
	}
	c := s.roster.Config(o.at.Shard(s.roster.Depth))
	if s.lost(c) {
		return "no node that holds its shard lives"
	}
	return "no answer from " + string(c.Primary().Name)
}
