package store

import (
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/dht/varint"
)

// acceptor is the state of this node as an acceptor of the register (CASPaxos, where a
// proposal changes the value held by a majority). Promises and accepted values are on the
// disk before any answer leaves.
type acceptor struct {
	generation uint64 // 0: this node is no acceptor
	promised   message.Ballot
	accepted   message.Ballot
	value      *roster.Roster
}

const (
	diskPromise = "seat/promise"
	diskValue   = "seat/value"
	diskRecall  = "seat/recall" // the last value of a former acceptor
)

func (s *Store) logPromise() {
	b := varint.AppendUvarints(nil, s.acceptor.generation)
	s.log(diskPromise, message.AppendBallot(b, s.acceptor.promised))
}

// logAcceptor logs an accepted value. The value goes to the log before the promise: if
// the log ends between the two, restoreAcceptor uses the ballot of the value as the
// promise. A promise of a generation without a value would cost the node the place as an
// acceptor, and the value accepted in the generation before.
func (s *Store) logAcceptor() {
	s.log(diskValue, s.acceptor.image())
	s.logPromise()
}

// image returns the log entry of an acceptor's value.
func (x *acceptor) image() []byte {
	return roster.AppendDelta(message.AppendBallot(varint.AppendUvarints(nil, x.generation), x.accepted), x.value.Since(nil))
}

// sits reports whether this node is an acceptor of the generation, and answers the
// proposer if not.
func (s *Store) sits(p *peer, generation uint64, b message.Ballot) bool {
	switch {
	case s.disk.reason != "":
		return false
	case s.roster != nil && generation < s.roster.Generation:
		s.tell(p) // the generation is over
		return false
	case s.acceptor.generation != generation:
		s.send(p, &message.Refuse{Generation: generation, Ballot: b, Unseated: true}, 0)
		return false
	}
	return true
}

func (s *Store) onPrepare(p *peer, m *message.Prepare) {
	if !s.sits(p, m.Generation, m.Ballot) {
		return
	}
	if m.Ballot.Less(s.acceptor.promised) {
		s.send(p, &message.Refuse{Generation: m.Generation, Ballot: m.Ballot, Promised: s.acceptor.promised}, 0)
		return
	}
	if s.acceptor.promised != m.Ballot {
		s.acceptor.promised = m.Ballot
		s.logPromise()
	}
	reply := &message.Promise{Generation: m.Generation, Ballot: m.Ballot, Accepted: s.acceptor.accepted}
	if s.acceptor.value != nil && (s.acceptor.accepted != m.Have || m.Have == message.Ballot{}) {
		reply.Value = s.acceptor.value.Since(nil)
	}
	s.send(p, reply, s.disk.logged)
}

func (s *Store) onAccept(p *peer, m *message.Accept) {
	if !s.sits(p, m.Generation, m.Ballot) {
		return
	}
	if m.Ballot.Less(s.acceptor.promised) {
		s.send(p, &message.Refuse{Generation: m.Generation, Ballot: m.Ballot, Promised: s.acceptor.promised}, 0)
		return
	}
	if s.acceptor.accepted != m.Ballot {
		var v *roster.Roster
		if m.Value.Base == 0 {
			v = m.Value.Applied(nil)
		} else if m.Base == s.acceptor.accepted && s.acceptor.value != nil {
			v = m.Value.Applied(s.acceptor.value)
		}
		if v == nil {
			s.send(p, &message.Refuse{Generation: m.Generation, Ballot: m.Ballot, Whole: true}, 0)
			return
		}
		s.acceptor.promised, s.acceptor.accepted, s.acceptor.value = m.Ballot, m.Ballot, v
		s.logAcceptor()
	}
	s.send(p, &message.Accepted{Generation: m.Generation, Ballot: m.Ballot}, s.disk.logged)
}

// onInstall makes this node an acceptor, with a chosen value or a value accepted by
// another acceptor. The node must not have been an acceptor of this generation already
// and have lost that state: the disk must be undamaged, and older than the node's place
// in Seats.
func (s *Store) onInstall(p *peer, m *message.Install) {
	r := m.Value.Applied(nil)
	if r == nil || r.Generation <= s.acceptor.generation || s.disk.reason != "" {
		return
	}
	for _, x := range r.Seats {
		if x.Name == s.self.Name && (x.Incarnation == s.self.Incarnation || !s.disk.damaged && s.disk.born != 0 && s.disk.born <= x.Incarnation) {
			s.acceptor = acceptor{generation: r.Generation, promised: m.Accepted, accepted: m.Accepted, value: r}
			s.logAcceptor()
			if m.Accepted == (message.Ballot{}) {
				s.adopt(r)
			}
		}
	}
}
