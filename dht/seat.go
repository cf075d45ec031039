package dht

// seat is this node as an acceptor of the register: CASPaxos, where a proposal
// changes the value that a majority holds. What it promised and accepted is on
// disk before anybody hears of it.
type seat struct {
	generation uint64 // 0: not seated
	promised   ballot
	accepted   ballot
	value      *roster
}

const (
	diskPromise = "seat/promise"
	diskValue   = "seat/value"
	diskRecall  = "seat/recall" // of a seat that was given up: what it knew last
)

func (s *Store) logPromise() {
	b := appendUvarints(nil, s.seat.generation)
	s.log(diskPromise, appendBallot(b, s.seat.promised))
}

// logSeat logs a value that was accepted. It goes first: where the log ends between
// the two, restoreSeat takes the value for the promise. A promise of a generation of
// which there is no value yet would cost the seat, and what the one before accepted.
func (s *Store) logSeat() {
	s.log(diskValue, s.seat.image())
	s.logPromise()
}

// image is the entry of a seat's value.
func (x *seat) image() []byte {
	return appendDelta(appendBallot(appendUvarints(nil, x.generation), x.accepted), x.value.since(nil))
}

// sits reports whether this node is an acceptor of that generation, and says
// so to who thinks it is.
func (s *Store) sits(p *peer, generation uint64, b ballot) bool {
	switch {
	case s.disk.reason != "":
		return false
	case s.roster != nil && generation < s.roster.generation:
		s.tell(p) // that generation is over
		return false
	case s.seat.generation != generation:
		s.send(p, &msgRefuse{generation: generation, ballot: b, unseated: true}, 0)
		return false
	}
	return true
}

func (s *Store) onPrepare(p *peer, m *msgPrepare) {
	if !s.sits(p, m.generation, m.ballot) {
		return
	}
	if m.ballot.less(s.seat.promised) {
		s.send(p, &msgRefuse{generation: m.generation, ballot: m.ballot, promised: s.seat.promised}, 0)
		return
	}
	if s.seat.promised != m.ballot {
		s.seat.promised = m.ballot
		s.logPromise()
	}
	reply := &msgPromise{generation: m.generation, ballot: m.ballot, accepted: s.seat.accepted}
	if s.seat.value != nil && (s.seat.accepted != m.have || m.have == ballot{}) {
		reply.value = s.seat.value.since(nil)
	}
	s.send(p, reply, s.disk.logged)
}

func (s *Store) onAccept(p *peer, m *msgAccept) {
	if !s.sits(p, m.generation, m.ballot) {
		return
	}
	if m.ballot.less(s.seat.promised) {
		s.send(p, &msgRefuse{generation: m.generation, ballot: m.ballot, promised: s.seat.promised}, 0)
		return
	}
	if s.seat.accepted != m.ballot {
		var v *roster
		if m.value.base == 0 {
			v = m.value.applied(nil)
		} else if m.base == s.seat.accepted && s.seat.value != nil {
			v = m.value.applied(s.seat.value)
		}
		if v == nil {
			s.send(p, &msgRefuse{generation: m.generation, ballot: m.ballot, whole: true}, 0)
			return
		}
		s.seat.promised, s.seat.accepted, s.seat.value = m.ballot, m.ballot, v
		s.logSeat()
	}
	s.send(p, &msgAccepted{generation: m.generation, ballot: m.ballot}, s.disk.logged)
}

// onInstall seats this node, with a value that was chosen or that another seat has
// accepted. It must not have been seated in that generation before and have
// forgotten it: its disk is older than its seat, and whole.
func (s *Store) onInstall(p *peer, m *msgInstall) {
	r := m.value.applied(nil)
	if r == nil || r.generation <= s.seat.generation || s.disk.reason != "" {
		return
	}
	for _, x := range r.seats {
		if x.Name == s.self.Name && (x.Incarnation == s.self.Incarnation || !s.disk.damaged && s.disk.born != 0 && s.disk.born <= x.Incarnation) {
			s.seat = seat{generation: r.generation, promised: m.accepted, accepted: m.accepted, value: r}
			s.logSeat()
			if m.accepted == (ballot{}) {
				s.adopt(r)
			}
		}
	}
}
