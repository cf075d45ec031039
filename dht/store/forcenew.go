package store

import (
	"fmt"
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
)

// loss handles the AcceptLoss of this node and of other nodes.
type loss struct {
	*input
	disk       *disk
	peers      *peers
	view       *view
	network    *network
	sync       *rosterSync
	acceptor   *acceptor
	proposer   *proposer
	images     *images
	membership *membership
	request    *lossRequest // in progress; nil: none
}

// lossRequest is an AcceptLoss in progress.
type lossRequest struct {
	tag   uint64
	only  []dht.Shard // nil: all
	until time.Duration
	// The epochs of the lost shards; nil until the register is known to work.
	epochs  map[dht.Shard]uint64
	nonce   uint64
	answers map[dht.Replica]*roster.Evidence // to message.Count
	other   filch.NodeName                   // another node running an AcceptLoss
}

// AcceptLoss creates the named lost shards again, with only the records still on the
// disks of live nodes; no shard means all lost shards. The answer's Version Seq is the
// number of these shards. If the roster itself is lost, AcceptLoss only forces a new
// roster: the answer's Version Epoch is the new epoch, and shards still lost after a
// while need another call.
func (s *Store) AcceptLoss(now time.Duration, tag uint64, shards []dht.Shard, out *Out) {
	s.begin(now, out)
	defer s.end()
	l := &lossRequest{tag: tag, only: shards, until: s.now + lossWait, nonce: filch.Mix(uint64(s.dice) + uint64(s.now)), answers: map[dht.Replica]*roster.Evidence{}}
	if s.loss.request != nil {
		s.loss.answer(l, dht.Result{Outcome: dht.Unavailable, Err: "this node is at it already"})
		return
	}
	s.loss.request = l
	s.loss.accept(l)
}

func (f *loss) answer(l *lossRequest, r dht.Result) {
	if f.request == l {
		f.request = nil
	}
	f.out.Results = append(f.out.Results, Answer{Tag: l.tag, Result: r})
}

// accept continues an AcceptLoss.
func (f *loss) accept(l *lossRequest) {
	if l.epochs == nil && !f.count(l) {
		return
	}
	var asks []roster.Change
	n := 0
	for i, c := range f.view.roster.Shards {
		id := f.view.roster.ShardAt(i)
		was, ok := l.epochs[id]
		switch {
		case !ok:
		case c.Epoch == was:
			asks = append(asks, roster.Change{What: roster.ChangeLoss, Shard: id, Epoch: was, Who: dht.Replica{}})
		case c.Epoch > was:
			n++
		}
	}
	if len(asks) == 0 || f.now >= l.until {
		res := dht.Result{Outcome: dht.Done, Version: dht.Version{Seq: uint64(n)}}
		if len(asks) > 0 {
			res.Outcome, res.Err = dht.Unavailable, "the roster did not change in time"
		}
		f.answer(l, res)
		return
	}
	f.proposer.ask(asks...)
	f.in(wishEvery, func() { f.accept(l) })
}

// count asks all live nodes for their knowledge of the roster. count returns true once a
// majority of the acceptors is known to work: then only shards are lost. When all nodes
// have answered and there is no majority, count forces a new roster.
func (f *loss) count(l *lossRequest) bool {
	l.answers[f.self] = f.evidence()
	missing := 0
	var silent filch.NodeName
	for _, p := range f.peers.order {
		if p.listed && p.state < dht.PeerDead && l.answers[p.replica()] == nil {
			missing++
			silent = p.name
			f.network.send(p, &message.Count{Nonce: l.nonce}, 0)
		}
	}
	newest, who := roster.Newest(l.answers)
	acceptors := 0
	if newest != nil {
		for r, c := range l.answers { // any order
			if newest.IsAcceptor(r.Name) && c.Acceptor == newest.Generation && f.view.standing(r) != roster.Over {
				acceptors++
			}
		}
	}
	why := ""
	switch {
	case newest != nil && 2*acceptors > len(newest.Acceptors) && f.view.roster != nil:
		f.findLost(l)
		return true
	case l.other != "":
		why = fmt.Sprintf("%s is at it already", l.other)
	case missing > 0:
		why = fmt.Sprintf("%d nodes live and do not say what they know of the roster, %s is one", missing, silent)
	case f.now < f.began+unknownAfter:
		why = "this node has just begun, others may be on their way"
	case f.disk.reason != "":
		why = "the disk of this node takes nothing: " + f.disk.reason
	case f.membership.course == goes:
		why = "this node is leaving"
	case newest != nil && 2*acceptors > len(newest.Acceptors):
		why = "the acceptors of the roster live, and this node has not received the roster yet"
	default:
		f.forceNew(newest, who, l.answers)
		f.answer(l, dht.Result{Outcome: dht.Done, Version: dht.Version{Epoch: f.view.roster.Epoch}})
		return false
	}
	if f.now >= l.until || l.other != "" {
		f.answer(l, dht.Result{Outcome: dht.Unavailable, Err: why})
		return false
	}
	f.in(countEvery, func() { f.accept(l) })
	return false
}

