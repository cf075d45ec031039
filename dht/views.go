package dht

import (
	"cmp"
	"slices"
	"time"
)

const viewEvery = 500 * time.Millisecond // until a watch or a change is acknowledged

// views are the watches of this node's users, by tag.
type views struct {
	mine  map[uint64]*view
	byNum map[uint64]*view
	next  uint64
	timed bool // the timer that repeats watches runs
	shown bool // the one that repeats changes runs
}

// view is one watch of this node.
type view struct {
	number  uint64
	tag     uint64
	key     Key
	at      point
	version Version // last shown
	shard   Shard
	epoch   uint64
	known   bool // the home of that epoch has it
	absent  bool // as it was shown last
}

// viewer is a watch as its home has it.
type viewer struct {
	p       *peer
	number  uint64
	key     Key
	shard   Shard
	epoch   uint64
	version Version // the last one that it is known to have seen
	told    Version
	greet   bool // it is to be answered, changed or not
	looking bool // a lookup for that is under way
}

// newViews numbers watches from a place of its own in each life of a node: its
// home may still have one of an earlier life, and what is said of that one must
// not be taken for a word about another.
func newViews(incarnation uint64) views {
	return views{mine: map[uint64]*view{}, byNum: map[uint64]*view{}, next: mix(incarnation) >> 16}
}

// Watch tells of changes of a record from version from on, each time it
// changed; quick changes in a row may be told as one.
func (s *Store) Watch(now time.Duration, tag uint64, k Key, from Version, out *StoreOut) {
	s.begin(now, out)
	defer s.end()
	s.views.next++
	if s.views.mine[tag] != nil || k == "" || len(k) > MaxKey {
		s.out.Results = append(s.out.Results, StoreResult{Tag: tag, Watch: true, Result: Result{Outcome: Invalid, Err: "a watch of that tag runs, or its key is too long"}})
		return
	}
	v := &view{number: s.views.next, tag: tag, key: k, at: pointOf(k), version: from}
	s.views.mine[tag], s.views.byNum[v.number] = v, v
	s.register(v)
}

// Unwatch ends a Watch.
func (s *Store) Unwatch(now time.Duration, tag uint64, out *StoreOut) {
	s.begin(now, out)
	defer s.end()
	v := s.views.mine[tag]
	if v == nil {
		return
	}
	delete(s.views.mine, tag)
	delete(s.views.byNum, v.number)
	s.watchAt(v, true)
}

// register tells the home of a watch; until it answered, again and again.
func (s *Store) register(v *view) {
	v.known = false
	s.watchAt(v, false)
	if !s.views.timed {
		s.views.timed = true
		s.in(viewEvery, timedFunc((*Store).registerAll))
	}
}

func (s *Store) registerAll() {
	s.views.timed = false
	for _, v := range s.views.byNumber() {
		if !v.known {
			s.register(v)
		}
	}
}

func (vs *views) byNumber() []*view {
	all := make([]*view, 0, len(vs.byNum))
	for _, v := range vs.byNum { // any order
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b *view) int { return cmp.Compare(a.number, b.number) })
	return all
}

func (s *Store) watchAt(v *view, end bool) {
	if s.roster == nil {
		return
	}
	v.shard = v.at.shard(s.roster.depth)
	c := s.roster.config(v.shard)
	v.epoch = c.epoch
	w := wireWatch{v.number, v.shard, v.epoch, v.key, v.version, end}
	if c.primary() == s.self {
		s.watchHere(s.peers.me, w)
		return
	}
	if p := s.peers.know(c.primary().Name); s.standing(c.primary()) != over {
		s.send(p, &msgWatch{watches: []wireWatch{w}}, 0)
	}
}

// rewatch takes watches to where their homes are in a new roster.
func (s *Store) rewatch() {
	for _, v := range s.views.byNumber() {
		if c := s.roster.config(v.shard); c == nil || c.epoch != v.epoch {
			s.register(v)
		}
	}
}

func (s *Store) onWatch(p *peer, m *msgWatch) {
	for _, w := range m.watches {
		s.watchHere(p, w)
	}
}

// watchHere takes a watch as its home. It begins with a consistent lookup.
func (s *Store) watchHere(p *peer, w wireWatch) {
	sh := s.hold.shards[w.shard]
	if sh == nil || !sh.home || sh.cfg.epoch != w.epoch {
		if !w.end {
			s.show(p, wireChange{w.number, w.shard, w.epoch, w.key, Result{Outcome: outcomeMoved}})
		}
		return
	}
	all := sh.watched[w.key]
	i := slices.IndexFunc(all, func(v *viewer) bool { return v.p == p && v.number == w.number })
	if w.end {
		if i >= 0 {
			sh.drop(w.key, i)
		}
		return
	}
	if i >= 0 {
		all[i].greet, all[i].epoch = true, w.epoch
	} else {
		if sh.watched == nil {
			sh.watched = map[Key][]*viewer{}
		}
		i = len(all)
		all = append(all, &viewer{p: p, number: w.number, key: w.key, shard: w.shard, epoch: w.epoch, version: w.version, told: w.version, greet: true})
		sh.watched[w.key] = all
	}
	if v := sh.watched[w.key][i]; !v.looking { // it asks again and again, for as long as a replica is missing
		v.looking = true
		op := &Op{Code: OpLookup, Key: w.key, Consistent: true}
		s.submit(sh, job{op: op, watch: v})
	}
}

