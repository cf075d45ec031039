package dht

import (
	"slices"
)

// holdings are the shards of which this node holds something.
type holdings struct {
	shards   map[Shard]*shard
	asking   []*shard // with readers to confirm
	serial   uint64   // of learners' sessions
	bringing int      // learners that take their snapshots now
	queue    []*shard // whose learners wait for that
}

func newHoldings() holdings { return holdings{shards: map[Shard]*shard{}} }

// shard is what this node holds of a shard, as a replica or as a learner.
type shard struct {
	id      Shard
	cfg     *shardConfig
	records map[Key]*record
	floor   Version // removed records up to it are forgotten
	seq     uint64  // of the last record stamped in this epoch
	turns   map[Key]*turn
	told    told
	readers []job   // wait for the next round of confirmations
	round   *flight // the one that is under way
	learn   *learner
	lesson  lesson // that this node takes as a learner
	marked  bool   // the disk says that the records are of this incarnation
	over    bool   // split, or given up
	home    bool
	asking  bool
	watched map[Key][]*viewer
}

// lesson is a session of a learner, in an epoch.
type lesson struct{ session, epoch uint64 }

// epoch is 0 for a shard that this node gave up.
func (sh *shard) epoch() uint64 {
	if sh.over {
		return 0
	}
	return sh.cfg.epoch
}

func (s *Store) open(id Shard, c *shardConfig) *shard {
	sh := &shard{id: id, cfg: c, records: map[Key]*record{}, turns: map[Key]*turn{}}
	s.hold.shards[id] = sh
	return sh
}

// held are the shards here, by number.
func (s *Store) held() []*shard {
	all := make([]*shard, 0, len(s.hold.shards))
	for _, sh := range s.hold.shards { // any order
		all = append(all, sh)
	}
	slices.SortFunc(all, func(a, b *shard) int { return int(a.id) - int(b.id) })
	return all
}

// mark notes on the disk under which incarnation a shard is held.
func (s *Store) mark(id Shard) {
	s.log(markerKey(id), appendUvarints(nil, s.self.Incarnation))
}

// reconfigure follows a roster with what this node holds.
func (s *Store) reconfigure(old, r *roster) {
	if old != nil {
		for d := old.depth; d < r.depth; d++ {
			s.splitShards()
		}
	}
	s.splitImages(r.depth)
	if old != nil && old.depth > r.depth {
		for _, sh := range s.held() { // of a roster that was begun anew by who knew of no shard that deep
			s.moved(s.drain(sh))
			s.dismiss(sh)
			s.giveUp(sh, false)
		}
	}
	for i, c := range r.shards {
		if old != nil && old.depth == r.depth && old.shards[i] == c {
			continue
		}
		id := r.shardAt(i)
		sh := s.hold.shards[id]
		if sh == nil && c.has(s.self) {
			sh = s.open(id, &shardConfig{})
			s.takeImages(sh)
		}
		if sh != nil {
			s.configure(sh, c)
		}
	}
}

// configure gives a shard its next config. What was under way in the old one
// is taken up again if this node stays the primary from one epoch to the next;
// else those who asked are sent on.
func (s *Store) configure(sh *shard, c *shardConfig) {
	was := sh.cfg
	sh.cfg = c
	if was.epoch == c.epoch {
		if sh.home {
			s.tutor(sh)
		}
		return
	}
	jobs := s.drain(sh)
	wasHome := sh.home
	sh.home = c.primary() == s.self
	sh.seq, sh.round, sh.floor, sh.told = 0, nil, Version{}, told{}
	s.dismiss(sh)
	if wasHome != sh.home {
		s.out.Homes = append(s.out.Homes, HomeChange{sh.id, sh.home})
		s.sendViewersOn(sh)
	}
	s.noteChange(sh, was, c)
	if !c.has(s.self) {
		s.moved(jobs)
		s.giveUp(sh, c.learner == s.self)
		return
	}
	sh.lesson = lesson{}
	if !sh.marked {
		sh.marked = true
		s.mark(sh.id)
	}
	if sh.home {
		s.rememberRemoved(sh)
		s.tutor(sh)
	}
	if sh.home && wasHome && c.epoch == was.epoch+1 {
		for _, j := range jobs {
			j.epoch = c.epoch
			s.submit(sh, j)
		}
		return
	}
	s.moved(jobs)
}

func (s *Store) noteChange(sh *shard, was, c *shardConfig) {
	if !sh.home {
		return
	}
	for _, r := range was.replicas {
		if !c.has(r) {
			s.note(StoreNote{Kind: NoteShrunk, Shard: sh.id, Epoch: c.epoch, Peer: r.Name, N: len(c.replicas)})
		}
	}
	for _, r := range c.replicas {
		if len(was.replicas) > 0 && !was.has(r) {
			s.note(StoreNote{Kind: NoteGrown, Shard: sh.id, Epoch: c.epoch, Peer: r.Name, N: len(c.replicas)})
		}
	}
}

// giveUp lets go of a shard that is held by others now; learning, this node
// waits for what its primary will send.
func (s *Store) giveUp(sh *shard, learning bool) {
	s.wipe(sh)
	if !learning {
		sh.over = true
		delete(s.hold.shards, sh.id)
	}
}