// findLost notes the lost shards to create again.
func (f *loss) findLost(l *lossRequest) {
	l.epochs = map[dht.Shard]uint64{}
	for i, c := range f.view.roster.Shards {
		if id := f.view.roster.ShardAt(i); f.view.lost(c) && (len(l.only) == 0 || slices.Contains(l.only, id)) {
			l.epochs[id] = c.Epoch
		}
	}
}

// evidence returns this node's own knowledge.
func (f *loss) evidence() *roster.Evidence {
	c := &roster.Evidence{Known: f.view.roster, Chosen: f.view.roster != nil, Astray: f.images.astray}
	if f.disk.reason == "" {
		c.Acceptor = f.acceptor.generation
	}
	for _, r := range []*roster.Roster{f.acceptor.value, f.acceptor.recall.value} {
		if r != nil && (c.Known == nil || r.Epoch > c.Known.Epoch) {
			c.Known, c.Chosen = r, false
		}
	}
	if f.view.roster != nil {
		return c // the configs name the needed disks
	}
	highest := func(records map[dht.Key]*record.Record) {
		for _, r := range records { // any order
			c.Stamp = max(c.Stamp, r.Stamp.Epoch)
		}
	}
	highest(f.images.orphans)
	for _, id := range f.images.shards() {
		im := f.images.byShard[id]
		highest(im.records)
		c.Images = append(c.Images, roster.DiskCopy{Shard: id, Incarnation: im.incarnation, Guess: im.guess})
	}
	return c
}

// onCount answers with this node's knowledge of the roster. If two nodes ask at the same
// time, the node with the lesser name goes on.
func (f *loss) onCount(p *peer, m *message.Count) {
	if l := f.request; l != nil && l.epochs == nil {
		if f.self.Name < p.name {
			f.network.send(p, &message.Counted{Nonce: m.Nonce, Busy: true}, 0)
			return
		}
		l.other = p.name
	}
	c := f.evidence()
	out := &message.Counted{Nonce: m.Nonce, Acceptor: c.Acceptor, Chosen: c.Chosen, Stamp: c.Stamp, Astray: c.Astray, Images: c.Images}
	if c.Known != nil {
		out.Known = c.Known.Since(nil)
	}
	f.network.send(p, out, 0)
}

func (f *loss) onCounted(p *peer, m *message.Counted) {
	l := f.request
	if l == nil || l.nonce != m.Nonce {
		return
	}
	if m.Busy {
		l.other = p.name
		return
	}
	c := &roster.Evidence{Acceptor: m.Acceptor, Chosen: m.Chosen, Stamp: m.Stamp, Astray: m.Astray, Images: m.Images}
	if m.Known != nil {
		c.Known = m.Known.Applied(nil)
	}
	l.answers[p.replica()] = c
}

// forceNew adopts a new roster, based on the newest known roster (nil if there is none),
// with this node as the only acceptor.
func (f *loss) forceNew(base *roster.Roster, who filch.NodeName, all map[dht.Replica]*roster.Evidence) {
	if base == nil {
		base, who = roster.Piece(f.self, all), f.self.Name
	}
	r, lost := roster.ForceNew(f.self, base, func(x dht.Replica) bool { return f.view.standing(x) != roster.Over }, all)
	f.proposer.restart()
	f.acceptor.vote = vote{generation: r.Generation, value: r}
	f.acceptor.logValue()
	f.note(Note{Kind: NoteForced, Epoch: base.Epoch, Peer: who, N: lost})
	f.sync.adopt(r)
}
