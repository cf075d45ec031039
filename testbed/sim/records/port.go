package records

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/dht/store/message"
)

// Port is the store as one process of a node reaches it. It has the methods of
// store.Store; those that tell of disks and messages do nothing.
type Port struct {
	s       *Store
	self    filch.NodeName
	wake    func()
	over    bool // the process has ended
	leaves  bool // no record is to be homed here
	asks    map[uint64]*ask
	asked   uint64
	watches map[uint64]*watch
	inbox   []store.Answer
	moved   bool // other records are homed here than before
}

// ask is an operation that is not answered.
type ask struct {
	p        *Port
	number   uint64
	tag      uint64
	index    int
	op       dht.Op
	deadline time.Duration
	done     bool // it took effect
	result   dht.Result
}

// watch is a record that a process watches.
type watch struct {
	p       *Port
	tag     uint64
	key     dht.Key
	version dht.Version // shown last
	absent  bool        // as it was shown last
	looks   bool        // a word of a change is under way
	over    bool
}

// Open gives a process that begins a port; that of an earlier process of its node
// is closed. Wake is called when the process is to tick soon: in the middle of other
// things, so that it must not tick at once.
func (s *Store) Open(n filch.NodeName, wake func()) *Port {
	p := &Port{s: s, self: n, wake: wake, asks: map[uint64]*ask{}, watches: map[uint64]*watch{}}
	if old := s.ports[n]; old != nil {
		old.Close()
	} else {
		at := placeOf(string(n))
		i, _ := slices.BinarySearchFunc(s.ring, at, place.compare)
		s.ring = slices.Insert(s.ring, i, at)
	}
	s.ports[n] = p
	return p
}

// Close is the end of the process. What it asked for and what is under way takes
// effect all the same.
func (p *Port) Close() {
	p.over = true
	for _, tag := range slices.Sorted(maps.Keys(p.watches)) {
		p.watches[tag].end()
	}
	clear(p.asks)
	p.inbox, p.moved = nil, false
}

// say has the process tick.
func (p *Port) say() {
	if !p.over {
		p.wake()
	}
}

func (p *Port) rehome() {
	if !p.over {
		p.moved = true
		p.say()
	}
}

// Do begins operations.
func (p *Port) Do(now time.Duration, tag uint64, ops []dht.Op, deadline time.Duration, _ *store.Out) {
	for i := range ops {
		p.asked++
		a := &ask{p: p, number: p.asked, tag: tag, index: i, op: ops[i], deadline: deadline - now + p.s.world.Now()}
		p.asks[a.number] = a
		a.try()
	}
}

// try says an operation once. A word that would come after the deadline is not
// waited for.
func (a *ask) try() {
	p, w := a.p, a.p.s.world
	fate := w.Try(p.self)
	if fate == Lost || !w.Reaches(p.self) {
		a.again()
		return
	}
	there := w.Now() + w.Delay(p.self, p.s.Home(a.op.Key))
	if there > a.deadline {
		a.giveUp()
	}
	w.At(there, func() {
		if !w.Reaches(p.self) {
			a.again()
			return
		}
		if !a.done {
			a.done, a.result = true, p.s.perform(&a.op)
		}
		if fate == Silent {
			a.again()
			return
		}
		back := w.Now() + w.Delay(p.self, p.s.Home(a.op.Key))
		if back > a.deadline {
			a.giveUp()
			return
		}
		w.At(back, func() {
			if w.Reaches(p.self) {
				a.answer(a.result)
			} else {
				a.again()
			}
		})
	})
}

// again says an operation once more while there is time.
func (a *ask) again() {
	w := a.p.s.world
	if next := w.Now() + Again; next < a.deadline {
		w.At(next, func() {
			if a.p.asks[a.number] == a {
				a.try()
			}
		})
		return
	}
	a.giveUp()
}

// giveUp answers at the deadline that the outcome is not known.
func (a *ask) giveUp() {
	res := dht.Result{Outcome: dht.Unknown, Err: "no answer in time"}
	if a.op.Code == dht.OpLookup {
		res.Outcome = dht.Unavailable
	}
	w := a.p.s.world
	w.At(max(a.deadline, w.Now()), func() { a.answer(res) })
}

// answer has the process hear of the outcome, once.
func (a *ask) answer(res dht.Result) {
	p := a.p
	if p.asks[a.number] != a {
		return
	}
	delete(p.asks, a.number)
	p.inbox = append(p.inbox, store.Answer{Tag: a.tag, Index: a.index, Result: res})
	p.say()
}

// Watch begins to watch a record.
func (p *Port) Watch(_ time.Duration, tag uint64, key dht.Key, from dht.Version, out *store.Out) {
	if p.watches[tag] != nil {
		out.Results = append(out.Results, store.Answer{Tag: tag, Watch: true, Result: dht.Result{Outcome: dht.Invalid, Err: "a watch of that tag runs"}})
		return
	}
	w := &watch{p: p, tag: tag, key: key, version: from, absent: from == dht.Version{}}
	p.watches[tag] = w
	p.s.watches[key] = append(p.s.watches[key], w)
	w.look()
}

