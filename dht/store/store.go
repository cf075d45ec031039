package store

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/dht/store/record"
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
	*input
	disk        *disk
	peers       *peers
	view        *view
	network     *network
	sync        *rosterSync
	acceptor    *acceptor
	proposer    *proposer
	images      *images
	recovery    *recovery
	loss        *loss
	replica     *replica
	replication *replication
	primary     *primary
	callers     *callers
	learners    *learners
	requests    *requests
	watches     *watches
	watchers    *watchers
	membership  *membership
}

// New returns a store that holds nothing and knows no roster.
func New(cfg Config) *Store {
	s := &Store{}
	s.start(newInput(cfg))
	return s
}

// start begins a life: new parts, each with the parts that it uses.
func (s *Store) start(in *input) {
	*s = Store{
		in, new(disk), newPeers(in.self), new(view), new(network), new(rosterSync), new(acceptor), new(proposer), new(images),
		new(recovery), new(loss), new(replica), new(replication), new(primary), new(callers), new(learners), new(requests),
		new(watches), new(watchers), new(membership),
	}
	*s.disk = disk{input: in, missed: map[string]bool{}}
	*s.view = view{input: in, peers: s.peers}
	*s.network = network{input: in, disk: s.disk, peers: s.peers, view: s.view}
	*s.sync = rosterSync{
		input: in, peers: s.peers, view: s.view, network: s.network, proposer: s.proposer,
		adopted: s.adopted,
	}
	*s.acceptor = acceptor{
		input: in, disk: s.disk, peers: s.peers, view: s.view, network: s.network, sync: s.sync, images: s.images,
	}
	*s.proposer = proposer{
		input: in, peers: s.peers, view: s.view, network: s.network,
		sync: s.sync, acceptor: s.acceptor, recovery: s.recovery, membership: s.membership,
		wished: map[roster.Change]bool{}, at: filch.Never, leavers: map[dht.Replica]bool{},
		excludedUntil: map[exclusion]time.Duration{}, places: map[filch.NodeName]dht.Point{},
	}
	*s.images = images{
		input: in, disk: s.disk, view: s.view, acceptor: s.acceptor, replica: s.replica,
		byShard: map[dht.Shard]*image{}, orphans: map[dht.Key]*record.Record{},
	}
	*s.recovery = recovery{
		input: in, disk: s.disk, peers: s.peers, view: s.view,
		network: s.network, proposer: s.proposer, images: s.images, replica: s.replica,
		offers: map[dht.Shard]*offered{}, runs: map[dht.Shard]*restoring{},
	}
	*s.loss = loss{
		input: in, disk: s.disk, peers: s.peers, view: s.view, network: s.network,
		sync: s.sync, acceptor: s.acceptor, proposer: s.proposer, images: s.images, membership: s.membership,
	}
	*s.replica = replica{
		input: in, disk: s.disk, view: s.view, network: s.network, sync: s.sync, images: s.images,
		shards: map[dht.Shard]*shard{},
	}
	*s.replication = replication{input: in, peers: s.peers, network: s.network, proposer: s.proposer, primary: s.primary}
	*s.primary = primary{
		input: in, disk: s.disk, peers: s.peers, view: s.view,
		replica: s.replica, replication: s.replication, callers: s.callers, watchers: s.watchers,
	}
	*s.callers = callers{
		input: in, disk: s.disk, peers: s.peers, network: s.network, requests: s.requests, watchers: s.watchers,
	}
	*s.learners = learners{
		input: in, peers: s.peers, network: s.network, proposer: s.proposer, replica: s.replica, primary: s.primary,
	}
	*s.requests = requests{
		input: in, disk: s.disk, peers: s.peers, view: s.view,
		network: s.network, proposer: s.proposer, primary: s.primary,
		first: 1,
	}
	*s.watches = watches{
		input: in, peers: s.peers, view: s.view, network: s.network, watchers: s.watchers,
		mine: map[uint64]*watch{}, byNum: map[uint64]*watch{}, next: firstWatch(in.self.Incarnation),
	}
	*s.watchers = watchers{
		input: in, peers: s.peers, network: s.network, replica: s.replica, primary: s.primary, watches: s.watches,
	}
	*s.membership = membership{
		input: in, disk: s.disk, peers: s.peers, view: s.view,
		acceptor: s.acceptor, proposer: s.proposer, images: s.images,
	}
}

