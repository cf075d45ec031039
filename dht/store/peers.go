package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store/message"
)

// peer is another node, with the queues of messages to the node.
type peer struct {
	name      filch.NodeName
	inc       uint64
	listed    bool // the member list knows this incarnation
	state     dht.PeerState
	have      uint64 // epoch of the newest roster that the peer is known to have
	confirmed uint64 // the incarnation that confirmed a roster with itself as a member
	owed      bool   // this node still has to send the roster to the peer
	dedup     dedup
	streams   [2]stream // replication: in memory, on disk
	batches   uint64
	outbound  outbound
	replies   []message.Reply
	durable   []durableReply
	acks      []message.BatchAck
	dirty     bool
}

func (p *peer) replica() dht.Replica { return dht.Replica{Name: p.name, Incarnation: p.inc} }

type peers struct {
	me    *peer // this node itself
	index map[filch.NodeName]*peer
	order []*peer // by name, without this node
	dirty []*peer // with something to flush
	local []localMessage
	woke  time.Duration // when this node resumed after a stop; 0: never
}

type localMessage struct {
	after uint64
	m     message.Message
}

func newPeers(self dht.Replica) peers {
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

// touch queues a peer for flush at the end of the input.
func (s *Store) touch(p *peer) {
	if !p.dirty {
		p.dirty = true
		s.peers.dirty = append(s.peers.dirty, p)
	}
}

// send sends m once the disk has all entries up to after. No other message shares the
// envelope of m.
func (s *Store) send(p *peer, m message.Message, after uint64) {
	h := m.Head()
	h.From, h.To, h.Roster = s.self.Incarnation, p.inc, 0
	if s.roster != nil {
		h.Roster = s.roster.Epoch
	}
	switch m.(type) {
	case *message.Prepare, *message.Accept, *message.Install, *message.Want, *message.Roster:
		h.To = 0 // acceptors outlive an incarnation
	}
	if mutantSeatUnsynced || mutantDoneUnsynced {
		after = unsynced(m, after)
	}
	if p != s.peers.me {
		s.emit(Send{p.name, m}, after)
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

// runLocal delivers the messages that this node sent to itself.
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

// flush sends the queued items, replies and operations to the peers.
func (s *Store) flush() {
	s.confirm()
	for i := 0; i < len(s.peers.dirty); i++ {
		p := s.peers.dirty[i]
		p.dirty = false
		s.flushAcks(p)
		s.flushReplies(p)
		s.flushOps(p)
		s.flushStream(p, 0)
		s.flushStream(p, 1)
	}
	clear(s.peers.dirty)
	s.peers.dirty = s.peers.dirty[:0]
}

// gather is how long items for one peer wait for each other while earlier items are not
// yet acknowledged.
const gather = time.Millisecond
