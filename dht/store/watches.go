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
	*input
	peers    *peers
	view     *view
	network  *network
	watchers *watchers

	mine  map[uint64]*watch
	byNum map[uint64]*watch
	next  uint64
	timed bool // the timer for repeating watches runs
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
	s.watches.register(v)
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
	s.watches.watchAt(v, true)
}

// register registers a watch at the home, and repeats until the home answers.
func (vs *watches) register(v *watch) {
	v.known = false
	vs.watchAt(v, false)
	if !vs.timed {
		vs.timed = true
		vs.in(watchEvery, vs.registerAll)
	}
}

func (vs *watches) registerAll() {
	vs.timed = false
	for _, v := range vs.byNumber() {
		if !v.known {
			vs.register(v)
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

func (vs *watches) watchAt(v *watch, end bool) {
	if vs.view.roster == nil {
		return
	}
	v.shard = v.at.Shard(vs.view.roster.Depth)
	c := vs.view.roster.Config(v.shard)
	v.epoch = c.Epoch
	w := message.WatchedKey{Number: v.number, Shard: v.shard, Epoch: v.epoch, Key: v.key, Version: v.version, End: end}
	if c.Primary() == vs.self {
		vs.watchers.watch(vs.peers.me, w)
		return
	}
	if p := vs.peers.know(c.Primary().Name); vs.view.standing(c.Primary()) != roster.Over {
		vs.network.send(p, &message.Watch{Watches: []message.WatchedKey{w}}, 0)
	}
}

// rewatch registers watches at their new homes after a change of the roster.
func (vs *watches) rewatch() {
	for _, v := range vs.byNumber() {
		if c := vs.view.roster.Config(v.shard); c == nil || c.Epoch != v.epoch {
			vs.register(v)
		}
	}
}

// onChanged handles changes of watched records.
func (vs *watches) onChanged(p *peer, m *message.Changed) {
	ack := &message.Seen{}
	for _, c := range m.Changes {
		v := vs.byNum[c.Number]
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
			vs.out.Results = append(vs.out.Results, Answer{Tag: v.tag, Watch: true, Result: c.Result})
		}
	}
	if len(ack.Seen) == 0 {
		return
	}
	if p == vs.peers.me {
		vs.watchers.onSeen(p, ack)
		return
	}
	vs.network.send(p, ack, 0)
}

// takeOver continues the watches of the old life, from the versions shown last.
func (vs *watches) takeOver(old *watches) {
	for _, v := range old.byNumber() {
		vs.next++
		w := &watch{number: vs.next, tag: v.tag, key: v.key, at: v.at, version: v.version, absent: v.absent}
		vs.mine[w.tag], vs.byNum[w.number] = w, w
		vs.register(w)
	}
}

// firstWatch returns the number below the watches of a life. A home may still have a watch
// of an earlier life, and messages about the old watch must not be mistaken for messages
// about another watch.
func firstWatch(incarnation uint64) uint64 { return filch.Mix(incarnation) >> 16 }
