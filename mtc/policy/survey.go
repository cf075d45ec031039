package policy

import (
	"slices"

	"github.com/filch-hpc/filch"
)

// Survey is a thief's question to some nodes: how many tasks could be stolen there, and of
// which class is the first? A better class, which is a lower number, counts before the load.
// Answers to an earlier round, and from other nodes, count for nothing.
type Survey struct {
	Round   uint32
	Best    filch.NodeName // the most loaded of the answering nodes
	Load    int64          // of Best
	class   int32          // of the first task at Best
	ordered bool           // the first of asked with work is the best
	rank    int            // of Best in asked
	asked   []filch.NodeName
	answers int
}

// Begin begins another round. Ordered says that an earlier of the asked nodes is better than
// a more loaded one.
func (s *Survey) Begin(asked []filch.NodeName, ordered bool) {
	*s = Survey{Round: s.Round + 1, asked: asked, ordered: ordered}
}

// Asked is the number of asked nodes.
func (s *Survey) Asked() int { return len(s.asked) }

// Answer takes in an answer and returns false if the answer does not count.
func (s *Survey) Answer(from filch.NodeName, round uint32, load int64, class int32) bool {
	rank := slices.Index(s.asked, from)
	if round != s.Round || rank < 0 {
		return false
	}
	s.answers++
	better := load > s.Load
	if s.ordered {
		better = rank < s.rank
	}
	if load > 0 && (s.Load == 0 || class < s.class || class == s.class && better) {
		s.Load, s.Best, s.class, s.rank = load, from, class, rank
	}
	return true
}

// Answered reports whether some node answered, and whether all did.
func (s *Survey) Answered() (some, all bool) { return s.answers > 0, s.answers >= len(s.asked) }
