// Package records keeps the records of a simulated instance in one map. Each node
// of the instance has a [Port] to it, which takes the place of its store.Store.
//
// An operation takes effect in one moment, and its words take their time to get to
// the record's home and back. What is lost is said again until the deadline of the
// operation, and is the same operation then. Records outlive all nodes: there are no
// replicas, no disks and no messages. So a world of thousands of nodes costs what
// its operations cost, and what depends on the store's own faults is for a world
// with store.Store.
//
// A [World] drives a [Store]: in one goroutine, with times that do not go back.
package records

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// Again is how long after a word was lost it is said again.
const Again = 500 * time.Millisecond

// World is where a [Store] is.
type World interface {
	Now() time.Duration
	At(t time.Duration, f func()) // calls f at a moment from now on

	// Up reports whether a node can be home to records.
	Up(n filch.NodeName) bool
	// Reaches reports whether words get from a node to records and back now.
	Reaches(n filch.NodeName) bool
	// Delay is how long a word takes from a node to a record's home, or back.
	Delay(n, home filch.NodeName) time.Duration
	// Try draws what becomes of one try of an operation of a node.
	Try(n filch.NodeName) Fate
	// Stored tells of a change of a record; old and value are nil for none.
	Stored(op *dht.Op, old, value []byte)
}

// Fate is what becomes of one try of an operation.
type Fate uint8

// The fates.
const (
	Heard  Fate = iota
	Lost        // it does not get there
	Silent      // its answer does not get back
)

// Store is the records of all nodes.
type Store struct {
	world   World
	kinds   dht.Kinds
	records map[dht.Key]*record
	order   []*record // by place
	ring    []place   // of the nodes
	ports   map[filch.NodeName]*Port
	removed map[dht.Key]bool
	done    map[dht.OpID]dht.Result // of operations with an identity
	watches map[dht.Key][]*watch
	changes uint64
}

type record struct {
	place
	key     dht.Key
	kind    dht.Kind
	version dht.Version
	value   []byte
}

// place is where a node, or a record, is on the ring. A record's home is the first
// node from there on that is up.
type place struct {
	at   uint64
	name string
}

func placeOf(name string) place {
	f := fnv.New64a()
	f.Write([]byte(name)) // which has no errors
	at := f.Sum64() * 0x9e3779b97f4a7c15
	return place{at ^ at>>29, name}
}

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.at, o.at), cmp.Compare(p.name, o.name))
}

// New is a store without records and nodes.
func New(w World, kinds dht.Kinds) *Store {
	return &Store{
		world: w, kinds: kinds, records: map[dht.Key]*record{}, ports: map[filch.NodeName]*Port{},
		removed: map[dht.Key]bool{}, done: map[dht.OpID]dht.Result{}, watches: map[dht.Key][]*watch{},
	}
}

// Value is what a record holds; nil if there is none.
func (s *Store) Value(k dht.Key) []byte {
	if r := s.records[k]; r != nil {
		return r.value
	}
	return nil
}

// Keys are those of all records, in order.
func (s *Store) Keys() []dht.Key {
	keys := make([]dht.Key, len(s.order))
	for i, r := range s.order {
		keys[i] = r.key
	}
	slices.Sort(keys)
	return keys
}

// Home is the node that is home to a key, "" if none is up.
func (s *Store) Home(k dht.Key) filch.NodeName {
	i, _ := slices.BinarySearchFunc(s.ring, placeOf(string(k)), place.compare)
	return s.upFrom(i, 1)
}

// upFrom is the first node that is up from one on along the ring, or against it.
func (s *Store) upFrom(i, step int) filch.NodeName {
	n := len(s.ring)
	for range n {
		if name := filch.NodeName(s.ring[(i+n)%n].name); s.up(name) {
			return name
		}
		i = (i + n + step) % n
	}
	return ""
}

func (s *Store) up(n filch.NodeName) bool {
	return !s.ports[n].leaves && s.world.Up(n)
}

// Changed takes in that a node went up or down: it, and who has its records
// instead, look at what is homed at them.
func (s *Store) Changed(n filch.NodeName) {
	i, ok := slices.BinarySearchFunc(s.ring, placeOf(string(n)), place.compare)
	if !ok {
		return
	}
	s.ports[n].rehome()
	if next := s.upFrom(i+1, 1); next != "" {
		s.ports[next].rehome()
	}
}

