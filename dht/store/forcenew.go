package store

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/dht/store/record"
)

// If no majority of the acceptors knows its promises any more, because nodes or disks are
// gone or damaged, nobody can change the roster. The survivors cannot rule out a chosen
// change unknown to all live nodes, so a person must accept the loss. Then the asking
// node forces a new roster: the newest roster known to any live node, with the asking
// node as the only acceptor.
//
// If live nodes hold a shard, one of these nodes continues alone. The others learn the
// shard from the beginning, as each may have missed a config without this replica. If no
// live node holds a shard, the shard keeps its config, so that the disks of the config's
// replicas bring the shard back. Changes made by unreachable nodes are lost.

const (
	lossWait   = 12 * time.Second // longest AcceptLoss, longer than unknownAfter
	countEvery = 500 * time.Millisecond

	// The epochs of a forced roster are above all epochs the lost roster may have
	// reached, even unseen. The bits from anewShift on count the forced rosters. If two
	// nodes both force a roster, unable to reach each other, the bits from saltShift on
	// differ; the higher epoch wins.
	anewShift = 52
	saltShift = 24
)

// lossRequest is an AcceptLoss in progress.
type lossRequest struct {
	tag   uint64
	only  []dht.Shard // nil: all
	until time.Duration
	// The epochs of the lost shards; nil until the register is known to work.
	epochs  map[dht.Shard]uint64
	nonce   uint64
	answers map[dht.Replica]*counted // to message.Count
	other   filch.NodeName           // another node running an AcceptLoss
}

// counted is the knowledge of one node about a roster that may be lost.
type counted struct {
	seat  uint64 // the generation in which the node is a working acceptor, or 0
	known *roster.Roster
	// known was chosen; otherwise known was accepted, or came from a damaged disk.
	chosen bool
	stamp  uint64
	astray bool // some records on the disk have no marker
	images []message.ShardOffer
}

// AcceptLoss creates the named lost shards again, with only the records still on the
// disks of live nodes; no shard means all lost shards. The answer's Version Seq is the
// number of these shards. If the roster itself is lost, AcceptLoss only forces a new
// roster: the answer's Version Epoch is the new epoch, and shards still lost after a
// while need another call.
func (s *Store) AcceptLoss(now time.Duration, tag uint64, shards []dht.Shard, out *Out) {
	s.begin(now, out)
	defer s.end()
	l := &lossRequest{tag: tag, only: shards, until: s.now + lossWait, nonce: filch.Mix(s.rand + uint64(s.now)), answers: map[dht.Replica]*counted{}}
	if s.disk.recover.loss != nil {
		l.answer(s, dht.Result{Outcome: dht.Unavailable, Err: "this node is at it already"})
		return
	}
	s.disk.recover.loss = l
	l.due(s)
}

func (l *lossRequest) answer(s *Store, r dht.Result) {
	if s.disk.recover.loss == l {
		s.disk.recover.loss = nil
	}
	s.out.Results = append(s.out.Results, Answer{Tag: l.tag, Result: r})
}

func (l *lossRequest) due(s *Store) {
	if l.epochs == nil && !l.count(s) {
		return
	}
	var asks []roster.Change
	n := 0
	for i, c := range s.roster.Shards {
		id := s.roster.ShardAt(i)
		was, ok := l.epochs[id]
		switch {
		case !ok:
		case c.Epoch == was:
			asks = append(asks, roster.Change{What: roster.ChangeLoss, Shard: id, Epoch: was, Who: dht.Replica{}})
		case c.Epoch > was:
			n++
		}
	}
	if len(asks) == 0 || s.now >= l.until {
		res := dht.Result{Outcome: dht.Done, Version: dht.Version{Seq: uint64(n)}}
		if len(asks) > 0 {
			res.Outcome, res.Err = dht.Unavailable, "the roster did not change in time"
		}
		l.answer(s, res)
		return
	}
	s.ask(asks...)
	s.in(wishEvery, l)
}

