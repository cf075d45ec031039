package dht

import (
	"fmt"
	"slices"
	"time"
)

// The times of an operation that is not answered.
const (
	againFirst = 500 * time.Millisecond // until it is sent again
	againLast  = 2 * time.Second
	// A home that answers nothing for so long is reported to the steward:
	// later than by its own replicas, which know better.
	mutedSuspect = 5 * time.Second
	mutedFine    = 12 * time.Second
)

// ownSeq marks the identities that a store chose itself: their numbers are
// those of its calls, so that it is known which are over. One of a caller with
// this mark would be forgotten, or taken for another operation, while the caller
// still repeats it: it is refused.
const ownSeq = 1 << 63

// calls are the operations that this node's own users wait for.
type calls struct {
	first uint64  // the number of open[0]: all below are answered
	open  []*pend // by number
	count int     // of those not answered
}

// call is one Do.
type call struct {
	tag      uint64
	deadline time.Duration
	left     int
	pends    []pend
	pause    time.Duration
}

// pend is one operation of a call.
type pend struct {
	number uint64
	call   *call
	index  int
	op     Op
	at     point
	shard  Shard
	epoch  uint64
	to     *peer // whose answer is awaited
	since  time.Duration
	tries  int
	asked  int // how often it was sent
	sent   bool
	queued bool // among what leaves next
	done   bool
}

// opQueue is what leaves for one home.
type opQueue struct {
	queue  []*pend
	out    int // sent, not answered
	sent   time.Duration
	gather bool // the timer runs
}

func newCalls() calls { return calls{first: 1} }

// Do carries out operations; each is answered once, by tag and index, before
// deadline, which is a time like now.
func (s *Store) Do(now time.Duration, tag uint64, ops []Op, deadline time.Duration, out *StoreOut) {
	s.begin(now, out)
	defer s.end()
	c := &call{tag: tag, deadline: deadline, left: len(ops), pends: make([]pend, len(ops)), pause: againFirst}
	for i := range ops {
		p := &c.pends[i]
		*p = pend{number: s.calls.first + uint64(len(s.calls.open)), call: c, index: i, op: ops[i]}
		s.calls.open = append(s.calls.open, p)
		s.calls.count++
		why := p.op.check(s.cfg.Kinds)
		switch {
		case p.op.ID == (OpID{}):
			p.op.ID = OpID{s.self.Name, s.self.Incarnation, p.number | ownSeq}
		case p.op.ID.Seq&ownSeq != 0 && why == "":
			why = fmt.Sprintf("the operation's identity has number %d, of those from %d on the store chooses itself", p.op.ID.Seq, uint64(ownSeq))
		}
		if why != "" {
			s.answered(p, Result{Outcome: Invalid, Err: why}, 0)
			continue
		}
		p.at = pointOf(p.op.Key)
		s.route(p)
	}
	if c.left > 0 {
		s.clock.put(min(deadline, s.now+c.pause), c)
	}
}

// route sends an operation to its home, if this node knows one.
func (s *Store) route(p *pend) {
	s.release(p)
	r := s.roster
	if r == nil || s.now >= p.call.deadline {
		return // what is late is not begun again: who asked may have asked elsewhere
	}
	p.shard = p.at.shard(r.depth)
	c := r.config(p.shard)
	if p.epoch != c.epoch {
		p.epoch, p.since = c.epoch, 0
	}
	to := c.primary()
	if p.op.Code == OpLookup && !p.op.Consistent && p.tries > 0 {
		to = c.replicas[p.tries%len(c.replicas)] // any replica will do
	}
	if s.standing(to) >= away {
		return // until a new config says who, or it is back
	}
	s.deliver(p, s.peers.know(to.Name))
}

func (s *Store) deliver(p *pend, to *peer) {
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
	to.ops.queue = append(to.ops.queue, p)
	s.touch(to)
}

// release ends the waiting for an answer of the node that was asked.
func (s *Store) release(p *pend) {
	if p.to == nil {
		return
	}
	if !p.queued && p.to != s.peers.me {
		p.to.ops.out--
	}
	p.to, p.queued = nil, false
}

