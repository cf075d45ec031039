package dht

import (
	"cmp"
	"slices"
	"time"
)

const (
	// RecoverAfter is how long a shard of which all replicas are gone waits
	// for the disks of all of them; then any one will do, unless damage makes
	// it unclear whether that disk has anything of the shard.
	RecoverAfter = 15 * time.Second

	offerEvery   = time.Second
	recoverEvery = 3 * time.Second // until another node is told to recover a shard
	fetchEvery   = 500 * time.Millisecond
	syncPoll     = 20 * time.Millisecond
)

// recovery is how lost shards come back from the disks of those who held them
// last: here as the steward, and as the one who was told to.
type recovery struct {
	offers map[Shard]*offered
	runs   map[Shard]*restoring
	losing *losing // the AcceptLoss that is on its way
}

// offered is what the steward knows of a lost shard.
type offered struct {
	epoch uint64
	since time.Duration // the first offered, or the last one of those who had went
	from  []Replica     // who has a disk of it, as it is now
	sound []Replica     // of them, those whose disks say so themselves
	tried int
	at    time.Duration // of the last order
	last  bool          // somebody has accepted that there is no more of it
}

// restoring is a shard that this node puts together.
type restoring struct {
	shard  Shard
	epoch  uint64
	from   []Replica // not asked yet; the first is being asked
	after  Key
	ready  bool
	number uint64
}

func newRecovery() recovery {
	return recovery{offers: map[Shard]*offered{}, runs: map[Shard]*restoring{}}
}

// offerImages tells the steward of what this node's disk has of shards whose
// last replicas include an earlier incarnation of it; and drops the rest.
func (s *Store) offerImages() {
	d := &s.disk
	if s.roster == nil || len(d.images) == 0 || d.timed {
		return
	}
	m := &msgOffer{}
	for _, id := range s.imaged() {
		c := s.roster.config(id)
		if c == nil {
			continue
		}
		old, ok := d.images[id].replica(s.self.Name, c)
		if !ok {
			// A roster in which this life is a member is newer than all that the
			// lives before knew. An older one may not know yet what they held.
			if s.roster.has(s.self) && s.hold.shards[id] == nil && !s.lost(c) {
				s.dropImages(id) // others hold it, and newer
			}
			continue
		}
		m.offers = append(m.offers, wireOffer{id, c.epoch, old.Incarnation, d.images[id].guess})
	}
	if len(m.offers) == 0 {
		return
	}
	d.timed = true
	s.in(offerEvery, timedFunc(func(s *Store) {
		d.timed = false
		s.offerImages()
	}))
	if to := s.acting(); to == s.self.Name {
		s.onOffer(s.peers.me, m)
	} else if p := s.peers.get(to); p != nil {
		for o := range slices.Chunk(m.offers, 2048) {
			s.send(p, &msgOffer{offers: slices.Clone(o)}, 0)
		}
	}
}

// onOffer collects, as the steward, who can bring a shard back.
func (s *Store) onOffer(p *peer, m *msgOffer) {
	for _, w := range m.offers {
		c := s.roster.config(w.shard)
		if c == nil || c.epoch != w.epoch || !c.has(Replica{p.name, w.incarnation}) || w.incarnation >= p.inc {
			continue
		}
		o := s.disk.recover.offers[w.shard]
		if o == nil || o.epoch != w.epoch {
			o = &offered{epoch: w.epoch, since: s.now}
			s.disk.recover.offers[w.shard] = o
		}
		of := func(r Replica) bool { return r.Name == p.name }
		o.from = append(slices.DeleteFunc(o.from, of), p.replica())
		o.sound = slices.DeleteFunc(o.sound, of)
		if !w.guess {
			o.sound = append(o.sound, p.replica())
		}
		slices.SortFunc(o.from, func(a, b Replica) int { return cmp.Compare(a.Name, b.Name) })
		s.command(w.shard, o)
	}
}

// command tells one of those who offered to bring a shard back, when all have
// offered or the time is up.
func (s *Store) command(id Shard, o *offered) {
	c := s.roster.config(id)
	if c == nil || c.epoch != o.epoch {
		delete(s.disk.recover.offers, id)
		return
	}
	// Who went after it had offered most likely comes again, and its disk may
	// have what those of the others have not.
	n := len(o.from)
	o.from = slices.DeleteFunc(o.from, func(r Replica) bool { return s.standing(r) == over })
	if len(o.from) < n {
		o.since = s.now
	}
	o.sound = slices.DeleteFunc(o.sound, func(r Replica) bool { return !slices.Contains(o.from, r) })
	ready := len(o.from) == len(c.replicas) || len(o.sound) > 0 && s.now >= o.since+RecoverAfter || o.last && len(o.from) > 0
	if !ready || !s.lost(c) || o.tried > 0 && s.now < o.at+recoverEvery {
		return // they offer again and again
	}
	who := o.from[o.tried%len(o.from)]
	o.tried++
	o.at = s.now
	m := &msgRecover{shard: id, epoch: o.epoch, from: slices.Clone(o.from)}
	if who == s.self {
		s.onRecover(s.peers.me, m)
	} else {
		s.send(s.peers.know(who.Name), m, 0)
	}
}