// count asks all live nodes for their knowledge of the roster. count returns true once a
// majority of the acceptors is known to work: then only shards are lost. When all nodes
// have answered and there is no majority, count forces a new roster.
func (l *lossRequest) count(s *Store) bool {
	l.answers[s.self] = s.counted()
	missing := 0
	var silent filch.NodeName
	for _, p := range s.peers.order {
		if p.listed && p.state < dht.PeerDead && l.answers[p.replica()] == nil {
			missing++
			silent = p.name
			s.send(p, &message.Count{Nonce: l.nonce}, 0)
		}
	}
	newest, who := l.newest()
	seats := 0
	if newest != nil {
		for r, c := range l.answers { // any order
			if newest.Seated(r.Name) && c.seat == newest.Generation && s.standing(r) != roster.Over {
				seats++
			}
		}
	}
	why := ""
	switch {
	case newest != nil && 2*seats > len(newest.Seats) && s.roster != nil:
		l.find(s)
		return true
	case l.other != "":
		why = fmt.Sprintf("%s is at it already", l.other)
	case missing > 0:
		why = fmt.Sprintf("%d nodes live and do not say what they know of the roster, %s is one", missing, silent)
	case s.now < s.proposer.began+unknownAfter:
		why = "this node has just begun, others may be on their way"
	case s.disk.reason != "":
		why = "the disk of this node takes nothing: " + s.disk.reason
	case s.course == goes:
		why = "this node is leaving"
	case newest != nil && 2*seats > len(newest.Seats):
		why = "the roster's seats live, and this node has not heard of the roster yet"
	default:
		s.forceNew(newest, who, l.answers)
		l.answer(s, dht.Result{Outcome: dht.Done, Version: dht.Version{Epoch: s.roster.Epoch}})
		return false
	}
	if s.now >= l.until || l.other != "" {
		l.answer(s, dht.Result{Outcome: dht.Unavailable, Err: why})
		return false
	}
	s.in(countEvery, l)
	return false
}

// find notes the lost shards to create again.
func (l *lossRequest) find(s *Store) {
	l.epochs = map[dht.Shard]uint64{}
	for i, c := range s.roster.Shards {
		if id := s.roster.ShardAt(i); s.lost(c) && (len(l.only) == 0 || slices.Contains(l.only, id)) {
			l.epochs[id] = c.Epoch
		}
	}
}

// newest returns the newest roster among the answers.
func (l *lossRequest) newest() (best *roster.Roster, who filch.NodeName) {
	chosen := false
	for _, r := range slices.SortedFunc(maps.Keys(l.answers), dht.Replica.Compare) {
		c := l.answers[r]
		if c.known != nil && (best == nil || c.known.Epoch > best.Epoch || c.known.Epoch == best.Epoch && c.chosen && !chosen) {
			best, who, chosen = c.known, r.Name, c.chosen
		}
	}
	return best, who
}

// counted returns this node's own knowledge.
func (s *Store) counted() *counted {
	c := &counted{known: s.roster, chosen: s.roster != nil, astray: s.disk.astray}
	if s.disk.reason == "" {
		c.seat = s.acceptor.generation
	}
	for _, r := range []*roster.Roster{s.acceptor.value, s.disk.recall.value} {
		if r != nil && (c.known == nil || r.Epoch > c.known.Epoch) {
			c.known, c.chosen = r, false
		}
	}
	if s.roster != nil {
		return c // the configs name the needed disks
	}
	highest := func(records map[dht.Key]*record.Record) {
		for _, r := range records { // any order
			c.stamp = max(c.stamp, r.Stamp.Epoch)
		}
	}
	highest(s.disk.orphans)
	for _, id := range s.imaged() {
		im := s.disk.images[id]
		highest(im.records)
		c.images = append(c.images, message.ShardOffer{Shard: id, Incarnation: im.incarnation, Guess: im.guess})
	}
	return c
}

// onCount answers with this node's knowledge of the roster. If two nodes ask at the same
// time, the node with the lesser name goes on.
func (s *Store) onCount(p *peer, m *message.Count) {
	if l := s.disk.recover.loss; l != nil && l.epochs == nil {
		if s.self.Name < p.name {
			s.send(p, &message.Counted{Nonce: m.Nonce, Busy: true}, 0)
			return
		}
		l.other = p.name
	}
	c := s.counted()
	out := &message.Counted{Nonce: m.Nonce, Seat: c.seat, Chosen: c.chosen, Stamp: c.stamp, Astray: c.astray, Images: c.images}
	if c.known != nil {
		out.Known = c.known.Since(nil)
	}
	s.send(p, out, 0)
}

