package store

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
)

// Store is the metadata part of one node. Only a single input runs at a time, and input
// times never go back.
//
// The acceptors agree on the roster, a single value. The roster says which nodes hold
// which shard; see [Status]. The primary of a shard carries out operations, one at a time
// on each key, and answers when all replicas have the result. A replica refuses messages
// of an epoch that is over. So two nodes are never home to a key at the same time,
// whichever roster each of the two knows.
type Store struct {
	cfg      Config
	self     dht.Replica
	now      time.Duration
	out      *Out
	rand     uint64
	clock    timers
	peers    peers
	roster   *roster.Roster // the newest chosen roster known here
	sync     rosterSync
	acceptor acceptor
	proposer proposer
	hold     holdings
	requests requests
	watches  watches
	disk     disk
	course   course
}

// course says whether the node stays, leaves or returns. Above backs the node repeats the
// wish to stay.
type course int8

const (
	goes course = iota - 1 // leaving, or left
	stays
	backs // the node was leaving, and stays after all

	// saysBack is the number of repetitions, one a second: the proposer may receive a
	// late wish to leave, and a node receives no roster after leaving.
	saysBack = backs + 10
)

// New returns a store that holds nothing and knows no roster.
func New(cfg Config) *Store {
	s := &Store{cfg: cfg, self: dht.Replica{Name: cfg.Self, Incarnation: cfg.Incarnation}}
	s.rand = filch.Mix(cfg.Seed ^ cfg.Self.Hash() ^ filch.Mix(cfg.Incarnation))
	s.peers = newPeers(s.self)
	s.proposer = newProposer()
	s.hold = newHoldings()
	s.requests = newRequests()
	s.watches = newWatches(cfg.Incarnation)
	s.disk = newDisk()
	return s
}

func (s *Store) random(n int) int {
	s.rand += 0x9e3779b97f4a7c15
	return int(filch.Mix(s.rand) % uint64(n))
}

func (s *Store) begin(now time.Duration, out *Out) {
	s.now, s.out = max(s.now, now), out
	if s.clock.next() < s.now-stopped {
		s.peers.woke = s.now
	}
	if s.proposer.began == 0 {
		s.proposer.began = max(s.now, 1)
	}
	if s.disk.unsaid {
		s.logDamage()
	}
}

// end sends the messages and results of this input.
func (s *Store) end() {
	s.runLocal()
	s.flush()
	s.runLocal()
	s.out = nil
}

func (s *Store) note(n Note) { s.out.Notes = append(s.out.Notes, n) }

// Member receives the member list's entry for another node.
func (s *Store) Member(now time.Duration, m dht.Peer, out *Out) {
	if m.Name == s.self.Name {
		return
	}
	s.begin(now, out)
	defer s.end()
	p := s.peers.know(m.Name)
	if m.Incarnation < p.inc || m.Incarnation == p.inc && p.listed && p.state == m.State {
		return
	}
	if m.Incarnation > p.inc {
		s.renew(p, m.Incarnation)
	}
	p.listed, p.state = true, m.State
	if p.state >= dht.PeerDead {
		s.lose(p)
	}
	if s.roster == nil {
		s.want(nil)
	}
	s.offerImages()
	s.wakeProposer()
}

// renew gives p another incarnation: messages and operations under way to the old
// incarnation are void.
func (s *Store) renew(p *peer, incarnation uint64) {
	s.lose(p)
	p.inc, p.listed, p.have = incarnation, false, 0
	p.dedup = dedup{}
}

// lose drops everything under way to a lost node.
func (s *Store) lose(p *peer) {
	p.streams = [2]stream{}
	p.replies, p.acks = nil, nil
	s.unwatchAll(p)
	s.retryAt(p)
}

// Message handles a message from another node's store.
func (s *Store) Message(now time.Duration, from filch.NodeName, m message.Message, out *Out) {
	s.begin(now, out)
	defer s.end()
	h := m.Head()
	if h.To != 0 && h.To != s.self.Incarnation || from == s.self.Name {
		return
	}
	p := s.peers.know(from)
	if h.From < p.inc {
		return
	}
	if h.From > p.inc {
		s.renew(p, h.From)
	}
	s.onKnown(p, h.Roster)
	if s.roster == nil || h.Roster > s.roster.Epoch {
		if s.later(p, m) {
			return
		}
	}
	s.dispatch(p, m)
}

func (s *Store) dispatch(p *peer, m message.Message) {
	switch m := m.(type) {
	case *message.Prepare:
		s.proposer.high = max(s.proposer.high, m.Ballot.N)
		s.onPrepare(p, m)
	case *message.Promise:
		s.onPromise(p, m)
	case *message.Accept:
		s.onAccept(p, m)
	case *message.Accepted:
		s.onAccepted(p, m)
	case *message.Refuse:
		s.onRefuse(p, m)
	case *message.Install:
		s.onInstall(p, m)
	case *message.Roster:
		s.onRoster(p, m)
	case *message.Want:
		s.onWant(p, m)
	case *message.Have:
	case *message.Ask:
		s.onAsk(p, m)
	case *message.Ops:
		s.onOps(p, m)
	case *message.Replies:
		s.onReplies(p, m)
	case *message.Replicate:
		s.onReplicate(p, m)
	case *message.Ack:
		s.onAck(p, m)
	case *message.Snapshot:
		s.onSnapshot(p, m)
	case *message.SnapshotAck:
		s.onSnapshotAck(p, m)
	case *message.Watch:
		s.onWatch(p, m)
	case *message.Changed:
		s.onChanged(p, m)
	case *message.Seen:
		s.onSeen(p, m)
	case *message.Offer:
		s.onOffer(p, m)
	case *message.Recover:
		s.onRecover(p, m)
	case *message.Fetch:
		s.onFetch(p, m)
	case *message.Images:
		s.onImages(p, m)
	case *message.Count:
		s.onCount(p, m)
	case *message.Counted:
		s.onCounted(p, m)
	default:
		panic(fmt.Sprintf("a store message of type %T", m))
	}
}

// Tick runs the timers that are due.
func (s *Store) Tick(now time.Duration, out *Out) {
	s.begin(now, out)
	defer s.end()
	for s.clock.next() <= s.now {
		s.clock.pop().due(s)
	}
}

// Deadline is the time at which to call Tick.
func (s *Store) Deadline() time.Duration { return s.clock.next() }
