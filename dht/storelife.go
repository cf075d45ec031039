package dht

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
)

// Store is the metadata part of one node. Not more than one input runs at a
// time, and inputs have times that do not go back.
//
// Who holds what is in the roster, one value that the seats agree on; see
// [StoreStatus]. The primary of a shard carries operations out, one at a time
// on each key, and answers when all replicas have the result. A replica hears
// nobody of an epoch that is over. So no two nodes can be home to a key at the
// same time, whatever they believe.
type Store struct {
	cfg    StoreConfig
	self   Replica
	now    time.Duration
	out    *StoreOut
	rand   uint64
	clock  timers
	peers  peers
	roster *roster // the newest chosen one that this node knows
	book   book
	seat   seat
	stew   steward
	hold   holdings
	calls  calls
	views  views
	disk   disk
	course course
}

// course is where a node is on its way. Above backs it says so often that it stays.
type course int8

const (
	goes course = iota - 1 // or has left
	stays
	backs // it was on its way out, and is not any more

	// saysBack is how often, once a second: the steward may take in a wish to leave
	// that was late, and who left is not told of it.
	saysBack = backs + 10
)

// NewStore returns a store that holds nothing and knows no roster.
func NewStore(cfg StoreConfig) *Store {
	s := &Store{cfg: cfg, self: Replica{cfg.Self, cfg.Incarnation}}
	s.rand = mix(cfg.Seed ^ key(cfg.Self) ^ mix(cfg.Incarnation))
	s.peers = newPeers(s.self)
	s.stew = newSteward()
	s.hold = newHoldings()
	s.calls = newCalls()
	s.views = newViews(cfg.Incarnation)
	s.disk = newDisk()
	return s
}

func (s *Store) random(n int) int {
	s.rand += 0x9e3779b97f4a7c15
	return int(mix(s.rand) % uint64(n))
}

func (s *Store) begin(now time.Duration, out *StoreOut) {
	s.now, s.out = max(s.now, now), out
	if s.clock.next() < s.now-stopped {
		s.peers.woke = s.now
	}
	if s.stew.began == 0 {
		s.stew.began = max(s.now, 1)
	}
	if s.disk.unsaid {
		s.confess()
	}
}

// end lets what happened go out.
func (s *Store) end() {
	s.runLocal()
	s.flush()
	s.runLocal()
	s.out = nil
}

func (s *Store) note(n StoreNote) { s.out.Notes = append(s.out.Notes, n) }

// Member is told what the member list says of another node.
func (s *Store) Member(now time.Duration, m Peer, out *StoreOut) {
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
	if p.state >= PeerDead {
		s.lose(p)
	}
	if s.roster == nil {
		s.want(nil)
	}
	s.offerImages()
	s.kick()
}

// renew makes p another incarnation: whatever was under way to the old one is
// void.
func (s *Store) renew(p *peer, incarnation uint64) {
	s.lose(p)
	p.inc, p.listed, p.have = incarnation, false, 0
	p.caller = caller{}
}

// lose forgets what was under way to a node that is gone.
func (s *Store) lose(p *peer) {
	p.lanes = [2]lane{}
	p.replies, p.acks = nil, nil
	s.unwatchAll(p)
	s.retryAt(p)
}

// Message takes a message of another node's store.
func (s *Store) Message(now time.Duration, from filch.NodeName, m StoreMessage, out *StoreOut) {
	s.begin(now, out)
	defer s.end()
	h := m.head()
	if h.to != 0 && h.to != s.self.Incarnation || from == s.self.Name {
		return
	}
	p := s.peers.know(from)
	if h.from < p.inc {
		return
	}
	if h.from > p.inc {
		s.renew(p, h.from)
	}
	s.heard(p, h.roster)
	if s.roster == nil || h.roster > s.roster.epoch {
		if s.later(p, m) {
			return
		}
	}
	s.dispatch(p, m)
}

func (s *Store) dispatch(p *peer, m StoreMessage) {
	switch m := m.(type) {
	case *msgPrepare:
		s.stew.high = max(s.stew.high, m.ballot.n)
		s.onPrepare(p, m)
	case *msgPromise:
		s.onPromise(p, m)
	case *msgAccept:
		s.onAccept(p, m)
	case *msgAccepted:
		s.onAccepted(p, m)
	case *msgRefuse:
		s.onRefuse(p, m)
	case *msgInstall:
		s.onInstall(p, m)
	case *msgRoster:
		s.onRoster(p, m)
	case *msgWant:
		s.onWant(p, m)
	case *msgHave:
	case *msgAsk:
		s.onAsk(p, m)
	case *msgOps:
		s.onOps(p, m)
	case *msgReplies:
		s.onReplies(p, m)
	case *msgReplicate:
		s.onReplicate(p, m)
	case *msgAck:
		s.onAck(p, m)
	case *msgSnapshot:
		s.onSnapshot(p, m)
	case *msgSnapshotAck:
		s.onSnapshotAck(p, m)
	case *msgWatch:
		s.onWatch(p, m)
	case *msgChanged:
		s.onChanged(p, m)
	case *msgSeen:
		s.onSeen(p, m)
	case *msgOffer:
		s.onOffer(p, m)
	case *msgRecover:
		s.onRecover(p, m)
	case *msgFetch:
		s.onFetch(p, m)
	case *msgImages:
		s.onImages(p, m)
	case *msgCount:
		s.onCount(p, m)
	case *msgCounted:
		s.onCounted(p, m)
	default:
		panic(fmt.Sprintf("a store message of type %T", m))
	}
}

// Tick does what is due.
func (s *Store) Tick(now time.Duration, out *StoreOut) {
	s.begin(now, out)
	defer s.end()
	for s.clock.next() <= s.now {
		s.clock.pop().due(s)
	}
}

// Deadline is when Tick is to be called.
func (s *Store) Deadline() time.Duration { return s.clock.next() }
