package tasks

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/filch-hpc/filch/mtc"
)

// store is the records of all hosts: linearizable, and outliving every host, as
// dht.Store is for who proposes. An operation takes its time to get there and
// its answer back, and either may be lost; said again it is the same operation.
type store struct {
	records map[string][]byte
	keys    []string // sorted
	done    map[opID]mtc.Answer
	watches []watch
	merges  map[mtc.RecordKind]mtc.Merge
}

type opID struct {
	host int32
	life uint64
	tag  uint64
}

type watch struct {
	opID
	key string
}

func (s *store) init() {
	s.records, s.done = map[string][]byte{}, map[opID]mtc.Answer{}
	s.merges = mtc.Merges()
}

// home is the host that is primary of a record: the live one that a hash ranks
// first.
func (s *store) home(w *World, key string) *host {
	f := fnv.New64a()
	f.Write([]byte(key))
	k := f.Sum64()
	var best *host
	var rank uint64
	for _, h := range w.hosts {
		if h.down || h.seen.dead || h.cut || h.seen.gone {
			continue
		}
		r := (k ^ uint64(h.index+1)*0x9e3779b97f4a7c15) * 0xd1342543de82ef95
		if r ^= r >> 29; best == nil || r > rank {
			best, rank = h, r
		}
	}
	return best
}

// homed lists the records whose home is h.
func (s *store) homed(w *World, h *host) (list []mtc.Stored) {
	for _, k := range s.keys {
		if s.home(w, k) == h {
			list = append(list, mtc.Stored{Key: k, Value: s.records[k]})
		}
	}
	return list
}

// delay is one way to a record's home: nothing at home, else over the network.
func (w *World) delay(h *host, key string) time.Duration {
	if w.opt.Shared || w.store.home(w, key) != h {
		d := w.rng.Between(w.opt.Links.LatencyMin, w.opt.Links.LatencyMax)
		if w.opt.Store.SlowTail > 0 && w.rng.Chance(0.01) {
			d += w.rng.Between(0, w.opt.Store.SlowTail)
		}
		return d
	}
	return 0
}

func (w *World) propose(h *host, p mtc.Proposal) {
	id := opID{h.index, h.life, p.Tag}
	t := w.opt.Store
	fail := func() {
		w.at(w.now+t.Timeout, func() { w.answer(h, id, mtc.Answer{Status: mtc.AnswerUnknown}) })
	}
	if p.Op == mtc.OpUnwatch {
		w.store.watches = slices.DeleteFunc(w.store.watches, func(x watch) bool { return x.opID == id })
		return
	}
	if w.rng.Chance(t.Lost) {
		fail()
		return
	}
	silent := w.rng.Chance(t.Silent)
	w.at(w.now+w.delay(h, p.Key), func() {
		if h.cut {
			fail()
			return
		}
		a := w.perform(h, id, p)
		if silent {
			fail()
			return
		}
		w.at(w.now+w.delay(h, p.Key), func() {
			if h.cut {
				fail()
				return
			}
			w.answer(h, id, a)
		})
	})
}

func (w *World) answer(h *host, id opID, a mtc.Answer) {
	h.input(id.life, "answer", func(now time.Duration, out *mtc.Out) { h.core.Answered(now, id.tag, a, out) })
}

// perform does an operation at the record, in one moment.
func (w *World) perform(h *host, id opID, p mtc.Proposal) mtc.Answer {
	s := &w.store
	if a, ok := s.done[id]; ok {
		return a
	}
	old := s.records[p.Key]
	a := mtc.Answer{Value: old}
	if old == nil {
		a.Status = mtc.AnswerAbsent
	}
	switch p.Op {
	case mtc.OpLookup:
		w.Stats.Lookups++
	case mtc.OpWatch:
		s.watches = append(s.watches, watch{id, p.Key})
	case mtc.OpMerge:
		w.Stats.Merges++
		val, reply, err := s.merges[p.Kind](old, p.Delta)
		a = mtc.Answer{Value: reply}
		if err != nil {
			a = mtc.Answer{Status: mtc.AnswerInvalid}
		}
		s.done[id] = a
		if err == nil {
			s.put(w, p, old, val)
		}
	}
	return a
}

// put stores a record and tells who watches it.
func (s *store) put(w *World, p mtc.Proposal, old, val []byte) {
	if old == nil {
		i, _ := slices.BinarySearch(s.keys, p.Key)
		s.keys = slices.Insert(s.keys, i, p.Key)
	}
	s.records[p.Key] = val
	w.truth.stored(p.Key, p.Kind, old, val)
	for _, x := range s.watches {
		if x.key == p.Key {
			w.at(w.now+w.delay(w.hosts[x.host], p.Key), func() { w.show(x, val) })
		}
	}
}

// showEvery is how often a change is shown to a watcher that cannot be reached.
const showEvery = 500 * time.Millisecond

func (w *World) show(x watch, val []byte) {
	h := w.hosts[x.host]
	switch {
	case h.life != x.life || !slices.Contains(w.store.watches, x):
	case h.cut:
		w.at(w.now+showEvery, func() { w.show(x, val) })
	default:
		w.answer(h, x.opID, mtc.Answer{Value: val})
	}
}
