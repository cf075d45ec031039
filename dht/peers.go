package dht

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// peer is another node, with what is on its way there.
type peer struct {
	name    filch.NodeName
	inc     uint64
	listed  bool // the member list knows this incarnation
	state   PeerState
	have    uint64 // epoch of the roster that it is known to have
	sworn   uint64 // the incarnation that knew a roster in which it is a member
	owed    bool   // it is to be told of the roster by this node
	caller  caller
	lanes   [2]lane // replication: in memory, on disk
	batches uint64
	ops     opQueue
	replies []wireReply
	durable []durableReply
	acks    []batchAck
	dirty   bool
}

func (p *peer) replica() Replica { return Replica{p.name, p.inc} }

type peers struct {
	me    *peer // this node itself
	index map[filch.NodeName]*peer
	order []*peer // by name, without this node
	dirty []*peer // with something to flush
	local []localMessage
	woke  time.Duration // when this node went on after it was stopped; 0: never
}

type localMessage struct {
	after uint64
	m     StoreMessage
}

func newPeers(self Replica) peers {
	me := &peer{name: self.Name, inc: self.Incarnation, listed: true}
	return peers{me: me, index: map[filch.NodeName]*peer{self.Name: me}}
}

func (ps *peers) get(n filch.NodeName) *peer { return ps.index[n] }

func (ps *peers) know(n filch.NodeName) *peer {
	p := ps.index[n]
	if p == nil {
		p = &peer{name: n}
		ps.index[n] = p
		at, _ := slices.BinarySearchFunc(ps.order, n, func(p *peer, n filch.NodeName) int { return cmp.Compare(p.name, n) })
		ps.order = slices.Insert(ps.order, at, p)
	}
	return p
}

// touch has a peer's queues looked at in the end of the input.
func (s *Store) touch(p *peer) {
	if !p.dirty {
		p.dirty = true
		s.peers.dirty = append(s.peers.dirty, p)
	}
}

// send sends m, of which nobody else has the envelope, once the disk has all
// entries up to after.
func (s *Store) send(p *peer, m StoreMessage, after uint64) {
	h := m.head()
	h.from, h.to, h.roster = s.self.Incarnation, p.inc, 0
	if s.roster != nil {
		h.roster = s.roster.epoch
	}
	switch m.(type) {
	case *msgPrepare, *msgAccept, *msgInstall, *msgWant, *msgRoster:
		h.to = 0 // seats outlive an incarnation
	}
	if mutantSeatUnsynced || mutantDoneUnsynced {
		after = unsynced(m, after)
	}
	if p != s.peers.me {
		s.emit(StoreSend{p.name, m}, after)
		return
	}
	if after > s.disk.synced {
		if s.disk.reason != "" {
			return
		}
		s.hurry(after)
	}
	s.peers.local = append(s.peers.local, localMessage{after, m})
}

// runLocal delivers what this node sent to itself.
func (s *Store) runLocal() {
	for i := 0; i < len(s.peers.local); {
		l := s.peers.local[i]
		if l.after > s.disk.synced {
			i++
			continue
		}
		s.peers.local = slices.Delete(s.peers.local, i, i+1)
		s.dispatch(s.peers.me, l.m)
		i = 0
	}
}

// flush sends what has gathered for others.
func (s *Store) flush() {
	s.confirm()
	for i := 0; i < len(s.peers.dirty); i++ {
		p := s.peers.dirty[i]
		p.dirty = false
		s.flushAcks(p)
		s.flushReplies(p)
		s.flushOps(p)
		s.flushLane(p, 0)
		s.flushLane(p, 1)
	}
	clear(s.peers.dirty)
	s.peers.dirty = s.peers.dirty[:0]
}

// gather is how long things for one peer wait for each other while others are
// under way to it.
const gather = time.Millisecond
