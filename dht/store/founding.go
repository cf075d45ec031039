package store

import (
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/record"
	"github.com/filch-hpc/filch/dht/varint"
)

// Found makes this node the first of its instance. Found does nothing if this node knows
// of an earlier instance, from its disk or from other nodes: a damaged disk may have kept
// only some records or the acceptor's last value.
//
// The acceptor's value goes to the disk first, and no message leaves this node before the
// value is there. So if a crash ends the founding, either the disk has the value and the
// next life continues from there, or no node knows of the founding and the next life
// founds again.
func (s *Store) Found(now time.Duration, out *Out) {
	s.begin(now, out)
	defer s.end()
	d := &s.disk
	if s.roster != nil || s.acceptor.generation != 0 || len(d.images) > 0 || len(d.orphans) > 0 || d.recall.value != nil {
		s.wakeProposer()
		return
	}
	r := roster.New(s.self)
	d.born = s.self.Incarnation
	s.acceptor = acceptor{generation: r.Generation, value: r}
	s.logAcceptor()
	d.gate.founded = d.logged
	s.log(diskBorn, varint.AppendUvarints(nil, d.born))
	s.adopt(r)
}

// finishFounding makes this node hold all shards of the roster that an earlier life
// founded, including shards whose markers a crash kept from the disk. The acceptor knows
// no other roster, so there was none.
func (s *Store) finishFounding() {
	if v := s.acceptor.value; v == nil || v.Epoch > 1 {
		return
	}
	for i, c := range s.roster.Shards {
		id, who := s.roster.ShardAt(i), c.Primary()
		if who.Name != s.self.Name || who == s.self || s.disk.images[id] != nil {
			continue
		}
		s.disk.images[id] = &image{incarnation: who.Incarnation, records: map[dht.Key]*record.Record{}}
		s.log(markerKey(id), s.disk.images[id].marker())
	}
}