func (sh *shard) drop(k Key, i int) {
	sh.watched[k] = slices.Delete(sh.watched[k], i, i+1)
	if len(sh.watched[k]) == 0 {
		delete(sh.watched, k)
	}
}

// viewed answers who began a watch, if the home could look its record up. If it
// could not, for its disk takes nothing or the shard moved, the watch is not
// known yet, and asks again in its time.
func (s *Store) viewed(v *viewer, res Result) {
	v.looking = false
	if res.Outcome != Done && res.Outcome != Absent || !v.greet {
		return
	}
	v.greet = false
	if sh := s.hold.shards[v.shard]; sh != nil && res.Outcome == Absent {
		if r := sh.records[v.key]; r != nil {
			res.Version = r.version // of the removal
		}
	}
	v.told = res.Version
	s.show(v.p, wireChange{v.number, v.shard, v.epoch, v.key, res})
	s.keepShowing()
}

// tellViewers tells those who watch a key that it changed.
func (s *Store) tellViewers(sh *shard, k Key) {
	for _, v := range sh.watched[k] {
		res := sh.show(k, false)
		if r := sh.records[k]; r != nil {
			res.Version = r.version // of the removal, if it is one
		}
		v.told = res.Version
		s.show(v.p, wireChange{v.number, v.shard, v.epoch, v.key, res})
		s.keepShowing()
	}
}

// keepShowing repeats changes that watchers did not acknowledge.
func (s *Store) keepShowing() {
	if s.views.shown {
		return
	}
	s.views.shown = true
	s.in(viewEvery, timedFunc(func(s *Store) {
		s.views.shown = false
		for _, sh := range s.held() {
			for _, k := range sh.watchedKeys() {
				for _, v := range sh.watched[k] {
					if v.version == v.told || v.greet {
						continue
					}
					res := sh.show(k, false)
					if r := sh.records[k]; r != nil {
						res.Version = r.version
					}
					v.told = res.Version
					s.show(v.p, wireChange{v.number, v.shard, v.epoch, v.key, res})
					s.keepShowing()
				}
			}
		}
	}))
}

func (sh *shard) watchedKeys() []Key {
	keys := make([]Key, 0, len(sh.watched))
	for k := range sh.watched { // any order
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (s *Store) show(p *peer, c wireChange) {
	m := &msgChanged{changes: []wireChange{c}}
	if p == s.peers.me {
		s.onChanged(p, m)
		return
	}
	s.send(p, m, 0)
}

// onChanged takes the news of watches.
func (s *Store) onChanged(p *peer, m *msgChanged) {
	ack := &msgSeen{}
	for _, c := range m.changes {
		v := s.views.byNum[c.number]
		switch {
		case v == nil || v.key != c.key: // one that ended, or of another life
			ack.seen = append(ack.seen, wireSeen{c.number, c.shard, c.key, c.result.Version, true})
			continue
		case c.result.Outcome == outcomeMoved:
			continue // the roster that says where to is on its way
		case c.epoch != v.epoch:
			continue
		}
		// The answer to a watch that begins in this epoch may show less than was
		// shown before: a removal that is forgotten has no version, and where all
		// replicas died what was on no disk is lost.
		back := !v.known && c.result.Version.Less(v.version)
		v.known = true
		ack.seen = append(ack.seen, wireSeen{c.number, c.shard, c.key, c.result.Version, false})
		if !back && !v.version.Less(c.result.Version) {
			continue
		}
		still := v.absent && back
		v.version, v.absent = c.result.Version, c.result.Outcome == Absent
		if !still || !v.absent {
			s.out.Results = append(s.out.Results, StoreResult{Tag: v.tag, Watch: true, Result: c.result})
		}
	}
	if len(ack.seen) == 0 {
		return
	}
	if p == s.peers.me {
		s.onSeen(p, ack)
		return
	}
	s.send(p, ack, 0)
}

func (s *Store) onSeen(p *peer, m *msgSeen) {
	for _, x := range m.seen {
		sh := s.hold.shards[x.shard]
		if sh == nil {
			continue
		}
		i := slices.IndexFunc(sh.watched[x.key], func(v *viewer) bool { return v.p == p && v.number == x.number })
		switch {
		case i < 0:
		case x.end:
			sh.drop(x.key, i)
		case sh.watched[x.key][i].told == x.version:
			sh.watched[x.key][i].version = x.version
		}
	}
}

// sendViewersOn tells those who watch a shard that it has another home.
func (s *Store) sendViewersOn(sh *shard) {
	for _, k := range sh.watchedKeys() {
		for _, v := range sh.watched[k] {
			s.show(v.p, wireChange{v.number, v.shard, v.epoch, v.key, Result{Outcome: outcomeMoved}})
		}
	}
	sh.watched = nil
}

// unwatchAll forgets the watches of a node that is gone.
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
