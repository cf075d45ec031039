package store

import (
	"time"

	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/varint"
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
	if s.view.roster != nil || s.acceptor.generation != 0 || len(s.images.byShard) > 0 || len(s.images.orphans) > 0 || s.acceptor.recall.value != nil {
		s.proposer.wake()
		return
	}
	r := roster.New(s.self)
	s.disk.born = s.self.Incarnation
	s.acceptor.vote = vote{generation: r.Generation, value: r}
	s.acceptor.logValue()
	s.disk.gate.founded = s.disk.logged
	s.disk.log(diskBorn, varint.AppendUvarints(nil, s.disk.born))
	s.sync.adopt(r)
}
