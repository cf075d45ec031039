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
	asked   []filch.NodeName
	answers int
}

// Begin begins another round.
func (s *Survey) Begin(asked []filch.NodeName) { *s = Survey{Round: s.Round + 1, asked: asked} }

// Asked is the number of asked nodes.
func (s *Survey) Asked() int { return len(s.asked) }

// Answer takes in an answer and returns false if the answer does not count.
func (s *Survey) Answer(from filch.NodeName, round uint32, load int64, class int32) bool {
	if round != s.Round || !slices.Contains(s.asked, from) {
		return false
	}
	s.answers++
	if load > 0 && (s.Load == 0 || class < s.class) || load > s.Load && class == s.class {
		s.Load, s.Best, s.class = load, from, class
	}
	return true
}

// Answered reports whether some node answered, and whether all did.
func (s *Survey) Answered() (some, all bool) { return s.answers > 0, s.answers >= len(s.asked) }