func (s *Store) begin(now time.Duration, out *Out) {
	s.now, s.out = max(s.now, now), out
	if s.clock.Next() < s.now-stopped {
		s.peers.woke = s.now
	}
	if s.began == 0 {
		s.began = max(s.now, 1)
	}
	if s.images.unlogged {
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

// Member receives the member list's entry for another node. The entry of this node
// itself says whether the list is whole.
func (s *Store) Member(now time.Duration, m dht.Peer, out *Out) {
	if m.Name == s.self.Name {
		s.peers.partial = m.Partial
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
	if p.state < dht.PeerGone && m.State >= dht.PeerGone {
		p.lostAt = s.now
	}
	p.listed, p.state = true, m.State
	if p.state >= dht.PeerDead {
		s.lose(p)
	}
	if s.view.roster == nil {
		s.sync.want(nil)
	}
	s.recovery.offer()
	s.proposer.wake()
}

// renew gives p another incarnation: messages and operations under way to the old
// incarnation are void.
func (s *Store) renew(p *peer, incarnation uint64) {
	s.lose(p)
	p.inc, p.listed, p.have, p.heard, p.lostAt = incarnation, false, 0, 0, s.now
	p.caller.dedup = record.Dedup{}
}

// lose drops everything under way to a lost node.
func (s *Store) lose(p *peer) {
	p.streams.by = [2]stream{}
	p.caller.replies, p.streams.acks = nil, nil
	s.watchers.drop(p)
	s.requests.retryAt(p)
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
	if s.view.roster == nil || h.Roster > s.view.roster.Epoch {
		if s.sync.later(p, m) {
			return
		}
	}
	s.dispatch(p, m)
}

func (s *Store) dispatch(p *peer, m message.Message) {
	switch m := m.(type) {
	case *message.Prepare:
		s.proposer.high = max(s.proposer.high, m.Ballot.N)
		s.acceptor.onPrepare(p, m)
	case *message.Promise:
		s.proposer.onPromise(p, m)
	case *message.Accept:
		s.acceptor.onAccept(p, m)
	case *message.Accepted:
		s.proposer.onAccepted(p, m)
	case *message.Refuse:
		s.proposer.onRefuse(p, m)
	case *message.Install:
		s.acceptor.onInstall(p, m)
	case *message.Roster:
		s.sync.onRoster(p, m)
	case *message.Want:
		s.sync.onWant(p, m)
	case *message.Have:
	case *message.Ask:
		s.proposer.onAsk(p, m)
	case *message.Ops:
		s.primary.onOps(p, m)
	case *message.Replies:
		s.requests.onReplies(p, m)
	case *message.Replicate:
		s.replica.onReplicate(p, m)
	case *message.Ack:
		s.replication.onAck(p, m)
	case *message.Snapshot:
		s.replica.onSnapshot(p, m)
	case *message.SnapshotAck:
		s.learners.onSnapshotAck(p, m)
	case *message.Watch:
		s.watchers.onWatch(p, m)
	case *message.Changed:
		s.watches.onChanged(p, m)
	case *message.Seen:
		s.watchers.onSeen(p, m)
	case *message.Offer:
		s.recovery.onOffer(p, m)
	case *message.Recover:
		s.recovery.onRecover(p, m)
	case *message.Fetch:
		s.recovery.onFetch(p, m)
	case *message.Images:
		s.recovery.onImages(p, m)
	case *message.Count:
		s.loss.onCount(p, m)
	case *message.Counted:
		s.loss.onCounted(p, m)
	default:
		panic(fmt.Sprintf("a store message of type %T", m))
	}
}

// Tick runs the timers that are due.
func (s *Store) Tick(now time.Duration, out *Out) {
	s.begin(now, out)
	defer s.end()
	for s.clock.Next() <= s.now {
		_, due := s.clock.Pop()
		due()
	}
}

// Deadline is the time at which to call Tick.
func (s *Store) Deadline() time.Duration { return s.clock.Next() }