// wipe forgets the records of a shard, on the disk too.
func (s *Store) wipe(sh *shard) {
	for _, k := range sh.keys() {
		s.log(recordKey+string(k), nil)
	}
	if sh.marked {
		sh.marked = false
		s.log(markerKey(sh.id), nil)
	}
	clear(sh.records)
	sh.lesson, sh.floor = lesson{}, Version{}
}

// keys are those of the records, in order.
func (sh *shard) keys() []Key {
	keys := make([]Key, 0, len(sh.records))
	for k := range sh.records { // any order
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// splitShards makes two of each shard that is held. A learner keeps what it has
// learned: the change that splits a shard may make it a replica of the halves.
func (s *Store) splitShards() {
	for _, sh := range s.held() {
		jobs := s.drain(sh)
		s.dismiss(sh)
		delete(s.hold.shards, sh.id)
		if !sh.cfg.has(s.self) && (sh.cfg.learner != s.self || mutantSplitUnlearns) {
			s.wipe(sh)
			sh.over = true
			continue
		}
		for side := range Shard(2) {
			half := s.open(2*sh.id+side, sh.cfg)
			half.home, half.marked = sh.home, sh.marked
			if half.marked {
				s.mark(half.id)
			}
			for k, r := range sh.records { // any order
				if half.id.holds(pointOf(k)) {
					half.records[k] = r
				}
			}
			for _, j := range jobs {
				if half.id.holds(pointOf(j.op.Key)) {
					half.readers = append(half.readers, j)
				}
			}
		}
		if sh.marked {
			s.log(markerKey(sh.id), nil) // after those of the halves: a torn log loses nothing
		}
		s.sendViewersOn(sh)
		if sh.home {
			s.out.Homes = append(s.out.Homes, HomeChange{sh.id, false}, HomeChange{2 * sh.id, true}, HomeChange{2*sh.id + 1, true})
		}
		sh.over = true
	}
}

// verdicts on what a primary sends.
type verdict uint8

const (
	held    verdict = iota // as it says
	ended                  // it is of an epoch that is over
	waiting                // it cannot be held now
)

// onReplicate takes what primaries send to their replicas and learners.
func (s *Store) onReplicate(p *peer, m *msgReplicate) {
	a := batchAck{number: m.batch}
	for i := range m.items {
		switch s.take(p, &m.items[i], m.roster) {
		case ended:
			a.over = append(a.over, uint32(i))
		case waiting:
			return // the primary will send it again
		}
	}
	if len(a.over) > 0 {
		s.tell(p)
	}
	if m.durable && s.disk.logged > s.disk.synced {
		s.send(p, &msgAck{batches: []batchAck{a}}, s.disk.logged)
		return
	}
	p.acks = append(p.acks, a)
	s.touch(p)
}

// take does what one item says; known is the epoch of the roster that p knows.
func (s *Store) take(p *peer, it *item, known uint64) verdict {
	c, sh := s.roster.config(it.shard), s.hold.shards[it.shard]
	switch {
	case mutantNoFence && c != nil && sh != nil && it.epoch < c.epoch:
	case c == nil || it.epoch < c.epoch || it.epoch == c.epoch && c.primary() != p.replica():
		return ended
	case it.epoch > c.epoch:
		return waiting
	case it.session != 0 && c.has(s.self) || it.session == 0 && !c.has(s.self):
		return ended
	case it.session != 0 && c.learner != s.self:
		// It is meant for this node's last life, which may have been admitted, or
		// it is of a plan that this node has not heard of.
		if known > s.roster.epoch {
			return waiting
		}
		return ended
	case s.disk.reason != "" && it.what != itemConfirm:
		return waiting
	case it.session != 0:
		if sh = s.learning(it.shard, c, it.session); sh == nil {
			return ended
		}
	}
	switch it.what {
	case itemRecord:
		s.keep(sh, it.key, it.rec)
	case itemDrop:
		if r := sh.records[it.key]; r != nil && r.stamp == it.stamp {
			s.forget(sh, it.key, it.stamp)
		}
	}
	return held
}

// keep takes a version of a record, unless a newer one is here.
func (s *Store) keep(sh *shard, k Key, r *record) {
	old := sh.records[k]
	if old != nil && !old.stamp.Less(r.stamp) || old == nil && !sh.floor.Less(r.stamp) {
		return
	}
	sh.records[k] = r
	s.log(recordKey+string(k), r.image)
}

// forget drops a removed record for good. What was sent before its removal
// and comes late finds the floor.
func (s *Store) forget(sh *shard, k Key, stamp Version) {
	delete(sh.records, k)
	if sh.floor.Less(stamp) {
		sh.floor = stamp
	}
	s.log(recordKey+string(k), nil)
}

// learning is the shard as this node learns it in a session; nil if the
// session is older than the one that runs.
func (s *Store) learning(id Shard, c *shardConfig, session uint64) *shard {
	sh := s.hold.shards[id]
	if sh == nil {
		sh = s.open(id, c)
	}
	if sh.lesson.epoch == c.epoch && session < sh.lesson.session {
		return nil
	}
	if sh.lesson.epoch != c.epoch || session > sh.lesson.session {
		s.wipe(sh)
		s.dropImages(id)
		sh.lesson, sh.marked = lesson{session, c.epoch}, true
		s.mark(id)
	}
	return sh
}
