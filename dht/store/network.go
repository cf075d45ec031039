package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store/message"
)

// network queues the messages to other nodes and to this node itself.
type network struct {
	*input
	disk  *disk
	peers *peers
	view  *view
	dirty []*peer // with something to flush
	local []localMessage
}

// localMessage is a message of this node to itself.
type localMessage struct {
	after uint64
	m     message.Message
}

// send sends m once the disk has all entries up to after. No other message shares the
// envelope of m.
func (nw *network) send(p *peer, m message.Message, after uint64) {
	h := m.Head()
	h.From, h.To, h.Roster = nw.self.Incarnation, p.inc, 0
	if nw.view.roster != nil {
		h.Roster = nw.view.roster.Epoch
	}
	switch m.(type) {
	case *message.Prepare, *message.Accept, *message.Install, *message.Want, *message.Roster:
		h.To = 0 // acceptors outlive an incarnation
	}
	if mutantAcceptorUnsynced || mutantDoneUnsynced {
		after = unsynced(m, after)
	}
	if p != nw.peers.me {
		nw.disk.send(Send{p.name, m}, after)
		return
	}
	if after > nw.disk.synced {
		if nw.disk.reason != "" {
			return
		}
		nw.disk.hurry(after)
	}
	nw.local = append(nw.local, localMessage{after, m})
}

// gatherFor is how long items for one peer wait for each other while earlier items are
// not yet acknowledged.
const gatherFor = time.Millisecond

// pace is the state of a queue whose items wait for each other.
type pace struct {
	sent  time.Duration // when the last message was sent
	timed bool          // the timer for the rest runs
}

// gather reports whether the items of a queue wait, and then flushes the queue later.
func (nw *network) gather(c *pace, p *peer) bool {
	if nw.now >= c.sent+gatherFor {
		return false
	}
	if !c.timed {
		c.timed = true
		nw.clock.Push(c.sent+gatherFor, func() {
			c.timed = false
			nw.touch(p)
		})
	}
	return true
}

// touch queues a peer for flush at the end of the input.
func (nw *network) touch(p *peer) {
	if !p.dirty {
		p.dirty = true
		nw.dirty = append(nw.dirty, p)
	}
}

// peer is another node, with the state that single parts have for each node.
type peer struct {
	name      filch.NodeName
	inc       uint64
	listed    bool // the member list knows this incarnation
	state     dht.PeerState
	have      uint64        // epoch of the newest roster that the peer is known to have
	confirmed uint64        // the incarnation that confirmed a roster with itself as a member
	owed      bool          // this node still has to send the roster to the peer
	heard     time.Duration // the last message of this incarnation; 0: none
	lostAt    time.Duration // when this node learned that an incarnation is gone or over; 0: never
	caller    caller
	outbound  outbound
	streams   streams
	dirty     bool
}

func (p *peer) replica() dht.Replica { return dht.Replica{Name: p.name, Incarnation: p.inc} }

// peers are all nodes that this node has heard of.
type peers struct {
	me    *peer // this node itself
	index map[filch.NodeName]*peer
	order []*peer       // by name, without this node
	woke  time.Duration // when this node resumed after a stop; 0: never
	// The member list of this node is not whole: a node missing from the list may live.
	partial bool
}

func newPeers(self dht.Replica) *peers {
	me := &peer{name: self.Name, inc: self.Incarnation, listed: true}
	return &peers{me: me, index: map[filch.NodeName]*peer{self.Name: me}}
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

// runLocal delivers the messages that this node sent to itself.
func (s *Store) runLocal() {
	for i := 0; i < len(s.network.local); {
		l := s.network.local[i]
		if l.after > s.disk.synced {
			i++
			continue
		}
		s.network.local = slices.Delete(s.network.local, i, i+1)
		s.dispatch(s.peers.me, l.m)
		i = 0
	}
}

// flush sends the queued items, replies and operations to the peers.
func (s *Store) flush() {
	s.primary.confirm()
	for i := 0; i < len(s.network.dirty); i++ {
		p := s.network.dirty[i]
		p.dirty = false
		s.replication.flushAcks(p)
		s.callers.flush(p)
		s.requests.flush(p)
		s.replication.flush(p, 0)
		s.replication.flush(p, 1)
	}
	clear(s.network.dirty)
	s.network.dirty = s.network.dirty[:0]
}