// salvage has a shard that is given up put together from the disks that were
// offered; false if there are none, and it begins empty.
func (s *Store) salvage(c change) bool {
	o := s.disk.recover.offers[c.shard]
	if o == nil || o.epoch != c.epoch {
		return false
	}
	o.last = true
	s.command(c.shard, o)
	return len(o.from) > 0
}

// onRecover begins to put a shard together from the disks of others and of
// this node.
func (s *Store) onRecover(_ *peer, m *msgRecover) {
	im := s.disk.images[m.shard]
	c := s.roster.config(m.shard)
	if im == nil || c == nil || c.epoch != m.epoch || s.disk.reason != "" {
		return
	}
	rec := &s.disk.recover
	if r := rec.runs[m.shard]; r != nil && r.epoch == m.epoch {
		return
	}
	r := &restoring{shard: m.shard, epoch: m.epoch, from: without(m.from, s.self)}
	rec.runs[m.shard] = r
	s.note(StoreNote{Kind: NoteRecovering, Shard: m.shard, Epoch: m.epoch, N: len(m.from)})
	r.due(s)
}

// due fetches on; when everything is here and on the disk it asks for the
// shard.
func (r *restoring) due(s *Store) {
	c := s.roster.config(r.shard)
	rec := &s.disk.recover
	if rec.runs[r.shard] != r {
		return
	}
	if c == nil || c.epoch != r.epoch || s.disk.images[r.shard] == nil {
		delete(rec.runs, r.shard)
		return
	}
	if len(r.from) > 0 && s.standing(r.from[0]) == over {
		// Without its disk this node might speak for less than was acknowledged.
		// Whether to wait for it is for the steward to say.
		delete(rec.runs, r.shard)
		return
	}
	switch {
	case len(r.from) > 0:
		s.send(s.peers.know(r.from[0].Name), &msgFetch{shard: r.shard, epoch: r.epoch, after: r.after}, 0)
	case !r.ready:
		// The disk speaks for this incarnation too from here on.
		r.ready = true
		im := s.disk.images[r.shard]
		if im.incarnation != s.self.Incarnation {
			im.older = slices.Insert(im.older, 0, im.incarnation)
			im.older = im.older[:min(len(im.older), olderMax)]
			im.incarnation = s.self.Incarnation
		}
		im.guess = false // what the others have is here too
		s.log(markerKey(r.shard), im.marker())
		r.number = s.disk.logged
	}
	if r.ready && r.number > s.disk.synced {
		s.in(syncPoll, r)
		return
	}
	if r.ready {
		s.ask(change{changeRecovered, r.shard, r.epoch, s.self})
	}
	s.in(fetchEvery, r)
}

// onFetch sends what this node's disk has of a lost shard.
func (s *Store) onFetch(p *peer, m *msgFetch) {
	im := s.disk.images[m.shard]
	c := s.roster.config(m.shard)
	if c == nil || c.epoch != m.epoch {
		return
	}
	out := &msgImages{shard: m.shard, epoch: m.epoch, after: m.after}
	if im == nil {
		s.send(p, out, 0) // it began to learn the shard anew before the others were lost
		return
	}
	if _, ok := im.replica(s.self.Name, c); !ok {
		return
	}
	size := 0
	for _, k := range im.keys() {
		if k <= m.after && m.after != "" {
			continue
		}
		if size > pieceBytes || len(out.items) == pieceItems {
			out.more = true
			break
		}
		out.items = append(out.items, keyed{k, im.records[k]})
		size += len(k) + len(im.records[k].image)
	}
	s.send(p, out, 0)
}

// onImages merges: of each record the highest version counts.
func (s *Store) onImages(p *peer, m *msgImages) {
	r := s.disk.recover.runs[m.shard]
	im := s.disk.images[m.shard]
	if r == nil || im == nil || r.epoch != m.epoch || len(r.from) == 0 || r.from[0] != p.replica() || r.after != m.after || s.disk.reason != "" {
		return
	}
	for _, x := range m.items {
		if old := im.records[x.key]; old == nil || old.stamp.Less(x.rec.stamp) {
			im.records[x.key] = x.rec
			s.log(recordKey+string(x.key), x.rec.image)
		}
		r.after = x.key
	}
	if !m.more {
		r.from, r.after = r.from[1:], ""
	}
	n := *r // a timer of the old one finds itself replaced
	s.disk.recover.runs[m.shard] = &n
	n.due(s)
}

// takeImages gives a shard that this node holds alone, after a loss, what the
// disk has of it.
func (s *Store) takeImages(sh *shard) {
	im := s.disk.images[sh.id]
	c := s.roster.config(sh.id)
	// It may have missed the very config that was recovered: what its disk says
	// of this incarnation is that it asked for the shard.
	if im == nil || im.incarnation != s.self.Incarnation && (!c.recovered || c.primary() != s.self) {
		s.dropImages(sh.id)
		if c.recovered {
			s.note(StoreNote{Kind: NoteLossTaken, Shard: sh.id, Epoch: c.epoch})
		}
		return
	}
	delete(s.disk.images, sh.id)
	delete(s.disk.recover.runs, sh.id)
	sh.records = im.records
	s.note(StoreNote{Kind: NoteRecovered, Shard: sh.id, Epoch: c.epoch, N: len(sh.records)})
}
