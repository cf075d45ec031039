package store

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/record"
)

// adopted applies a new roster to all parts; old is the roster before, nil if this is the
// first.
func (s *Store) adopted(old *roster.Roster) {
	r := s.view.roster
	s.disk.logBirth()
	if old == nil {
		s.view.since = s.now
		s.in(unknownAfter+time.Millisecond, s.proposer.wake)
	}
	if s.acceptor.recall.generation != 0 && s.acceptor.recall.generation < r.Generation {
		s.acceptor.recall = vote{}
		s.disk.log(diskRecall, nil)
	}
	s.note(Note{Kind: NoteRoster, Epoch: r.Epoch, N: len(r.Members)})
	if old == nil || old.Generation != r.Generation {
		s.note(Note{Kind: NoteAcceptors, Epoch: r.Epoch, N: int(r.Generation)})
		if run := s.proposer.run; run != nil && run.generation != r.Generation {
			s.proposer.run = nil
		}
	}
	s.meet(old, r)
	s.reconfigure(old, r)
	s.sync.spread()
	s.requests.reroute()
	s.watches.rewatch()
	s.images.adoptOrphans()
	s.images.finishFounding()
	s.recovery.offer()
	s.membership.checkAcceptor()
	s.membership.check()
	s.membership.reportDiskState()
	s.proposer.wake()
	s.replay()
}

// meet learns the incarnations of members from a roster. If this node learned the
// incarnations only from answers, messages under way to a member would count as sent to
// an earlier incarnation.
func (s *Store) meet(old, r *roster.Roster) {
	if old != nil && slices.Equal(old.Members, r.Members) {
		return
	}
	for _, m := range r.Members {
		if p := s.peers.know(m.Name); p != s.peers.me && p.inc < m.Incarnation {
			s.renew(p, m.Incarnation)
		}
	}
}

// replay handles the messages of the stash. Messages for a still newer roster return to
// the stash.
func (s *Store) replay() {
	stash := s.sync.stash
	s.sync.stash = nil
	for _, x := range stash {
		p := s.peers.get(x.from.Name)
		if p.inc != x.from.Incarnation {
			continue
		}
		if h := x.m.Head(); h.Roster > s.view.roster.Epoch && s.sync.later(p, x.m) {
			continue
		}
		s.dispatch(p, x.m)
	}
}

// onKnown notes that a peer lives, and knows the roster of an epoch.
func (s *Store) onKnown(p *peer, epoch uint64) {
	if p.heard = s.now; slices.Contains(s.proposer.doubted, p.name) {
		s.proposer.wake()
	}
	news := p.have < epoch
	p.have = max(p.have, epoch)
	if s.view.roster == nil || epoch != s.view.roster.Epoch {
		return
	}
	if p.confirmed != p.inc && s.view.roster.Has(p.replica()) {
		p.confirmed, news = p.inc, true
	}
	if news && slices.Contains(s.proposer.awaited, p.name) {
		s.proposer.wake()
	}
}

// reconfigure applies a new roster to the shards of this node.
func (s *Store) reconfigure(old, r *roster.Roster) {
	if old != nil {
		for d := old.Depth; d < r.Depth; d++ {
			s.splitShards()
		}
	}
	s.images.split(r.Depth)
	if old != nil && old.Depth > r.Depth {
		// forceNew made this roster on a node that knew of no shard that deep.
		for _, sh := range s.replica.held() {
			s.primary.redirect(s.primary.drain(sh))
			s.learners.dismiss(sh)
			s.replica.giveUp(sh, false)
		}
	}
	for i, c := range r.Shards {
		if old != nil && old.Depth == r.Depth && old.Shards[i] == c {
			continue
		}
		id := r.ShardAt(i)
		sh := s.replica.shards[id]
		if sh == nil && c.Has(s.self) {
			sh = s.replica.open(id, &roster.Config{})
			s.recovery.take(sh)
		}
		if sh != nil {
			s.configure(sh, c)
		}
	}
}

// configure gives a shard its next config. If this node stays primary from the old epoch
// to the new epoch, operations under way start again; otherwise their callers are
// redirected.
func (s *Store) configure(sh *shard, c *roster.Config) {
	was := sh.cfg
	sh.cfg = c
	if was.Epoch == c.Epoch {
		if sh.home {
			s.learners.catchUp(sh)
		}
		return
	}
	jobs := s.primary.drain(sh)
	wasHome := sh.home
	sh.home = c.Primary() == s.self
	sh.seq, sh.round, sh.floor, sh.replies = 0, nil, dht.Version{}, record.ReplyCache{}
	s.learners.dismiss(sh)
	if wasHome != sh.home {
		s.out.Homes = append(s.out.Homes, HomeChange{sh.id, sh.home})
		s.watchers.redirect(sh)
	}
	s.noteChange(sh, was, c)
	if !c.Has(s.self) {
		s.primary.redirect(jobs)
		s.replica.giveUp(sh, c.Learner == s.self)
		return
	}
	sh.session = learnerSession{}
	if !sh.marked {
		sh.marked = true
		s.replica.mark(sh.id)
	}
	if sh.home {
		s.primary.forgetAllRemoved(sh)
		s.learners.catchUp(sh)
	}
	if sh.home && wasHome && c.Epoch == was.Epoch+1 {
		for _, j := range jobs {
			j.epoch = c.Epoch
			s.primary.submit(sh, j)
		}
		return
	}
	s.primary.redirect(jobs)
}

// splitShards splits each shard of this node in two. A learner keeps the records learned
// so far: the change that splits a shard may make the learner a replica of the halves.
func (s *Store) splitShards() {
	for _, sh := range s.replica.held() {
		jobs := s.primary.drain(sh)
		s.learners.dismiss(sh)
		delete(s.replica.shards, sh.id)
		if !sh.cfg.Has(s.self) && (sh.cfg.Learner != s.self || mutantSplitUnlearns) {
			s.replica.wipe(sh)
			sh.over = true
			continue
		}
		for side := range dht.Shard(2) {
			half := s.replica.open(2*sh.id+side, sh.cfg)
			half.home, half.marked = sh.home, sh.marked
			if half.marked {
				s.replica.mark(half.id)
			}
			for k, r := range sh.records { // any order
				if half.id.Holds(dht.PointOf(k)) {
					half.records[k] = r
				}
			}
			for _, j := range jobs {
				if half.id.Holds(dht.PointOf(j.op.Key)) {
					half.readers = append(half.readers, j)
				}
			}
		}
		if sh.marked {
			// The removal follows the markers of the halves, so that a torn log loses
			// nothing.
			s.disk.log(markerKey(sh.id), nil)
		}
		s.watchers.redirect(sh)
		if sh.home {
			s.out.Homes = append(s.out.Homes, HomeChange{sh.id, false}, HomeChange{2 * sh.id, true}, HomeChange{2*sh.id + 1, true})
		}
		sh.over = true
	}
}

func (s *Store) noteChange(sh *shard, was, c *roster.Config) {
	if !sh.home {
		return
	}
	for _, r := range was.Replicas {
		if !c.Has(r) {
			s.note(Note{Kind: NoteShrunk, Shard: sh.id, Epoch: c.Epoch, Peer: r.Name, N: len(c.Replicas)})
		}
	}
	for _, r := range c.Replicas {
		if len(was.Replicas) > 0 && !was.Has(r) {
			s.note(Note{Kind: NoteGrown, Shard: sh.id, Epoch: c.Epoch, Peer: r.Name, N: len(c.Replicas)})
		}
	}
}
