package local

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/policy"
)

// DrainBad drains this node for a reason, unless a quarter of the nodes drains already because
// they are bad.
func (s *Self) DrainBad(t *Turn, why string) {
	switch bad, nodes := s.badNodes(); {
	case s.DrainOrder != nil:
	case len(bad) >= policy.BadMax(nodes):
		t.Note(NoteWarn, 0, s.Cfg.Name, "%s; the node does not drain: of %d nodes at most %d may, and %d do", why, nodes, policy.BadMax(nodes), len(bad))
	default:
		t.Out.Drain = &launcher.Drain{Reason: launcher.BadNode + why, By: drainedBy}
	}
}

// drainedBy is the user of a drain by the node itself.
const drainedBy = "drain_bad"

// YieldDrain ends the drain of this node where more than a quarter of the nodes drain
// because they are bad.
func (s *Self) YieldDrain(t *Turn) {
	if s.DrainOrder == nil || !launcher.IsBad(s.DrainOrder.Reason) {
		return
	}
	if bad, nodes := s.badNodes(); policy.Yields(s.Cfg.Name, bad, nodes) {
		t.Note(NoteWarn, 0, s.Cfg.Name, "takes work again: %d of %d nodes drain because they are bad, and at most %d may", len(bad)+1, nodes, policy.BadMax(nodes))
		t.Out.Drain = &launcher.Drain{}
	}
}

// badNodes are the other nodes that drain because they are bad, and the number of all
// nodes.
func (s *Self) badNodes() (bad []filch.NodeName, nodes int) {
	for i := range s.Members.Len() {
		p := s.Members.At(int32(i))
		if p.Standing >= filch.Dead {
			continue
		}
		nodes++
		if p.Name != s.Cfg.Name && p.Standing == filch.Draining && launcher.IsBad(p.Why) {
			bad = append(bad, p.Name)
		}
	}
	return bad, nodes
}