func (s *Store) onCounted(p *peer, m *message.Counted) {
	l := s.disk.recover.loss
	if l == nil || l.nonce != m.Nonce {
		return
	}
	if m.Busy {
		l.other = p.name
		return
	}
	c := &counted{seat: m.Seat, chosen: m.Chosen, stamp: m.Stamp, astray: m.Astray, images: m.Images}
	if m.Known != nil {
		c.known = m.Known.Applied(nil)
	}
	l.answers[p.replica()] = c
}

// newEpoch returns an epoch, or generation, above any a lost roster may have reached.
func (s *Store) newEpoch(epoch uint64) uint64 {
	salt := filch.Mix(s.self.Name.Hash()^filch.Mix(s.self.Incarnation)) % (1 << (anewShift - saltShift))
	return (epoch>>anewShift+1)<<anewShift | salt<<saltShift
}

// forceNew adopts a new roster, based on the newest known roster (nil if there is none),
// with this node as the only acceptor.
func (s *Store) forceNew(base *roster.Roster, who filch.NodeName, answers map[dht.Replica]*counted) {
	if base == nil {
		base, who = s.pieced(answers), s.self.Name
	}
	r := &roster.Roster{Epoch: s.newEpoch(base.Epoch), Generation: s.newEpoch(base.Generation), By: s.self.Name, Depth: base.Depth, Seats: []dht.Replica{s.self}}
	for _, m := range base.Members {
		if m.Name != s.self.Name && s.standing(m.Replica) != roster.Over {
			r.Members = append(r.Members, m)
		}
	}
	r.Members = append(r.Members, roster.Member{Replica: s.self})
	lost := 0
	for _, c := range base.Shards {
		n := &roster.Config{Epoch: s.newEpoch(c.Epoch), Replicas: c.Replicas}
		if i := slices.IndexFunc(c.Replicas, func(x dht.Replica) bool { return answers[x] != nil && s.standing(x) != roster.Over }); i >= 0 {
			n.Replicas = c.Replicas[i : i+1]
			// The node may not know yet that the shard was recovered.
			n.Recovered = c.Recovered && i == 0
		} else {
			lost++
		}
		r.Shards = append(r.Shards, n)
	}
	w := &s.proposer
	w.run, w.cache, w.value, w.wishes = nil, message.Ballot{}, nil, nil
	clear(w.wished)
	s.acceptor = acceptor{generation: r.Generation, value: r}
	s.logAcceptor()
	s.note(Note{Kind: NoteAnew, Epoch: base.Epoch, Peer: who, N: lost})
	s.adopt(r)
}

// pieced builds a roster for an instance of which no live node knows a roster. A node
// whose disk has records of a shard was a replica, and a node whose disk cannot tell may
// have been.
func (s *Store) pieced(answers map[dht.Replica]*counted) *roster.Roster {
	r := roster.New(s.self)
	all := slices.SortedFunc(maps.Keys(answers), dht.Replica.Compare)
	epoch := uint64(1)
	for _, x := range all {
		c := answers[x]
		epoch = max(epoch, c.stamp)
		for _, w := range c.images {
			for r.Depth < w.Shard.Depth() {
				r.Split()
			}
		}
	}
	held := make([][]dht.Replica, len(r.Shards))
	add := func(i int, x dht.Replica) {
		if len(held[i]) < roster.MaxReplicas && !slices.Contains(held[i], x) {
			held[i] = append(held[i], x)
		}
	}
	for _, x := range all {
		for _, w := range answers[x].images {
			shift := r.Depth - w.Shard.Depth()
			for i := range 1 << shift {
				add(int(w.Shard)<<shift&(1<<r.Depth-1)|i, dht.Replica{Name: x.Name, Incarnation: w.Incarnation})
			}
		}
	}
	for _, x := range all {
		for i := range held {
			said := slices.ContainsFunc(held[i], func(h dht.Replica) bool { return h.Name == x.Name })
			if answers[x].astray && !said && x.Incarnation > 1 {
				add(i, dht.Replica{Name: x.Name, Incarnation: x.Incarnation - 1})
			}
		}
	}
	for i := range r.Shards {
		if len(held[i]) == 0 {
			held[i] = []dht.Replica{s.self}
		}
		r.Shards[i] = &roster.Config{Epoch: epoch, Replicas: held[i]}
	}
	r.Epoch, r.Generation = epoch, epoch
	return r
}
