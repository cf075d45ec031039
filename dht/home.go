package dht

import (
	"github.com/filch-hpc/filch"
)

// caller is what a home remembers of the operations of one other node, so that
// what arrives twice is not carried out twice. Only those to which the caller
// may still wait for an answer are kept.
type caller struct {
	floor uint64
	known map[uint64]given
}

type given struct {
	epoch  uint64
	result Result
	after  uint64
	done   bool
}

type durableReply struct {
	reply wireReply
	after uint64
}

// raise forgets operations whose answers the caller has.
func (c *caller) raise(floor uint64) {
	if floor <= c.floor {
		return
	}
	if floor-c.floor < uint64(len(c.known)) {
		for n := c.floor; n < floor; n++ {
			delete(c.known, n)
		}
	} else {
		for n := range c.known { // any order
			if n < floor {
				delete(c.known, n)
			}
		}
	}
	c.floor = floor
}

// answeredBefore reports whether the caller of an operation is known to have
// its answer, or to be gone.
func (s *Store) answeredBefore(node []byte, incarnation, seq uint64) bool {
	if seq&ownSeq == 0 {
		return false
	}
	p := s.peers.index[filch.NodeName(node)]
	switch {
	case p == nil || p.inc != incarnation:
		return false
	case p == s.peers.me:
		return seq&^ownSeq < s.calls.first
	}
	return seq&^ownSeq < p.caller.floor
}

// givenUp reports whether nobody waits for the answer of a job any more. Then
// it must not begin: records no longer remember whether it was carried out, and those
// who clear up after a dead caller may have read them.
func (s *Store) givenUp(j *job) bool {
	switch {
	case j.from == nil || j.watch != nil:
		return false
	case j.from.inc != j.inc || j.from.state == PeerDead:
		return true
	case j.from == s.peers.me:
		return s.calls.get(j.number) == nil
	}
	return j.number < j.from.caller.floor
}

// onOps takes operations for which the sender believes this node to be home.
func (s *Store) onOps(p *peer, m *msgOps) {
	c := &p.caller
	c.raise(m.floor)
	for i := range m.ops {
		o := &m.ops[i]
		if o.number < c.floor {
			continue
		}
		if g, ok := c.known[o.number]; ok {
			if g.done && g.epoch >= o.epoch {
				s.reply(p, wireReply{o.number, g.epoch, g.result}, g.after)
			}
			if !g.done || g.epoch >= o.epoch {
				continue
			} // else another home had it meanwhile, and may have done what could not be done here
		}
		if !o.op.reads() {
			if c.known == nil {
				c.known = map[uint64]given{}
			}
			c.known[o.number] = given{}
		}
		s.serve(job{op: &o.op, from: p, inc: p.inc, number: o.number, epoch: o.epoch}, o.shard, o.epoch)
	}
}

// serve carries out an operation if this node is the home of its shard in
// that very epoch.
func (s *Store) serve(j job, id Shard, epoch uint64) {
	sh := s.hold.shards[id]
	c := s.roster.config(id)
	switch {
	case j.op.Code == OpLookup && !j.op.Consistent && sh != nil && c.has(s.self):
		s.answer(j, sh.show(j.op.Key, true), 0)
	case sh == nil || !sh.home || c.epoch != epoch:
		s.answer(j, Result{Outcome: outcomeMoved}, 0)
	default:
		s.submit(sh, j)
	}
}

// answer gives the result of a job to who asked.
func (s *Store) answer(j job, res Result, after uint64) {
	switch {
	case j.watch != nil:
		s.viewed(j.watch, res)
	case j.from == nil || j.from.inc != j.inc:
	case j.from == s.peers.me:
		if o := s.calls.get(j.number); o != nil {
			s.replied(o, j.from, j.epoch, res, after)
		}
	default:
		c := &j.from.caller
		if _, ok := c.known[j.number]; ok {
			if res.Outcome == outcomeMoved {
				delete(c.known, j.number)
			} else {
				c.known[j.number] = given{j.epoch, res, after, true}
			}
		}
		s.reply(j.from, wireReply{j.number, j.epoch, res}, after)
	}
}

func (s *Store) reply(p *peer, r wireReply, after uint64) {
	if after > s.disk.synced {
		p.durable = append(p.durable, durableReply{r, after})
	} else {
		p.replies = append(p.replies, r)
	}
	s.touch(p)
}

func (s *Store) flushReplies(p *peer) {
	for len(p.replies) > 0 {
		size, n := 0, 0
		for n < len(p.replies) && n < batchItems && size < batchBytes {
			size += len(p.replies[n].result.Value) + 32
			n++
		}
		s.send(p, &msgReplies{replies: p.replies[:n:n]}, 0)
		p.replies = p.replies[n:]
	}
	p.replies = nil
	if len(p.durable) == 0 {
		return
	}
	m, after, size := &msgReplies{}, uint64(0), 0
	for _, d := range p.durable {
		m.replies, after = append(m.replies, d.reply), max(after, d.after)
		if size += len(d.reply.result.Value) + 32; size > batchBytes {
			s.send(p, m, after)
			m, size = &msgReplies{}, 0
		}
	}
	if len(m.replies) > 0 {
		s.send(p, m, after)
	}
	p.durable = nil
}
