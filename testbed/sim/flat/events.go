package flat

import (
	"time"
)

// event is something that comes to a node. What comes to a busy node waits, and is served then.
type event struct {
	at     time.Duration
	node   uint32
	peer   uint32 // the sender of a message
	what   uint32 // a number of tasks, or of an offer
	round  uint16 // of the thief
	kind   kind
	served bool
}

// Before orders events by time.
func (e *event) Before(o *event) bool { return e.at < o.at }

type kind uint8

// The kinds of messages, and what comes to a node besides.
const (
	LoadAsk kind = iota
	LoadSay
	Steal
	Offer
	Done
	News
	kinds
	opened  kind = iota // the job is recorded, and its tasks may start
	atFront             // the front of the leader is committed
	moved               // the moves of an offer are committed
	known               // the job and its specification are here
	ended               // so many tasks
	ticked              // a wait of the thief is over
	kept                // thieves get tasks again that the tree kept
	forgets             // the last ends of the node's work are recorded
	told                // the record of the job says that the bag has ended
)

var kindNames = [kinds]string{"ask", "say", "steal", "offer", "done", "news"}

func (k kind) String() string { return kindNames[k] }

// send sends a message when the node has handled its input.
func (s *Sim) send(from, to uint32, k kind, what uint32, round uint16) {
	if s.result.Makespan == 0 {
		s.result.Messages[k]++
	}
	s.result.After[k]++
	s.events.Push(event{at: s.now + inputCost + s.way(), node: to, peer: from, what: what, round: round, kind: k})
}

// way is the time of a message.
func (s *Sim) way() time.Duration {
	span := s.links.LatencyMax - s.links.LatencyMin
	return s.links.LatencyMin + time.Duration(s.rng.Uint64()%uint64(span+1))
}

// answer is the time until an answer of the records.
func (s *Sim) answer() time.Duration { return s.way() + s.way() }

// later has something come to a node.
func (s *Sim) later(after time.Duration, node uint32, k kind, what uint32) {
	s.events.Push(event{at: s.now + after, node: node, what: what, kind: k})
}

// step serves an event, if the node is not busy.
func (s *Sim) step(e *event) {
	i := e.node
	cost := inputCost
	switch e.kind {
	case ticked:
		if s.thieves[i].at != e.at && !e.served {
			return // the thief waits for something else by now
		}
	case ended:
		cost *= time.Duration(e.what)
	case moved:
		cost *= time.Duration(s.offers.list[e.what].zones)
	case forgets:
		if s.idle(i) {
			s.flags[i] &^= knows
		}
		return
	case told:
		s.result.Makespan = s.now
		return
	}
	if !e.served {
		if s.busy[i] > s.now {
			e.at, e.served = s.busy[i], true
			s.busy[i] += cost
			s.events.Push(*e)
			return
		}
		s.busy[i] = s.now + cost
	}
	s.handle(e)
	s.settle(i)
}

func (s *Sim) handle(e *event) {
	i := e.node
	switch e.kind {
	case LoadAsk:
		s.onAsk(i, e.peer, e.round)
	case LoadSay:
		s.onSay(i, e)
	case Steal:
		s.onSteal(i, e.peer, e.round)
	case Offer:
		s.onOffer(i, e)
	case News:
		s.thieves[i].news(e.peer, s.now)
	case moved:
		s.onMoved(i, e.what)
	case known:
		s.flags[i] |= knows | fronted
		s.presses[i].Fresh = true
	case ended:
		s.onEnded(i, int64(e.what))
	case ticked:
		s.onTick(i)
	case opened:
		s.onOpened(i)
	case atFront:
		s.flags[i] |= fronted
	}
}

// settle ends an input as a shipped node does: it starts tasks, sends news, and looks for work.
func (s *Sim) settle(i uint32) {
	s.fill(i)
	s.tell(i)
	s.seek(i, s.now)
}
