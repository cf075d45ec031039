package store

import (
	"slices"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/dht/store/record"
	"github.com/filch-hpc/filch/dht/varint"
)

// holdings are the shards of which this node holds something.
type holdings struct {
	shards   map[dht.Shard]*shard
	asking   []*shard // with readers to confirm
	serial   uint64   // of learners' sessions
	bringing int      // learners now receiving snapshots
	queue    []*shard // shards whose learners wait for a free session
}

func newHoldings() holdings { return holdings{shards: map[dht.Shard]*shard{}} }

// shard is this node's part of a shard, as a replica or as a learner.
type shard struct {
	id      dht.Shard
	cfg     *roster.Config
	records map[dht.Key]*record.Record
	floor   dht.Version // removed records up to this stamp are forgotten
	seq     uint64      // of the last record stamped in this epoch
	turns   map[dht.Key]*turn
	replies replyCache
	readers []job   // wait for the next round of confirmations
	round   *flight // the round under way
	learn   *learner
	session learnerSession // in which this node is the learner
	marked  bool           // the disk has the marker with this incarnation
	over    bool           // split, or given up
	home    bool
	asking  bool
	watched map[dht.Key][]*watcher
}

// learnerSession is a session of a learner, in an epoch.
type learnerSession struct{ session, epoch uint64 }

// epoch returns 0 for a shard this node gave up.
func (sh *shard) epoch() uint64 {
	if sh.over {
		return 0
	}
	return sh.cfg.Epoch
}

func (s *Store) open(id dht.Shard, c *roster.Config) *shard {
	sh := &shard{id: id, cfg: c, records: map[dht.Key]*record.Record{}, turns: map[dht.Key]*turn{}}
	s.hold.shards[id] = sh
	return sh
}

// held returns the shards of this node, by number.
func (s *Store) held() []*shard {
	all := make([]*shard, 0, len(s.hold.shards))
	for _, sh := range s.hold.shards { // any order
		all = append(all, sh)
	}
	slices.SortFunc(all, func(a, b *shard) int { return int(a.id) - int(b.id) })
	return all
}

// mark logs the incarnation under which this node holds a shard.
func (s *Store) mark(id dht.Shard) {
	s.log(markerKey(id), varint.AppendUvarints(nil, s.self.Incarnation))
}

