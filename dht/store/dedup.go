package store

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/dht/store/record"
)

// dedup is the memory that a home keeps of the operations of one other node, so that an
// operation received twice is not carried out twice. An entry stays only while the caller
// may still wait for the answer.
type dedup struct {
	floor uint64
	known map[uint64]given
}

type given struct {
	epoch  uint64
	result dht.Result
	after  uint64
	done   bool
}

type durableReply struct {
	reply message.Reply
	after uint64
}

// raise drops operations whose answers the caller has.
func (c *dedup) raise(floor uint64) {
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

// answeredBefore reports whether the caller of an operation is known to have the answer,
// or to be gone.
func (s *Store) answeredBefore(node []byte, incarnation, seq uint64) bool {
	if seq&record.OwnSeq == 0 {
		return false
	}
	p := s.peers.index[filch.NodeName(node)]
	switch {
	case p == nil || p.inc != incarnation:
		return false
	case p == s.peers.me:
		return seq&^record.OwnSeq < s.requests.first
	}
	return seq&^record.OwnSeq < p.dedup.floor
}

// givenUp reports whether the caller of a job no longer waits for the answer. Such a job
// must not begin: the records may no longer remember whether the operation was carried
// out, and nodes that clean up after a dead caller may have read the records.
func (s *Store) givenUp(j *job) bool {
	switch {
	case j.from == nil || j.watch != nil:
		return false
	case j.from.inc != j.inc || j.from.state == dht.PeerDead:
		return true
	case j.from == s.peers.me:
		return s.requests.get(j.number) == nil
	}
	return j.number < j.from.dedup.floor
}

// onOps receives operations for which the sender believes this node to be home.
func (s *Store) onOps(p *peer, m *message.Ops) {
	c := &p.dedup
	c.raise(m.Floor)
	for i := range m.Ops {
		o := &m.Ops[i]
		if o.Number < c.floor {
			continue
		}
		if g, ok := c.known[o.Number]; ok {
			if g.done && g.epoch >= o.Epoch {
				s.reply(p, message.Reply{Number: o.Number, Epoch: g.epoch, Result: g.result}, g.after)
			}
			if !g.done || g.epoch >= o.Epoch {
				continue
			} // otherwise another home may have done the operation since
		}
		if !o.Op.Reads() {
			if c.known == nil {
				c.known = map[uint64]given{}
			}
			c.known[o.Number] = given{}
		}
		s.serve(job{op: &o.Op, from: p, inc: p.inc, number: o.Number, epoch: o.Epoch}, o.Shard, o.Epoch)
	}
}

// serve carries out an operation if this node is the home of the shard in exactly the
// given epoch.
func (s *Store) serve(j job, id dht.Shard, epoch uint64) {
	sh := s.hold.shards[id]
	c := s.roster.Config(id)
	switch {
	case j.op.Code == dht.OpLookup && !j.op.Consistent && sh != nil && c.Has(s.self):
		s.answer(j, sh.show(j.op.Key, true), 0)
	case sh == nil || !sh.home || c.Epoch != epoch:
		s.answer(j, dht.Result{Outcome: dht.OutcomeMoved}, 0)
	default:
		s.submit(sh, j)
	}
}

// answer returns the result of a job to the caller.
func (s *Store) answer(j job, res dht.Result, after uint64) {
	switch {
	case j.watch != nil:
		s.onLookedUp(j.watch, res)
	case j.from == nil || j.from.inc != j.inc:
	case j.from == s.peers.me:
		if o := s.requests.get(j.number); o != nil {
			s.onReply(o, j.from, j.epoch, res, after)
		}
	default:
		c := &j.from.dedup
		if _, ok := c.known[j.number]; ok {
			if res.Outcome == dht.OutcomeMoved {
				delete(c.known, j.number)
			} else {
				c.known[j.number] = given{j.epoch, res, after, true}
			}
		}
		s.reply(j.from, message.Reply{Number: j.number, Epoch: j.epoch, Result: res}, after)
	}
}

func (s *Store) reply(p *peer, r message.Reply, after uint64) {
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
			size += len(p.replies[n].Result.Value) + 32
			n++
		}
		s.send(p, &message.Replies{Replies: p.replies[:n:n]}, 0)
		p.replies = p.replies[n:]
	}
	p.replies = nil
	if len(p.durable) == 0 {
		return
	}
	m, after, size := &message.Replies{}, uint64(0), 0
	for _, d := range p.durable {
		m.Replies, after = append(m.Replies, d.reply), max(after, d.after)
		if size += len(d.reply.Result.Value) + 32; size > batchBytes {
			s.send(p, m, after)
			m, size = &message.Replies{}, 0
		}
	}
	if len(m.Replies) > 0 {
		s.send(p, m, after)
	}
	p.durable = nil
}
