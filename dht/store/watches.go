package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
)

const watchEvery = 500 * time.Millisecond // until a watch or a change is acknowledged

// watches are the watches of this node's users, by tag.
type watches struct {
	mine  map[uint64]*watch
	byNum map[uint64]*watch
	next  uint64
	timed bool // the timer for repeating watches runs
	shown bool // the timer for repeating changes runs
}

// watch is a watch of this node.
type watch struct {
	number  uint64
	tag     uint64
	key     dht.Key
	at      dht.Point
	version dht.Version // last shown
	shard   dht.Shard
	epoch   uint64
	known   bool // the home of epoch has the watch
	absent  bool // the record was absent when last shown
}

// watcher is a watch at the record's home.
type watcher struct {
	p       *peer
	number  uint64
	key     dht.Key
	shard   dht.Shard
	epoch   uint64
	version dht.Version // the last version known to be seen
	told    dht.Version
	greet   bool // an answer is due, changed or not
	looking bool // the lookup for the answer is under way
}

// newWatches numbers the watches of each life of a node from a different start. A home
// may still have a watch of an earlier life, and messages about the old watch must not be
// mistaken for messages about another watch.
func newWatches(incarnation uint64) watches {
	return watches{mine: map[uint64]*watch{}, byNum: map[uint64]*watch{}, next: filch.Mix(incarnation) >> 16}
}

// Watch reports changes of a record from version from on. Quick changes in a row may be
// reported together.
func (s *Store) Watch(now time.Duration, tag uint64, k dht.Key, from dht.Version, out *Out) {
	s.begin(now, out)
	defer s.end()
	s.watches.next++
	if s.watches.mine[tag] != nil || k == "" || len(k) > dht.MaxKey {
		s.out.Results = append(s.out.Results, Answer{Tag: tag, Watch: true, Result: dht.Result{Outcome: dht.Invalid, Err: "a watch of that tag runs, or its key is too long"}})
		return
	}
	v := &watch{number: s.watches.next, tag: tag, key: k, at: dht.PointOf(k), version: from}
	s.watches.mine[tag], s.watches.byNum[v.number] = v, v
	s.register(v)
}

// Unwatch ends a Watch.
func (s *Store) Unwatch(now time.Duration, tag uint64, out *Out) {
	s.begin(now, out)
	defer s.end()
	v := s.watches.mine[tag]
	if v == nil {
		return
	}
	delete(s.watches.mine, tag)
	delete(s.watches.byNum, v.number)
	s.watchAt(v, true)
}

// register registers a watch at the home, and repeats until the home answers.
func (s *Store) register(v *watch) {
	v.known = false
	s.watchAt(v, false)
	if !s.watches.timed {
		s.watches.timed = true
		s.in(watchEvery, timedFunc((*Store).registerAll))
	}
}

func (s *Store) registerAll() {
	s.watches.timed = false
	for _, v := range s.watches.byNumber() {
		if !v.known {
			s.register(v)
		}
	}
}

func (vs *watches) byNumber() []*watch {
	all := make([]*watch, 0, len(vs.byNum))
	for _, v := range vs.byNum { // any order
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b *watch) int { return cmp.Compare(a.number, b.number) })
	return all
}

func (s *Store) watchAt(v *watch, end bool) {
	if s.roster == nil {
		return
	}
	v.shard = v.at.Shard(s.roster.Depth)
	c := s.roster.Config(v.shard)
	v.epoch = c.Epoch
	w := message.WatchedKey{Number: v.number, Shard: v.shard, Epoch: v.epoch, Key: v.key, Version: v.version, End: end}
	if c.Primary() == s.self {
		s.watchHere(s.peers.me, w)
		return
	}
	if p := s.peers.know(c.Primary().Name); s.standing(c.Primary()) != roster.Over {
		s.send(p, &message.Watch{Watches: []message.WatchedKey{w}}, 0)
	}
}

// rewatch registers watches at their new homes after a change of the roster.
func (s *Store) rewatch() {
	for _, v := range s.watches.byNumber() {
		if c := s.roster.Config(v.shard); c == nil || c.Epoch != v.epoch {
			s.register(v)
		}
	}
}

func (s *Store) onWatch(p *peer, m *message.Watch) {
	for _, w := range m.Watches {
		s.watchHere(p, w)
	}
}

// watchHere registers a watch at this node, its home. A watch begins with a consistent
// lookup.
func (s *Store) watchHere(p *peer, w message.WatchedKey) {
	sh := s.hold.shards[w.Shard]
	if sh == nil || !sh.home || sh.cfg.Epoch != w.Epoch {
		if !w.End {
			s.show(p, message.Change{Number: w.Number, Shard: w.Shard, Epoch: w.Epoch, Key: w.Key, Result: dht.Result{Outcome: dht.OutcomeMoved}})
		}
		return
	}
	all := sh.watched[w.Key]
	i := slices.IndexFunc(all, func(v *watcher) bool { return v.p == p && v.number == w.Number })
	if w.End {
		if i >= 0 {
			sh.drop(w.Key, i)
		}
		return
	}
	if i >= 0 {
		all[i].greet, all[i].epoch = true, w.Epoch
	} else {
		if sh.watched == nil {
			sh.watched = map[dht.Key][]*watcher{}
		}
		i = len(all)
		all = append(all, &watcher{p: p, number: w.Number, key: w.Key, shard: w.Shard, epoch: w.Epoch, version: w.Version, told: w.Version, greet: true})
		sh.watched[w.Key] = all
	}
	// While a replica is missing the watching node asks again and again.
	if v := sh.watched[w.Key][i]; !v.looking {
		v.looking = true
		op := &dht.Op{Code: dht.OpLookup, Key: w.Key, Consistent: true}
		s.submit(sh, job{op: op, watch: v})
	}
}

