package policy

import (
	"time"

	"github.com/filch-hpc/filch"
)

// SpreadAgain is how often a node repeats news that other nodes have to learn.
const SpreadAgain = time.Second

// Spread is news with a rising serial that a node sends to each other node, again and again
// until the node acknowledges the serial.
type Spread struct {
	serial uint32
	has    map[filch.NodeName]uint32 // the serial that each node acknowledged
	at     time.Duration             // of the next round; 0: all nodes have the news
}

// Sent reports whether the news with a serial went out once.
func (s *Spread) Sent(serial uint32) bool { return s.serial >= serial }

// At is when the next round is due; 0: all nodes have the news.
func (s *Spread) At() time.Duration { return s.at }

// Round begins a round, and returns the nodes to which the news goes.
func (s *Spread) Round(now time.Duration, serial uint32, m *Members, self filch.NodeName) (to []filch.NodeName) {
	s.serial, s.at = serial, 0
	for _, p := range m.All() {
		if p.Name != self && p.Standing < filch.Dead && s.has[p.Name] < serial {
			to, s.at = append(to, p.Name), now+SpreadAgain
		}
	}
	return to
}

// Has takes in that a node has the news with a serial.
func (s *Spread) Has(n filch.NodeName, serial uint32) {
	if s.has == nil {
		s.has = make(map[filch.NodeName]uint32)
	}
	s.has[n] = max(s.has[n], serial)
}