// homed are the records homed at a node whose keys begin with prefix, by key.
func (s *Store) homed(n filch.NodeName, prefix dht.Key) (list []*record) {
	if !s.up(n) {
		return nil
	}
	i, _ := slices.BinarySearchFunc(s.ring, placeOf(string(n)), place.compare)
	before := placeOf(string(s.upFrom(i-1, -1)))
	take := func(part []*record) {
		for _, r := range part {
			if len(r.key) >= len(prefix) && r.key[:len(prefix)] == prefix {
				list = append(list, r)
			}
		}
	}
	from, to := s.index(before), s.index(s.ring[i])
	if before.compare(s.ring[i]) < 0 {
		take(s.order[from:to])
	} else { // around the ring; from itself to itself if nobody else is up
		take(s.order[from:])
		take(s.order[:to])
	}
	slices.SortFunc(list, func(a, b *record) int { return cmp.Compare(a.key, b.key) })
	return list
}

func (s *Store) index(p place) int {
	i, _ := slices.BinarySearchFunc(s.order, p, func(r *record, p place) int { return r.compare(p) })
	return i
}

// perform carries an operation out, in one moment.
func (s *Store) perform(op *dht.Op) dht.Result {
	identified := op.ID != dht.OpID{} && op.Code != dht.OpLookup
	if res, ok := s.done[op.ID]; ok && identified {
		return res
	}
	old := s.records[op.Key]
	value, res := s.apply(old, op)
	switch {
	case value != nil:
		res.Version = s.put(op, old, value)
	case op.Code == dht.OpRemove && res.Outcome == dht.Done:
		s.drop(op, old)
	}
	if identified {
		s.done[op.ID] = res
	}
	return res
}

// apply works out what an operation makes of a record, nil if it leaves it as it
// is, and its answer.
func (s *Store) apply(old *record, op *dht.Op) (value []byte, res dht.Result) {
	if old == nil {
		old = &record{}
	}
	there := old.version != dht.Version{}
	found := func(o dht.Outcome) dht.Result {
		return dht.Result{Outcome: o, Kind: old.kind, Version: old.version, Value: old.value}
	}
	switch {
	case there && op.Kind != 0 && op.Kind != old.kind:
		return nil, dht.Result{Outcome: dht.Conflict, Err: "the record is of another kind"}
	case op.Code == dht.OpJoin && s.removed[op.Key] && !there:
		return nil, dht.Result{Outcome: dht.Absent}
	case op.Code == dht.OpMerge, op.Code == dht.OpJoin:
		merge := s.kinds[op.Kind]
		if merge == nil {
			return nil, dht.Result{Outcome: dht.Invalid, Err: "no rule for its kind"}
		}
		value, reply, err := merge(old.value, op.Value)
		if err != nil {
			return nil, dht.Result{Outcome: dht.Conflict, Err: err.Error()}
		}
		return present(value), dht.Result{Outcome: dht.Done, Kind: op.Kind, Value: reply}
	case op.Code == dht.OpInsert && there:
		return nil, found(dht.Exists)
	case op.Code == dht.OpInsert, op.Code == dht.OpSwap && old.version == op.Expect:
		return present(op.Value), dht.Result{Outcome: dht.Done, Kind: cmp.Or(op.Kind, dht.KindRegister)}
	case op.Code == dht.OpAppend:
		return nil, dht.Result{Outcome: dht.Invalid, Err: "there are no lists here"}
	case !there:
		return nil, dht.Result{Outcome: dht.Absent}
	case op.Code == dht.OpSwap, op.Code == dht.OpRemove && op.Expect != dht.Version{} && op.Expect != old.version:
		return nil, found(dht.Mismatch)
	}
	return nil, found(dht.Done)
}

// present is a value that is there, be it empty.
func present(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}

func (s *Store) put(op *dht.Op, old *record, value []byte) dht.Version {
	s.changes++
	r := &record{place: placeOf(string(op.Key)), key: op.Key, kind: cmp.Or(op.Kind, dht.KindRegister), value: value}
	r.version = dht.Version{Epoch: 1, Seq: s.changes}
	i := s.index(r.place)
	var was []byte
	if old == nil {
		s.order = slices.Insert(s.order, i, r)
	} else {
		was, r.kind = old.value, old.kind
		s.order[i] = r
	}
	s.records[op.Key] = r
	s.world.Stored(op, was, value)
	s.tell(op.Key)
	return r.version
}

func (s *Store) drop(op *dht.Op, old *record) {
	s.changes++
	s.removed[op.Key] = true
	i := s.index(old.place)
	s.order = slices.Delete(s.order, i, i+1)
	delete(s.records, op.Key)
	s.world.Stored(op, old.value, nil)
	s.tell(op.Key)
}

// tell has those who watch a key look at it.
func (s *Store) tell(k dht.Key) {
	for _, w := range s.watches[k] {
		w.look()
	}
}