// Unwatch ends a Watch.
func (p *Port) Unwatch(_ time.Duration, tag uint64, _ *store.Out) {
	if w := p.watches[tag]; w != nil {
		w.end()
	}
}

func (w *watch) end() {
	s := w.p.s
	w.over = true
	delete(w.p.watches, w.tag)
	s.watches[w.key] = slices.DeleteFunc(s.watches[w.key], func(x *watch) bool { return x == w })
	if len(s.watches[w.key]) == 0 {
		delete(s.watches, w.key)
	}
}

// look has the process hear of the record as it is when the word gets there, if
// it was told of something else last.
func (w *watch) look() {
	if w.looks || w.over {
		return
	}
	w.looks = true
	world, self := w.p.s.world, w.p.self
	world.At(world.Now()+world.Delay(self, w.p.s.Home(w.key)), w.show)
}

func (w *watch) show() {
	world := w.p.s.world
	if !w.over && !world.Reaches(w.p.self) {
		world.At(world.Now()+Again, w.show)
		return
	}
	w.looks = false
	res := dht.Result{Outcome: dht.Absent}
	if r := w.p.s.records[w.key]; r != nil {
		res = dht.Result{Outcome: dht.Done, Kind: r.kind, Version: r.version, Value: r.value}
	}
	absent := res.Outcome == dht.Absent
	if w.over || absent && w.absent || !absent && !w.version.Less(res.Version) {
		return
	}
	w.absent = absent
	if !absent {
		w.version = res.Version
	}
	w.p.inbox = append(w.p.inbox, store.Answer{Tag: w.tag, Watch: true, Result: res})
	w.p.say()
}

// Tick puts out what there is to say.
func (p *Port) Tick(_ time.Duration, out *store.Out) {
	out.Results = append(out.Results, p.inbox...)
	clear(p.inbox)
	p.inbox = p.inbox[:0]
	if p.moved {
		p.moved = false
		out.Homes = append(out.Homes, store.HomeChange{Home: true})
	}
}

// Deadline is at once when there is something to say, else never.
func (p *Port) Deadline() time.Duration {
	if len(p.inbox) > 0 || p.moved {
		return 0
	}
	return filch.Never
}

// Homed are the records whose keys begin with prefix and whose home is this node,
// by key.
func (p *Port) Homed(prefix dht.Key) iter.Seq[store.HomedRecord] {
	list := p.s.homed(p.self, prefix)
	return func(yield func(store.HomedRecord) bool) {
		for _, r := range list {
			if !yield(store.HomedRecord{Key: r.key, Kind: r.kind, Version: r.version, Value: r.value}) {
				return
			}
		}
	}
}

// Status says that the store works. It names no members: records that cannot be
// cut in two need none.
func (p *Port) Status() store.Status {
	return store.Status{Known: true, Epoch: 1, Generation: 1, Shards: 1, Replicas: 1, Records: len(p.s.order), Pending: len(p.asks)}
}

// View names no shard, as Status does not.
func (p *Port) View(dht.Key) (dht.Shard, uint64, []dht.Replica) { return 0, 0, nil }

// EachMember names nobody, as Status does not.
func (p *Port) EachMember(func(filch.NodeName)) {}

// Rejoin begins a new life of the node: what it asked for is answered, and its
// watches go on.
func (p *Port) Rejoin(_ time.Duration, _ uint64, out *store.Out) {
	for _, number := range slices.Sorted(maps.Keys(p.asks)) {
		a := p.asks[number]
		res := dht.Result{Outcome: dht.Unknown, Err: string(p.self) + " was declared dead before this was answered"}
		if a.op.Code == dht.OpLookup {
			res.Outcome = dht.Unavailable
		}
		out.Results = append(out.Results, store.Answer{Tag: a.tag, Index: a.index, Result: res})
	}
	clear(p.asks)
}

// Leave has this node be home to no record. That takes no time.
func (p *Port) Leave(_ time.Duration, out *store.Out) {
	p.leaves, out.Left = true, true
	p.s.Changed(p.self)
}

// Return ends a Leave.
func (p *Port) Return(time.Duration, *store.Out) {
	p.leaves = false
	p.s.Changed(p.self)
}

// AcceptLoss finds nothing that is lost.
func (p *Port) AcceptLoss(_ time.Duration, tag uint64, _ []dht.Shard, out *store.Out) {
	out.Results = append(out.Results, store.Answer{Tag: tag, Result: dht.Result{Outcome: dht.Done}})
}

// What a Store does on disks and tells others is nothing here.

func (p *Port) Found(time.Duration, *store.Out)                                    {}
func (p *Port) Member(time.Duration, dht.Peer, *store.Out)                         {}
func (p *Port) Message(time.Duration, filch.NodeName, message.Message, *store.Out) {}
func (p *Port) Restore([]store.LogEntry, bool)                                     {}
func (p *Port) Synced(time.Duration, uint64, *store.Out)                           {}
func (p *Port) DiskFailed(time.Duration, string, *store.Out)                       {}
func (p *Port) DiskBack(time.Duration, *store.Out)                                 {}
func (p *Port) Check()                                                             {}