func (s *Store) flushOps(p *peer) {
	q := &p.ops
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
		m := &msgOps{floor: s.calls.first}
		size, i := 0, 0
		for ; i < len(q.queue) && len(m.ops) < batchItems && size < batchBytes; i++ {
			o := q.queue[i]
			if o.to != p || !o.queued || o.done {
				continue
			}
			o.queued = false
			q.out++
			m.ops = append(m.ops, wireOp{o.number, o.shard, o.epoch, o.op})
			size += len(o.op.Key) + len(o.op.Value) + 48
		}
		if i == len(q.queue) {
			clear(q.queue)
			q.queue = q.queue[:0]
		} else {
			q.queue = q.queue[i:]
		}
		if len(m.ops) > 0 {
			q.sent = s.now
			s.send(p, m, 0)
		}
	}
}

func (s *Store) onReplies(p *peer, m *msgReplies) {
	for i := range m.replies {
		r := &m.replies[i]
		if o := s.calls.get(r.number); o != nil {
			s.replied(o, p, r.epoch, r.result, 0)
		}
	}
	s.touch(p)
}

func (c *calls) get(number uint64) *pend {
	if number < c.first || number >= c.first+uint64(len(c.open)) {
		return nil
	}
	if p := c.open[number-c.first]; !p.done {
		return p
	}
	return nil
}

// replied takes what a home said to an operation. What was said in an epoch
// before the one in which it was asked again does not count: there it may be
// done what could not be done before.
func (s *Store) replied(o *pend, p *peer, epoch uint64, res Result, after uint64) {
	switch {
	case res.Outcome == outcomeMoved:
	case !o.op.reads() && epoch < o.epoch:
		return
	case !o.op.reads() && res.Outcome == Unavailable && o.asked > 1:
		res.Outcome = Unknown // whoever was asked before may have begun it
		fallthrough
	default:
		s.answered(o, res, after)
		return
	}
	if o.to != p || epoch < o.epoch {
		return // it was sent on already
	}
	stuck := o.epoch
	s.release(o)
	if c := s.roster.config(o.at.shard(s.roster.depth)); c.epoch != stuck {
		s.route(o)
	} // else it is tried again in its time
}

// answered gives an operation's result to who asked.
func (s *Store) answered(o *pend, res Result, after uint64) {
	s.release(o)
	o.done = true
	s.calls.count--
	o.call.left--
	s.result(StoreResult{Tag: o.call.tag, Index: o.index, Result: res}, o.op.reads(), after)
	c := &s.calls
	n := 0
	for n < len(c.open) && c.open[n].done {
		c.open[n] = nil
		n++
	}
	c.open = c.open[n:]
	c.first += uint64(n)
}

// reroute sends operations whose home changed to the new one. Those that wait
// here were sent on by their shard.
func (s *Store) reroute() {
	for _, o := range slices.Clone(s.calls.open) {
		if o.done || o.to == s.peers.me {
			continue
		}
		if c := s.roster.config(o.shard); o.to == nil || c == nil || c.epoch != o.epoch {
			s.route(o)
		}
	}
}

// retryAt sends on what was asked of a node that is gone.
func (s *Store) retryAt(p *peer) {
	p.ops.queue = nil
	for _, o := range s.calls.open {
		if !o.done && o.to == p {
			s.release(o)
		}
	}
	p.ops.out = 0
}

// due looks after a call that is not answered in full.
func (c *call) due(s *Store) {
	if c.left == 0 {
		return
	}
	late := s.now >= c.deadline
	var asks []change
	for i := range c.pends {
		o := &c.pends[i]
		switch {
		case o.done:
		case late && (o.op.reads() || !o.sent):
			s.answered(o, Result{Outcome: Unavailable, Err: s.whyNot(o)}, 0)
		case late:
			s.answered(o, Result{Outcome: Unknown, Err: s.whyNot(o)}, 0)
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

// muted is the wish to do without a home that answers nothing.
func (s *Store) muted(o *pend) (change, bool) {
	if o.to == nil {
		return change{}, false
	}
	limit := mutedFine
	if o.to.state >= PeerSuspect {
		limit = mutedSuspect
	}
	if s.now < max(o.since, s.peers.woke)+limit {
		return change{}, false
	}
	o.since = s.now
	return change{changeExclude, o.shard, o.epoch, o.to.replica()}, true
}

// whyNot tells people why an operation was not answered.
func (s *Store) whyNot(o *pend) string {
	if s.roster == nil {
		return "no roster is known yet"
	}
	c := s.roster.config(o.at.shard(s.roster.depth))
	if s.lost(c) {
		return "no node that holds its shard lives"
	}
	return "no answer from " + string(c.primary().Name)
}