func (sh *shard) drop(k dht.Key, i int) {
	sh.watched[k] = slices.Delete(sh.watched[k], i, i+1)
	if len(sh.watched[k]) == 0 {
		delete(sh.watched, k)
	}
}

// onLookedUp answers a new watch, if the home could look up the record. If the lookup
// failed, because the disk accepts no entries or the shard moved, the watch stays
// unknown, and the watching node asks again later.
func (s *Store) onLookedUp(v *watcher, res dht.Result) {
	v.looking = false
	if res.Outcome != dht.Done && res.Outcome != dht.Absent || !v.greet {
		return
	}
	v.greet = false
	if sh := s.hold.shards[v.shard]; sh != nil && res.Outcome == dht.Absent {
		if r := sh.records[v.key]; r != nil {
			res.Version = r.Version // of the removal
		}
	}
	v.told = res.Version
	s.show(v.p, message.Change{Number: v.number, Shard: v.shard, Epoch: v.epoch, Key: v.key, Result: res})
	s.keepShowing()
}

// tellWatchers sends a changed record to the watchers of the key.
func (s *Store) tellWatchers(sh *shard, k dht.Key) {
	for _, v := range sh.watched[k] {
		res := sh.show(k, false)
		if r := sh.records[k]; r != nil {
			res.Version = r.Version // of the removal, if the record is gone
		}
		v.told = res.Version
		s.show(v.p, message.Change{Number: v.number, Shard: v.shard, Epoch: v.epoch, Key: v.key, Result: res})
		s.keepShowing()
	}
}

// keepShowing repeats changes not acknowledged by watchers.
func (s *Store) keepShowing() {
	if s.watches.shown {
		return
	}
	s.watches.shown = true
	s.in(watchEvery, timedFunc(func(s *Store) {
		s.watches.shown = false
		for _, sh := range s.held() {
			for _, k := range sh.watchedKeys() {
				for _, v := range sh.watched[k] {
					if v.version == v.told || v.greet {
						continue
					}
					res := sh.show(k, false)
					if r := sh.records[k]; r != nil {
						res.Version = r.Version
					}
					v.told = res.Version
					s.show(v.p, message.Change{Number: v.number, Shard: v.shard, Epoch: v.epoch, Key: v.key, Result: res})
					s.keepShowing()
				}
			}
		}
	}))
}

func (sh *shard) watchedKeys() []dht.Key {
	keys := make([]dht.Key, 0, len(sh.watched))
	for k := range sh.watched { // any order
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (s *Store) show(p *peer, c message.Change) {
	m := &message.Changed{Changes: []message.Change{c}}
	if p == s.peers.me {
		s.onChanged(p, m)
		return
	}
	s.send(p, m, 0)
}

// onChanged handles changes of watched records.
func (s *Store) onChanged(p *peer, m *message.Changed) {
	ack := &message.Seen{}
	for _, c := range m.Changes {
		v := s.watches.byNum[c.Number]
		switch {
		case v == nil || v.key != c.Key: // a watch that ended, or of another life
			ack.Seen = append(ack.Seen, message.SeenVersion{Number: c.Number, Shard: c.Shard, Key: c.Key, Version: c.Result.Version, End: true})
			continue
		case c.Result.Outcome == dht.OutcomeMoved:
			continue // the roster with the new home is on its way
		case c.Epoch != v.epoch:
			continue
		}
		// The first answer of a home in this epoch may show less than was shown before: a
		// forgotten removal has no version, and when all replicas died the changes on no
		// disk are lost.
		back := !v.known && c.Result.Version.Less(v.version)
		v.known = true
		ack.Seen = append(ack.Seen, message.SeenVersion{Number: c.Number, Shard: c.Shard, Key: c.Key, Version: c.Result.Version, End: false})
		if !back && !v.version.Less(c.Result.Version) {
			continue
		}
		still := v.absent && back
		v.version, v.absent = c.Result.Version, c.Result.Outcome == dht.Absent
		if !still || !v.absent {
			s.out.Results = append(s.out.Results, Answer{Tag: v.tag, Watch: true, Result: c.Result})
		}
	}
	if len(ack.Seen) == 0 {
		return
	}
	if p == s.peers.me {
		s.onSeen(p, ack)
		return
	}
	s.send(p, ack, 0)
}

func (s *Store) onSeen(p *peer, m *message.Seen) {
	for _, x := range m.Seen {
		sh := s.hold.shards[x.Shard]
		if sh == nil {
			continue
		}
		i := slices.IndexFunc(sh.watched[x.Key], func(v *watcher) bool { return v.p == p && v.number == x.Number })
		switch {
		case i < 0:
		case x.End:
			sh.drop(x.Key, i)
		case sh.watched[x.Key][i].told == x.Version:
			sh.watched[x.Key][i].version = x.Version
		}
	}
}

// redirectWatchers reports the move of a shard's home to the watchers.
func (s *Store) redirectWatchers(sh *shard) {
	for _, k := range sh.watchedKeys() {
		for _, v := range sh.watched[k] {
			s.show(v.p, message.Change{Number: v.number, Shard: v.shard, Epoch: v.epoch, Key: v.key, Result: dht.Result{Outcome: dht.OutcomeMoved}})
		}
	}
	sh.watched = nil
}

// unwatchAll drops the watches of a lost node.
func (s *Store) unwatchAll(p *peer) {
	for _, sh := range s.held() {
		for _, k := range sh.watchedKeys() {
			for i := len(sh.watched[k]) - 1; i >= 0; i-- {
				if sh.watched[k][i].p == p {
					sh.drop(k, i)
				}
			}
		}
	}
}