// reconfigure applies a new roster to the shards of this node.
func (s *Store) reconfigure(old, r *roster.Roster) {
	if old != nil {
		for d := old.Depth; d < r.Depth; d++ {
			s.splitShards()
		}
	}
	s.splitImages(r.Depth)
	if old != nil && old.Depth > r.Depth {
		// forceNew made this roster on a node that knew of no shard that deep.
		for _, sh := range s.held() {
			s.redirect(s.drain(sh))
			s.dismiss(sh)
			s.giveUp(sh, false)
		}
	}
	for i, c := range r.Shards {
		if old != nil && old.Depth == r.Depth && old.Shards[i] == c {
			continue
		}
		id := r.ShardAt(i)
		sh := s.hold.shards[id]
		if sh == nil && c.Has(s.self) {
			sh = s.open(id, &roster.Config{})
			s.takeImages(sh)
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
			s.catchUp(sh)
		}
		return
	}
	jobs := s.drain(sh)
	wasHome := sh.home
	sh.home = c.Primary() == s.self
	sh.seq, sh.round, sh.floor, sh.replies = 0, nil, dht.Version{}, replyCache{}
	s.dismiss(sh)
	if wasHome != sh.home {
		s.out.Homes = append(s.out.Homes, HomeChange{sh.id, sh.home})
		s.redirectWatchers(sh)
	}
	s.noteChange(sh, was, c)
	if !c.Has(s.self) {
		s.redirect(jobs)
		s.giveUp(sh, c.Learner == s.self)
		return
	}
	sh.session = learnerSession{}
	if !sh.marked {
		sh.marked = true
		s.mark(sh.id)
	}
	if sh.home {
		s.rememberRemoved(sh)
		s.catchUp(sh)
	}
	if sh.home && wasHome && c.Epoch == was.Epoch+1 {
		for _, j := range jobs {
			j.epoch = c.Epoch
			s.submit(sh, j)
		}
		return
	}
	s.redirect(jobs)
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

// giveUp drops a shard that other nodes hold now. If this node is now the learner, the
// shard stays, to receive the primary's records.
func (s *Store) giveUp(sh *shard, learning bool) {
	s.wipe(sh)
	if !learning {
		sh.over = true
		delete(s.hold.shards, sh.id)
	}
}

// wipe drops the records of a shard, on the disk too.
func (s *Store) wipe(sh *shard) {
	for _, k := range sh.keys() {
		s.log(recordKey+string(k), nil)
	}
	if sh.marked {
		sh.marked = false
		s.log(markerKey(sh.id), nil)
	}
	clear(sh.records)
	sh.session, sh.floor = learnerSession{}, dht.Version{}
}

// keys returns the keys of the records, in order.
func (sh *shard) keys() []dht.Key {
	keys := make([]dht.Key, 0, len(sh.records))
	for k := range sh.records { // any order
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// splitShards splits each shard of this node in two. A learner keeps the records learned
// so far: the change that splits a shard may make the learner a replica of the halves.
func (s *Store) splitShards() {
	for _, sh := range s.held() {
		jobs := s.drain(sh)
		s.dismiss(sh)
		delete(s.hold.shards, sh.id)
		if !sh.cfg.Has(s.self) && (sh.cfg.Learner != s.self || mutantSplitUnlearns) {
			s.wipe(sh)
			sh.over = true
			continue
		}
		for side := range dht.Shard(2) {
			half := s.open(2*sh.id+side, sh.cfg)
			half.home, half.marked = sh.home, sh.marked
			if half.marked {
				s.mark(half.id)
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
			s.log(markerKey(sh.id), nil)
		}
		s.redirectWatchers(sh)
		if sh.home {
			s.out.Homes = append(s.out.Homes, HomeChange{sh.id, false}, HomeChange{2 * sh.id, true}, HomeChange{2*sh.id + 1, true})
		}
		sh.over = true
	}
}

// verdict is a replica's answer to an item of the primary.
type verdict uint8

const (
	held    verdict = iota // the item is applied
	ended                  // the item's epoch is over
	waiting                // this node cannot apply the item now
)

// onReplicate handles the items of a primary, as a replica or learner.
func (s *Store) onReplicate(p *peer, m *message.Replicate) {
	a := message.BatchAck{Number: m.Batch}
	for i := range m.Items {
		switch s.take(p, &m.Items[i], m.Roster) {
		case ended:
			a.Over = append(a.Over, uint32(i))
		case waiting:
			return // the primary will send it again
		}
	}
	if len(a.Over) > 0 {
		s.tell(p)
	}
	if m.Durable && s.disk.logged > s.disk.synced {
		s.send(p, &message.Ack{Batches: []message.BatchAck{a}}, s.disk.logged)
		return
	}
	p.acks = append(p.acks, a)
	s.touch(p)
}

// take applies an item; known is the epoch of p's roster.
func (s *Store) take(p *peer, it *message.Item, known uint64) verdict {
	c, sh := s.roster.Config(it.Shard), s.hold.shards[it.Shard]
	switch {
	case mutantNoFence && c != nil && sh != nil && it.Epoch < c.Epoch:
	case c == nil || it.Epoch < c.Epoch || it.Epoch == c.Epoch && c.Primary() != p.replica():
		return ended
	case it.Epoch > c.Epoch:
		return waiting
	case it.Session != 0 && c.Has(s.self) || it.Session == 0 && !c.Has(s.self):
		return ended
	case it.Session != 0 && c.Learner != s.self:
		// The item is meant for an earlier incarnation of this node, which may have been
		// admitted, or belongs to a plan not yet known here.
		if known > s.roster.Epoch {
			return waiting
		}
		return ended
	case s.disk.reason != "" && it.What != message.ItemConfirm:
		return waiting
	case it.Session != 0:
		if sh = s.learning(it.Shard, c, it.Session); sh == nil {
			return ended
		}
	}
	switch it.What {
	case message.ItemRecord:
		s.keep(sh, it.Key, it.Rec)
	case message.ItemDrop:
		if r := sh.records[it.Key]; r != nil && r.Stamp == it.Stamp {
			s.forget(sh, it.Key, it.Stamp)
		}
	}
	return held
}

// keep stores a version of a record, unless this node has a newer version.
func (s *Store) keep(sh *shard, k dht.Key, r *record.Record) {
	old := sh.records[k]
	if old != nil && !old.Stamp.Less(r.Stamp) || old == nil && !sh.floor.Less(r.Stamp) {
		return
	}
	sh.records[k] = r
	s.log(recordKey+string(k), r.Image)
}

// forget drops a removed record for good. The floor refuses late items sent before the
// removal.
func (s *Store) forget(sh *shard, k dht.Key, stamp dht.Version) {
	delete(sh.records, k)
	if sh.floor.Less(stamp) {
		sh.floor = stamp
	}
	s.log(recordKey+string(k), nil)
}

// learning returns the shard, as learned in a session; nil if the session is older than
// the current session.
func (s *Store) learning(id dht.Shard, c *roster.Config, session uint64) *shard {
	sh := s.hold.shards[id]
	if sh == nil {
		sh = s.open(id, c)
	}
	if sh.session.epoch == c.Epoch && session < sh.session.session {
		return nil
	}
	if sh.session.epoch != c.Epoch || session > sh.session.session {
		s.wipe(sh)
		s.dropImages(id)
		sh.session, sh.marked = learnerSession{session, c.Epoch}, true
		s.mark(id)
	}
	return sh
}
